"""Writes on drafts: begun, kept, copied, put on a newer version, dropped; and the jobs that they start."""

from __future__ import annotations

from typing import Any

from django.db import transaction

from synthesis.contracts import State
from synthesis.errors import ProgramError
from webapp.accounts.services import audit
from webapp.edits.answer_forms.form_parts import merge_form
from webapp.edits.answer_forms.proposed_form import fill_in_proposal
from webapp.edits.draft_body import fill_draft, is_kept_already
from webapp.edits.forecasts import holds
from webapp.edits.models import Edit, EditKind, EditState, Forecast
from webapp.edits.proposals import (
    changes_anything,
    drafted_source,
    merged_checks,
    own_parts,
    spell_parts,
    standing_parts,
)
from webapp.edits.verifier_part import spell_restored
from webapp.endpoints.models import LLMRole
from webapp.endpoints.queries import default_of
from webapp.environments.models import Tool, Version
from webapp.errors import ChangedMeanwhile, Conflict, NotFound
from webapp.jobs.models import Job
from webapp.jobs.queries import open_of
from webapp.jobs.services import create
from webapp.scenarios.models import Task, TaskRevision
from webapp.scenarios.references import reference_of

FORECAST_JOB = "forecast_edit"
SAVE_JOB = "save_edit"
REPAIR_JOB = "repair_tool"
NO_AUTHOR = "No model plays the author. An administrator chooses one on the page Models, under Who plays what."


def subject_of(edit: Edit) -> str:
    """The subject of jobs that work on a draft."""
    return f"edit:{edit.pk}"


def is_stale(edit: Edit) -> bool:
    """Whether what the draft stands on is not current any more."""
    if edit.kind == EditKind.PROGRAM:
        return edit.environment.current_id != edit.version_id
    task = Task.objects.select_related("current").defer("current__record").filter(pk=edit.task_id or 0).first()
    if task is None or task.current is None or task.current_id != edit.revision_id:
        return True
    if "title" in edit.body and edit.base_title and task.title != edit.base_title:
        return True
    now = reference_of(task.current)
    return (now.pk if now else None) != edit.reference_id


def find_edit(pk: int) -> Edit:
    """A draft with what it stands on. Raises NotFound."""
    rows = Edit.objects.select_related("environment", "version", "task", "revision", "reference", "author", "initial")
    found = rows.defer("version__record", "version__introduction", "initial__body").filter(pk=pk).first()
    if found is None:
        raise NotFound("There is no such edit.")
    return found


@transaction.atomic
def start_tool_edit(user: Any, tool: Tool) -> Edit:
    """The person's open draft of a tool as the newest version has it, made where there is none.

    Raises Conflict: the newest version has no tool of this name.
    """
    newest = newest_of(tool)
    return _started(user, newest.version, newest.name)


def newest_of(tool: Tool) -> Tool:
    """The tool of this name in its environment's newest version. Raises Conflict: there is none."""
    environment = Version.objects.select_related("environment").get(pk=tool.version_id).environment
    rows = Tool.objects.filter(version=environment.current_id or 0, name=tool.name)
    found = rows.select_related("version__environment").first()
    if found is None:
        raise Conflict("This is a tool of an older version, and the newest one has no tool of this name.")
    return found


def find_own_draft(user: Any, *, tool: int | None = None, task: int | None = None) -> Edit | None:
    """Find the newest draft of a tool or a task in which `user` has typed something and that is not saved."""
    rows = Edit.objects.filter(author=user, state=EditState.DRAFT, serial__gt=0, by_model="").order_by("-id")
    if task is not None:
        return rows.filter(task=task).defer("body").first()
    known = Tool.objects.filter(pk=tool or 0).select_related("version").first()
    if known is None:
        return None
    about = {"kind": EditKind.PROGRAM, "environment": known.version.environment_id, "tool": known.name}
    return rows.filter(**about).defer("body").first()


@transaction.atomic
def start_program_edit(user: Any, version: Version) -> Edit:
    """The person's open draft of a whole program. Raises Conflict: of an older version."""
    if version.environment.current_id != version.pk:
        raise Conflict("This is an older version. Edit the environment's newest version.")
    return _started(user, version, "")


def _started(user: Any, version: Version, tool: str) -> Edit:
    known = Edit.objects.filter(author=user, state=EditState.DRAFT, kind=EditKind.PROGRAM, version=version, tool=tool)
    found = known.filter(by_model="").order_by("-id").first()
    if found is not None:
        return found
    edit = Edit(kind=EditKind.PROGRAM, environment=version.environment, version=version, tool=tool, author=user)
    return _created(edit)


@transaction.atomic
def start_task_edit(user: Any, task: Task) -> Edit:
    """The person's open draft of a task. Raises Conflict: it has no content."""
    revision = TaskRevision.objects.filter(pk=task.current_id or 0).select_related("scenario").first()
    if revision is None:
        raise Conflict("This task has a name but no content. Import its file again.")
    reference = reference_of(revision)
    known = Edit.objects.filter(
        author=user, state=EditState.DRAFT, kind=EditKind.TASK, revision=revision, reference=reference
    )
    found = known.order_by("-id").first()
    if found is not None:
        return found
    edit = Edit(
        kind=EditKind.TASK, environment_id=task.environment_id, version_id=revision.scenario.version_id, task=task,
        revision=revision, reference=reference, author=user, base_title=task.title,
    )  # fmt: skip
    if revision.superseded:
        fill_in_proposal(edit, revision)
    return _created(edit)


@transaction.atomic
def start_task_restore(user: Any, revision: TaskRevision) -> Edit:
    """A draft that gives a task what an earlier revision had. Raises Conflict: it is the current one."""
    task = Task.objects.select_related("current__scenario").get(pk=revision.task_id)
    if task.current is None or task.current_id == revision.pk:
        raise Conflict("This is the task's current revision.")
    known, then = reference_of(task.current), reference_of(revision)
    body = {"title": task.title, **spell_parts(revision), "verifier": spell_restored(revision, task.current)}
    if "revision" in body["verifier"]:  # it comes whole, its golden state too
        body.pop("equality", None)
    if then is not None:
        body["reference"] = {"calls": then.calls, "answer": then.answer}
    other = revision.scenario.initial_id != task.current.scenario.initial_id
    edit = Edit(
        kind=EditKind.TASK, environment_id=task.environment_id, version_id=task.current.scenario.version_id, task=task,
        revision=task.current, reference=known, author=user, body=body, serial=1, base_title=task.title,
        initial_id=revision.scenario.initial_id if other else None, why=f"Restores revision {revision.number}.",
    )  # fmt: skip
    return _created(edit)


@transaction.atomic
def start_version_restore(user: Any, version: Version) -> Edit:
    """A draft that gives an environment the program of an earlier version. Raises Conflict: it is the current one."""
    current = version.environment.current
    if current is None or current.pk == version.pk:
        raise Conflict("This is the environment's current version.")
    edit = Edit(
        kind=EditKind.PROGRAM, environment=version.environment, version=current, author=user, serial=1,
        body={"source": version.source}, why=f"Restores version {version.number}.",
    )  # fmt: skip
    return _created(edit)


def _created(edit: Edit) -> Edit:
    edit.digest = edit.compute_digest()
    edit.save()
    audit(edit.author, "edit.start", edit, environment=edit.environment_id, task=edit.task_id, tool=edit.tool)
    return edit


@transaction.atomic
def keep_draft(
    user: Any, pk: int, body: dict[str, Any], serial: int, *, state: State | None = None, why: str | None = None
) -> Edit:
    """Write a draft in place of the one with this `serial`; `state` is another initial state.

    Raises NotFound; InputError: a part of it; Conflict: saved, dropped or another's; ChangedMeanwhile: written since.
    """
    edit = _own(user, pk)
    if edit.serial != serial:
        if is_kept_already(edit, body, state, why):
            return edit
        words = "This draft was changed in another tab since you opened it, so it stays as that tab kept it."
        raise ChangedMeanwhile(words, facts={"serial": edit.serial})
    fill_draft(edit, body, state, why)
    return _written(edit)


def _written(edit: Edit) -> Edit:
    edit.serial += 1
    edit.digest = edit.compute_digest()
    edit.save()
    return edit


@transaction.atomic
def drop_edit(user: Any, pk: int) -> Edit:
    """Put a draft away; it can be taken up again. Raises NotFound, Conflict."""
    edit = _own(user, pk)
    edit.state = EditState.DROPPED
    edit.serial += 1
    edit.save(update_fields=["state", "serial", "updated_at"])
    audit(user, "edit.drop", edit)
    return edit


@transaction.atomic
def take_up(user: Any, pk: int) -> Edit:
    """Open a dropped draft again. Raises NotFound, Conflict."""
    edit = _locked(pk)
    if edit.author_id != user.pk or edit.state != EditState.DROPPED:
        raise Conflict("Only a dropped edit can be taken up again, by its author.")
    edit.state = EditState.DRAFT
    edit.serial += 1
    edit.save(update_fields=["state", "serial", "updated_at"])
    audit(user, "edit.take_up", edit)
    return edit


@transaction.atomic
def copy_edit(user: Any, pk: int) -> Edit:
    """A draft of the person's own with the same content. Raises NotFound."""
    known = _locked(pk)
    made = Edit(
        kind=known.kind, environment_id=known.environment_id, version=known.version, tool=known.tool, task=known.task,
        revision=known.revision, reference=known.reference, body=known.body, initial_id=known.initial_id,
        why=known.why, author=user, origin=known, base_title=known.base_title,
    )  # fmt: skip
    return _created(made)


@transaction.atomic
def renew_base(user: Any, pk: int) -> Edit:
    """Put a draft on what is current now: what it changes stays, what it left as it was is the current.

    Raises NotFound; Conflict: the tool is not there any more.
    """
    edit = _own(user, pk)
    if edit.kind == EditKind.PROGRAM:
        current = Version.objects.filter(pk=edit.environment.current_id or 0).first()
        if current is None:
            raise Conflict("The environment has no version any more.")
        try:
            drafted_source(edit, current)
        except ProgramError as error:
            raise Conflict(f"The draft does not fit on version {current.number}: {error}") from error
        edit.version = current
    else:
        task = Task.objects.select_related("current__scenario").get(pk=edit.task_id or 0)
        if task.current is None:
            raise Conflict("The task has no content any more.")
        before = standing_parts(edit)
        edit.task, edit.revision, edit.reference = task, task.current, reference_of(task.current)
        edit.version_id, edit.base_title = task.current.scenario.version_id, task.title
        body = dict(edit.body)
        now = standing_parts(edit)
        if "checks" in body:
            body["checks"] = merged_checks(before.get("checks", []), body["checks"], now["checks"])
        merge_form(body, before, now)
        edit.body = own_parts(edit, body)
    return _written(edit)


def _locked(pk: int) -> Edit:
    if not Edit.objects.select_for_update().filter(pk=pk).exists():
        raise NotFound("There is no such edit.")
    return find_edit(pk)


def _own(user: Any, pk: int) -> Edit:
    edit = _locked(pk)
    if edit.author_id != user.pk:
        raise Conflict(f"This draft is {edit.author}'s. Take a copy to change it.")
    if edit.state != EditState.DRAFT:
        raise Conflict(f"This edit is {edit.get_state_display()}; it is not changed any more.")
    if open_of(SAVE_JOB, subject_of(edit)) is not None:
        raise Conflict("This edit is being saved.")
    return edit


def newest_forecast(edit: Edit) -> Forecast | None:
    """The newest forecast of a draft, whatever it was worked out on."""
    return edit.forecasts.select_related("job").order_by("-id").first()


@transaction.atomic
def start_forecast(user: Any, pk: int, *, again: bool = False) -> Forecast:
    """Queue the working out of what saving a draft would do; one that holds or is on its way is handed back, the first
    not where it is asked for `again`."""
    edit = _locked(pk)
    require_changes(edit)
    known = newest_forecast(edit)
    if known is not None and not again and holds(known, edit):
        return known
    if known is not None and known.digest == edit.digest and open_of(FORECAST_JOB, subject_of(edit)) is not None:
        return known
    forecast = Forecast.objects.create(edit=edit, digest=edit.digest)
    title = f"What saving edit {edit.pk} would do"
    forecast.job = create(FORECAST_JOB, title, {"forecast": forecast.pk}, user, subject=subject_of(edit))
    forecast.save(update_fields=["job"])
    return forecast


@transaction.atomic
def start_save(user: Any, pk: int, serial: int) -> Job:
    """Queue the saving of a draft as it is now. Raises NotFound, Conflict, ChangedMeanwhile."""
    edit = _own(user, pk)
    require_changes(edit)
    if edit.serial != serial:
        raise ChangedMeanwhile(
            "This draft was changed in another tab since you opened it.", facts={"serial": edit.serial}
        )
    if is_stale(edit):
        what = (
            "another version of the environment became current"
            if edit.kind == EditKind.PROGRAM
            else "the task was changed"
        )
        raise ChangedMeanwhile(f"Since this draft was begun {what}. Put the draft on it, look at both, and save then.")
    job = create(SAVE_JOB, f"Save edit {edit.pk}", {"edit": edit.pk, "serial": serial}, user, subject=subject_of(edit))
    audit(user, "edit.save", edit, job=job.pk, environment=edit.environment_id, task=edit.task_id, tool=edit.tool)
    return job


def require_changes(edit: Edit) -> None:
    """Raises Conflict: nothing was changed yet."""
    if not changes_anything(edit):
        raise Conflict("Nothing was changed yet.")


@transaction.atomic
def start_repair(user: Any, tool: Tool, origin: Edit | None = None) -> Job:
    """Queue a repair of a tool, as the newest version has it, by the author model.

    Raises Conflict: the newest version has no such tool, or no model plays the author.
    """
    tool = newest_of(tool)
    if default_of(LLMRole.AUTHOR) is None:
        raise Conflict(NO_AUTHOR)
    subject = f"tool:{tool.pk}"
    known = open_of(REPAIR_JOB, subject)
    if known is not None:
        return known
    payload = {"tool": tool.pk, "origin": origin.pk if origin else None}
    return create(REPAIR_JOB, f"Repair of {tool.name}", payload, user, subject=subject)


def may_change(user: Any, edit: Edit) -> bool:
    """Whether the person may change this draft."""
    return edit.author_id == user.pk and edit.state == EditState.DRAFT

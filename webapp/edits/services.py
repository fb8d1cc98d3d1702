"""Writes on drafts: started, kept, copied, put on a newer version, dropped; and the jobs that they start."""

from __future__ import annotations

from typing import Any

from django.db import transaction

from synthesis.contracts import State
from synthesis.errors import ProgramError
from webapp.accounts.services import write_audit_entry
from webapp.common.errors import ChangedMeanwhile, Conflict, NotFound
from webapp.edits.answer_forms.form_parts import merge_form
from webapp.edits.answer_forms.proposed_form import fill_in_proposal
from webapp.edits.draft_body import fill_draft, is_kept_already
from webapp.edits.forecasts import is_forecast_valid
from webapp.edits.models import Edit, EditKind, EditState, Forecast
from webapp.edits.proposals import (
    build_drafted_source,
    get_base_parts,
    has_changes,
    keep_changed_parts,
    merge_checks,
    serialize_parts,
)
from webapp.edits.verifier_part import serialize_restored
from webapp.endpoints.models import LLMRole
from webapp.endpoints.queries import find_default_model
from webapp.environments.models import Tool, Version
from webapp.jobs.models import Job
from webapp.jobs.queries import find_open_job
from webapp.jobs.services import enqueue_job
from webapp.scenarios.models import Task, TaskRevision
from webapp.scenarios.references import find_reference

FORECAST_JOB = "forecast_edit"
SAVE_JOB = "save_edit"
REPAIR_JOB = "repair_tool"
NO_AUTHOR = "No model plays the author. An administrator chooses one on the page Models, under Who plays what."


def get_job_subject(edit: Edit) -> str:
    """Return the subject of jobs that work on a draft."""
    return f"edit:{edit.pk}"


def is_stale(edit: Edit) -> bool:
    """Return whether the base of the draft is no longer current."""
    if edit.kind == EditKind.PROGRAM:
        return edit.environment.current_id != edit.version_id
    task = Task.objects.select_related("current").defer("current__record").filter(pk=edit.task_id or 0).first()
    if task is None or task.current is None or task.current_id != edit.revision_id:
        return True
    if "title" in edit.body and edit.base_title and task.title != edit.base_title:
        return True
    now = find_reference(task.current)
    return (now.pk if now else None) != edit.reference_id


def find_edit(pk: int) -> Edit:
    """Return a draft with its base. Raises NotFound."""
    rows = Edit.objects.select_related("environment", "version", "task", "revision", "reference", "author", "initial")
    edit = rows.defer("version__record", "version__introduction", "initial__body").filter(pk=pk).first()
    if edit is None:
        raise NotFound("There is no such edit.")
    return edit


@transaction.atomic
def start_tool_edit(user: Any, tool: Tool) -> Edit:
    """Return the person's open draft of a tool on the newest version; create it if there is none.

    Raises Conflict if the newest version has no tool of this name.
    """
    newest = get_newest_tool(tool)
    return _get_or_create_draft(user, newest.version, newest.name)


def get_newest_tool(tool: Tool) -> Tool:
    """Return the tool of this name in its environment's newest version. Raises Conflict if there is none."""
    environment = Version.objects.select_related("environment").get(pk=tool.version_id).environment
    rows = Tool.objects.filter(version=environment.current_id or 0, name=tool.name)
    newest = rows.select_related("version__environment").first()
    if newest is None:
        raise Conflict("This is a tool of an older version, and the newest one has no tool of this name.")
    return newest


def find_own_draft(user: Any, *, tool: int | None = None, task: int | None = None) -> Edit | None:
    """Find the newest unsaved draft of a tool or a task in which `user` has typed something."""
    rows = Edit.objects.filter(author=user, state=EditState.DRAFT, serial__gt=0, by_model="").order_by("-id")
    if task is not None:
        return rows.filter(task=task).defer("body").first()
    known_tool = Tool.objects.filter(pk=tool or 0).select_related("version").first()
    if known_tool is None:
        return None
    lookups = {"kind": EditKind.PROGRAM, "environment": known_tool.version.environment_id, "tool": known_tool.name}
    return rows.filter(**lookups).defer("body").first()


@transaction.atomic
def start_program_edit(user: Any, version: Version) -> Edit:
    """Return the person's open draft of a whole program. Raises Conflict for an older version."""
    if version.environment.current_id != version.pk:
        raise Conflict("This is an older version. Edit the environment's newest version.")
    return _get_or_create_draft(user, version, "")


def _get_or_create_draft(user: Any, version: Version, tool: str) -> Edit:
    open_drafts = Edit.objects.filter(
        author=user, state=EditState.DRAFT, kind=EditKind.PROGRAM, version=version, tool=tool
    )
    draft = open_drafts.filter(by_model="").order_by("-id").first()
    if draft is not None:
        return draft
    edit = Edit(kind=EditKind.PROGRAM, environment=version.environment, version=version, tool=tool, author=user)
    return _create_draft(edit)


@transaction.atomic
def start_task_edit(user: Any, task: Task) -> Edit:
    """Return the person's open draft of a task; create it if there is none. Raises Conflict if the task has no
    content."""
    revision = TaskRevision.objects.filter(pk=task.current_id or 0).select_related("scenario").first()
    if revision is None:
        raise Conflict("This task has a name but no content. Import its file again.")
    reference = find_reference(revision)
    open_drafts = Edit.objects.filter(
        author=user, state=EditState.DRAFT, kind=EditKind.TASK, revision=revision, reference=reference
    )
    draft = open_drafts.order_by("-id").first()
    if draft is not None:
        return draft
    edit = Edit(
        kind=EditKind.TASK, environment_id=task.environment_id, version_id=revision.scenario.version_id, task=task,
        revision=revision, reference=reference, author=user, base_title=task.title,
    )  # fmt: skip
    if revision.superseded:
        fill_in_proposal(edit, revision)
    return _create_draft(edit)


@transaction.atomic
def start_task_restore(user: Any, revision: TaskRevision) -> Edit:
    """Create a draft that restores an earlier revision of a task. Raises Conflict if the revision is the current
    one."""
    task = Task.objects.select_related("current__scenario").get(pk=revision.task_id)
    if task.current is None or task.current_id == revision.pk:
        raise Conflict("This is the task's current revision.")
    current_reference, earlier_reference = find_reference(task.current), find_reference(revision)
    body = {"title": task.title, **serialize_parts(revision), "verifier": serialize_restored(revision, task.current)}
    if "revision" in body["verifier"]:  # the restored verifier is complete, with its golden state
        body.pop("equality", None)
    if earlier_reference is not None:
        body["reference"] = {"calls": earlier_reference.calls, "answer": earlier_reference.answer}
    other = revision.scenario.initial_id != task.current.scenario.initial_id
    edit = Edit(
        kind=EditKind.TASK, environment_id=task.environment_id, version_id=task.current.scenario.version_id, task=task,
        revision=task.current, reference=current_reference, author=user, body=body, serial=1, base_title=task.title,
        initial_id=revision.scenario.initial_id if other else None, why=f"Restores revision {revision.number}.",
    )  # fmt: skip
    return _create_draft(edit)


@transaction.atomic
def start_version_restore(user: Any, version: Version) -> Edit:
    """Create a draft that restores the program of an earlier version. Raises Conflict if the version is the current
    one."""
    current = version.environment.current
    if current is None or current.pk == version.pk:
        raise Conflict("This is the environment's current version.")
    edit = Edit(
        kind=EditKind.PROGRAM, environment=version.environment, version=current, author=user, serial=1,
        body={"source": version.source}, why=f"Restores version {version.number}.",
    )  # fmt: skip
    return _create_draft(edit)


def _create_draft(edit: Edit) -> Edit:
    edit.digest = edit.compute_digest()
    edit.save()
    write_audit_entry(
        edit.author, "edit.start", edit, environment=edit.environment_id, task=edit.task_id, tool=edit.tool
    )
    return edit


@transaction.atomic
def keep_draft(
    user: Any, pk: int, body: dict[str, Any], serial: int, *, state: State | None = None, why: str | None = None
) -> Edit:
    """Write a draft in place of the one with this `serial`; `state` is another initial state.

    Raises NotFound; InputError with the faulty part; Conflict if it is saved, dropped or another person's;
    ChangedMeanwhile if it was written since.
    """
    edit = _lock_own_draft(user, pk)
    if edit.serial != serial:
        if is_kept_already(edit, body, state, why):
            return edit
        words = "This draft was changed in another tab since you opened it, so it stays as that tab kept it."
        raise ChangedMeanwhile(words, facts={"serial": edit.serial})
    fill_draft(edit, body, state, why)
    return _write_draft(edit)


def _write_draft(edit: Edit) -> Edit:
    edit.serial += 1
    edit.digest = edit.compute_digest()
    edit.save()
    return edit


@transaction.atomic
def drop_edit(user: Any, pk: int) -> Edit:
    """Drop a draft; it can be opened again. Raises NotFound, Conflict."""
    edit = _lock_own_draft(user, pk)
    edit.state = EditState.DROPPED
    edit.serial += 1
    edit.save(update_fields=["state", "serial", "updated_at"])
    write_audit_entry(user, "edit.drop", edit)
    return edit


@transaction.atomic
def reopen_draft(user: Any, pk: int) -> Edit:
    """Open a dropped draft again. Raises NotFound, Conflict."""
    edit = _lock_edit(pk)
    if edit.author_id != user.pk or edit.state != EditState.DROPPED:
        raise Conflict("Only a dropped edit can be taken up again, by its author.")
    edit.state = EditState.DRAFT
    edit.serial += 1
    edit.save(update_fields=["state", "serial", "updated_at"])
    write_audit_entry(user, "edit.take_up", edit)
    return edit


@transaction.atomic
def copy_edit(user: Any, pk: int) -> Edit:
    """Create a draft of the person's own with the same content. Raises NotFound."""
    original = _lock_edit(pk)
    copied = Edit(
        kind=original.kind, environment_id=original.environment_id, version=original.version, tool=original.tool,
        task=original.task, revision=original.revision, reference=original.reference, body=original.body,
        initial_id=original.initial_id, why=original.why, author=user, origin=original, base_title=original.base_title,
    )  # fmt: skip
    return _create_draft(copied)


@transaction.atomic
def renew_base(user: Any, pk: int) -> Edit:
    """Put a draft on the current version or revision: its changes are kept, unchanged parts become the current ones.

    Raises NotFound; Conflict if the tool no longer exists.
    """
    edit = _lock_own_draft(user, pk)
    if edit.kind == EditKind.PROGRAM:
        current = Version.objects.filter(pk=edit.environment.current_id or 0).first()
        if current is None:
            raise Conflict("The environment has no version any more.")
        try:
            build_drafted_source(edit, current)
        except ProgramError as error:
            raise Conflict(f"The draft does not fit on version {current.number}: {error}") from error
        edit.version = current
    else:
        task = Task.objects.select_related("current__scenario").get(pk=edit.task_id or 0)
        if task.current is None:
            raise Conflict("The task has no content any more.")
        before = get_base_parts(edit)
        edit.task, edit.revision, edit.reference = task, task.current, find_reference(task.current)
        edit.version_id, edit.base_title = task.current.scenario.version_id, task.title
        body = dict(edit.body)
        now = get_base_parts(edit)
        if "checks" in body:
            body["checks"] = merge_checks(before.get("checks", []), body["checks"], now["checks"])
        merge_form(body, before, now)
        edit.body = keep_changed_parts(edit, body)
    return _write_draft(edit)


def _lock_edit(pk: int) -> Edit:
    if not Edit.objects.select_for_update().filter(pk=pk).exists():
        raise NotFound("There is no such edit.")
    return find_edit(pk)


def _lock_own_draft(user: Any, pk: int) -> Edit:
    edit = _lock_edit(pk)
    if edit.author_id != user.pk:
        raise Conflict(f"This draft is {edit.author}'s. Make your own copy to change it.")
    if edit.state != EditState.DRAFT:
        raise Conflict(f"This edit is {edit.get_state_display()}; it is not changed any more.")
    if find_open_job(SAVE_JOB, get_job_subject(edit)) is not None:
        raise Conflict("This edit is being saved.")
    return edit


def find_newest_forecast(edit: Edit) -> Forecast | None:
    """Return the newest forecast of a draft, for any state of the draft."""
    return edit.forecasts.select_related("job").order_by("-id").first()


@transaction.atomic
def start_forecast(user: Any, pk: int, *, again: bool = False) -> Forecast:
    """Queue the computation of what saving a draft would do; return a forecast that is valid or in progress instead.

    With `again` a valid forecast is computed anew.
    """
    edit = _lock_edit(pk)
    require_changes(edit)
    last_forecast = find_newest_forecast(edit)
    if last_forecast is not None and not again and is_forecast_valid(last_forecast, edit):
        return last_forecast
    if (
        last_forecast is not None
        and last_forecast.digest == edit.digest
        and find_open_job(FORECAST_JOB, get_job_subject(edit)) is not None
    ):
        return last_forecast
    forecast = Forecast.objects.create(edit=edit, digest=edit.digest)
    title = f"What saving edit {edit.pk} would do"
    forecast.job = enqueue_job(FORECAST_JOB, title, {"forecast": forecast.pk}, user, subject=get_job_subject(edit))
    forecast.save(update_fields=["job"])
    return forecast


@transaction.atomic
def start_save(user: Any, pk: int, serial: int) -> Job:
    """Queue the saving of a draft as it is now. Raises NotFound, Conflict, ChangedMeanwhile."""
    edit = _lock_own_draft(user, pk)
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
    job = enqueue_job(
        SAVE_JOB, f"Save edit {edit.pk}", {"edit": edit.pk, "serial": serial}, user, subject=get_job_subject(edit)
    )
    write_audit_entry(
        user, "edit.save", edit, job=job.pk, environment=edit.environment_id, task=edit.task_id, tool=edit.tool
    )
    return job


def require_changes(edit: Edit) -> None:
    """Raise Conflict if nothing was changed yet."""
    if not has_changes(edit):
        raise Conflict("Nothing was changed yet.")


@transaction.atomic
def start_repair(user: Any, tool: Tool, origin: Edit | None = None) -> Job:
    """Queue a repair of a tool, as the newest version has it, by the author model.

    Raises Conflict if the newest version has no such tool, or no model plays the author.
    """
    tool = get_newest_tool(tool)
    if find_default_model(LLMRole.AUTHOR) is None:
        raise Conflict(NO_AUTHOR)
    subject = f"tool:{tool.pk}"
    open_job = find_open_job(REPAIR_JOB, subject)
    if open_job is not None:
        return open_job
    payload = {"tool": tool.pk, "origin": origin.pk if origin else None}
    return enqueue_job(REPAIR_JOB, f"Repair of {tool.name}", payload, user, subject=subject)


def can_change_draft(user: Any, edit: Edit) -> bool:
    """Return whether the person may change this draft."""
    return edit.author_id == user.pk and edit.state == EditState.DRAFT

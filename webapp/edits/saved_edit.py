"""Saving of an edit: a further version with its tasks put on it, or a further revision of one task.

Everything is worked out before the transaction and written in one: either the whole edit counts, or nothing of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.utils import timezone

from synthesis.assessment.probe import probe_findings
from synthesis.contracts import Program
from synthesis.errors import InputError
from synthesis.runtime import Sandbox
from synthesis.verifiers.audit_report import TaskAudit
from webapp.accounts.row_log import acting
from webapp.accounts.services import audit as write_audit_log
from webapp.edits.effects.task_effects import prepared
from webapp.edits.forecasts import Progress, holds, work_out
from webapp.edits.models import Approval, Edit, EditKind, EditState, Forecast, ForecastTask
from webapp.edits.proposals import (
    KEPT_REFERENCE,
    ProposedProgram,
    ProposedTask,
    only_drops_reference,
    proposed_program,
    proposed_task,
    require_readable,
)
from webapp.edits.services import find_edit, is_stale, newest_forecast
from webapp.environments.models import Environment, Version
from webapp.environments.services import save_environment
from webapp.environments.totals import lock_environment
from webapp.errors import ChangedMeanwhile
from webapp.review.carry_over import ask_anew, carry_decisions
from webapp.review.verdicts import SETTLED
from webapp.scenarios.audits.services import NamedJudge, case_of, store
from webapp.scenarios.models import ReviewState, Task, TaskRevision
from webapp.scenarios.references import save_reference
from webapp.scenarios.services import Start, rename_task, save_task
from webapp.scenarios.states import store_state

STALE = "It was changed since this edit was begun. Put the draft on what is there now, look at both, and save then."


@dataclass
class SavedEdit:
    """What saving came to, as the job tells it."""

    version: int | None = None
    revision: int | None = None
    tasks: int = 0
    carried: int = 0
    reopened: int = 0

    def report(self) -> dict[str, Any]:
        numbers = {"tasks": self.tasks, "approvals_carried": self.carried, "approvals_reopened": self.reopened}
        made = {name: value for name, value in (("version", self.version), ("revision", self.revision)) if value}
        return {**made, **numbers}


def save_edit(
    sandbox: Sandbox,
    user: Any,
    pk: int,
    judge: NamedJudge | None,
    progress: Progress = lambda done, total, note: None,
) -> SavedEdit:
    """Save a draft; saved already, it says what that came to. What it does is worked out anew where no forecast holds.

    Raises NotFound; InputError: the program cannot run at all; ChangedMeanwhile: what it stands on is not current any
    more; InfrastructureError.
    """
    edit = find_edit(pk)
    if edit.state == EditState.SAVED:
        return _saved_already(edit)
    if is_stale(edit):
        raise ChangedMeanwhile(STALE)
    if only_drops_reference(edit):
        raise InputError(KEPT_REFERENCE)
    forecast = newest_forecast(edit)
    if forecast is None or not holds(forecast, edit):
        forecast = Forecast.objects.create(edit=edit, digest=edit.digest)
        work_out(sandbox, forecast, judge, progress)
    program = None
    if edit.kind == EditKind.PROGRAM:
        program = proposed_program(edit)
        require_readable(program)
    lines = list(forecast.lines.select_related("task").order_by("task"))
    ready = _prepared(sandbox, edit, lines, program.program if program else None, progress)
    with acting(user, _why(edit)):
        return _write(sandbox, user, edit, forecast, program, ready)


def _prepared(
    sandbox: Sandbox, edit: Edit, lines: list[ForecastTask], program: Program | None, progress: Progress
) -> list[tuple[ForecastTask, ProposedTask, Start]]:
    """Each touched task as it would be, with what its checks say at the start; and its state in the store."""
    rows = Task.objects.select_related("environment", "current__scenario__version", "current__scenario__initial")
    tasks = rows.in_bulk([line.task_id for line in lines])
    found = []
    for number, line in enumerate(lines):
        progress(number, len(lines), "Saving")
        proposed, start = prepared(sandbox, proposed_task(edit, tasks[line.task_id], program))
        found.append((line, proposed, start))
    progress(len(lines), len(lines), "Saving")
    if edit.initial_id is None or edit.kind == EditKind.PROGRAM:
        return found
    for _, proposed, _ in found:
        store_state(proposed.initial)
    return found


def _write(
    sandbox: Sandbox,
    user: Any,
    edit: Edit,
    forecast: Forecast,
    program: ProposedProgram | None,
    ready: list[tuple[ForecastTask, ProposedTask, Start]],
) -> SavedEdit:
    environment = Environment.objects.get(pk=edit.environment_id)
    lock_environment(environment.pk)
    locked = Edit.objects.select_for_update(of=("self",)).get(pk=edit.pk)
    if locked.state == EditState.SAVED:
        return _saved_already(find_edit(edit.pk))
    edit = find_edit(edit.pk)
    if edit.digest != forecast.digest or is_stale(edit) or not holds(forecast, edit):
        raise ChangedMeanwhile(_name_clash(edit))
    done = SavedEdit(tasks=len(ready))
    version = edit.version
    if program is not None:
        first = ready[0][1].initial if ready else {}
        findings = [*program.findings, *probe_findings(sandbox, program.program, first)]
        _, _, version = save_environment(program.record, findings, environment.source, chosen_by=user)
        done.version = version.number
    for line, proposed, start in ready:
        made = _save_task(user, edit, version, line, proposed, start, done)
        done.revision = made.number if edit.kind == EditKind.TASK else None
        if edit.kind == EditKind.TASK:
            edit.saved_revision = made
    edit.state, edit.saved_at = EditState.SAVED, timezone.now()
    edit.saved_version = version if edit.kind == EditKind.PROGRAM else None
    edit.save(update_fields=["state", "saved_at", "saved_version", "saved_revision", "updated_at"])
    write_audit_log(user, "edit.saved", edit, environment=environment.pk, **done.report())
    return done


def _name_clash(edit: Edit) -> str:
    """State who saved what while the edit was being saved."""
    rows = Edit.objects.filter(state=EditState.SAVED, environment=edit.environment_id).exclude(pk=edit.pk)
    rows = rows.filter(saved_at__gte=edit.updated_at).select_related("author", "task").order_by("-saved_at")
    last = rows.first()
    if last is None:
        return "Something changed while the edit was saved; nothing was. Save it once more."
    what = f"task {last.task_id}" if last.task_id else last.tool or "the program"
    return f"{last.author} saved edit {last.pk} of {what} meanwhile; nothing was saved. Look at both, and save again."


def _save_task(
    user: Any,
    edit: Edit,
    version: Version,
    line: ForecastTask,
    proposed: ProposedTask,
    start: Start,
    done: SavedEdit,
) -> TaskRevision:
    """The task's further revision with its reference and audit, and what becomes of its approval."""
    task, before = proposed.task, proposed.revision
    carries, approved = line.approval == Approval.CARRIES, task.review_state == ReviewState.APPROVED
    initial = store_state(proposed.initial)
    own = user if edit.kind == EditKind.TASK else None
    saved = save_task(
        proposed.record, version, initial, start, task.source, keeps_review=carries, asked=True, chosen_by=own
    )
    if own is not None and saved.row.title != proposed.record.title:
        rename_task(saved.row, proposed.record.title)
    made = saved.revision
    if made.pk != before.pk and edit.kind == EditKind.PROGRAM:
        TaskRevision.objects.filter(pk=made.pk).update(origin_hash=before.origin_hash or before.content_hash)
    reference = None
    if proposed.reference is not None:
        source = "person" if proposed.new_reference or proposed.stored is None else proposed.stored.source
        reference = save_reference(made, proposed.reference, source)
    if line.audit is not None:
        case = case_of(TaskRevision.objects.select_related("task", "scenario__version").get(pk=made.pk), reference)
        named = NamedJudge(line.judge, _unopened) if line.judge else None
        store(case_of(case.revision, reference, named), TaskAudit.model_validate(line.audit))
    if carries:
        carry_decisions(task.pk, before, made, f"carried over by edit {edit.pk}: {line.approval_why}")
    elif made.pk != before.pk and made.review_state not in SETTLED:
        ask_anew(task.pk)
    done.carried += carries and approved
    done.reopened += approved and not carries
    return made


def _unopened() -> Any:
    raise AssertionError("an audit that is there asks no judge")


def _why(edit: Edit) -> str:
    what = f"edit {edit.pk}"
    return f"{what}: {edit.why}" if edit.why else what


def _saved_already(edit: Edit) -> SavedEdit:
    forecast = newest_forecast(edit)
    lines = forecast.lines.values_list("approval", "approved") if forecast is not None else []
    found = list(lines)
    return SavedEdit(
        edit.saved_version.number if edit.saved_version else None,
        edit.saved_revision.number if edit.saved_revision else None,
        len(found),
        sum(approval == Approval.CARRIES and approved for approval, approved in found),
        sum(approval == Approval.REOPENS and approved for approval, approved in found),
    )  # fmt: skip

"""Saving of an edit: a further version with its tasks on it, or a further revision of one task.

Everything is computed before the transaction and written in one: either the whole edit counts, or nothing of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.utils import timezone

from synthesis.assessment.probe import probe_program
from synthesis.contracts import Program
from synthesis.errors import InputError
from synthesis.runtime import Sandbox
from synthesis.verifiers.audit_report import TaskAudit
from webapp.accounts.row_log import set_actor
from webapp.accounts.services import write_audit_entry as write_audit_log
from webapp.common.errors import ChangedMeanwhile
from webapp.edits.draft_problems import KEPT_REFERENCE, only_drops_reference
from webapp.edits.effects.task_effects import prepare_task
from webapp.edits.forecasts import Progress, compute_forecast, describe_change, is_forecast_valid
from webapp.edits.models import Approval, Edit, EditKind, EditState, Forecast, ForecastTask
from webapp.edits.proposals import (
    ProposedProgram,
    ProposedTask,
    propose_program,
    propose_task,
    require_readable,
)
from webapp.edits.services import find_edit, find_newest_forecast, is_stale
from webapp.environments.models import Environment, Version
from webapp.environments.services import save_environment
from webapp.environments.totals import lock_environment
from webapp.review.carry_over import carry_decisions, reopen_task_items
from webapp.review.verdicts import SETTLED
from webapp.scenarios.audits.services import NamedJudge, build_audit_case, store_audit
from webapp.scenarios.models import ReviewState, Task, TaskRevision
from webapp.scenarios.references import save_reference
from webapp.scenarios.services import Start, rename_task, save_task
from webapp.scenarios.states import store_state

STALE = "It was changed since this edit was begun. Put the draft on what is there now, look at both, and save then."


@dataclass
class SavedEdit:
    """Result of saving, as the job reports it."""

    version: int | None = None
    revision: int | None = None
    tasks: int = 0
    carried: int = 0
    reopened: int = 0

    def report(self) -> dict[str, Any]:
        numbers = {"tasks": self.tasks, "approvals_carried": self.carried, "approvals_reopened": self.reopened}
        numbers_made = {
            name: value for name, value in (("version", self.version), ("revision", self.revision)) if value
        }
        return {**numbers_made, **numbers}


def save_edit(
    sandbox: Sandbox,
    user: Any,
    pk: int,
    judge: NamedJudge | None,
    progress: Progress = lambda done, total, note: None,
) -> SavedEdit:
    """Save a draft; if it is saved already, return the result. The forecast is computed if no valid one exists.

    Raises NotFound; InputError if the program cannot run at all; ChangedMeanwhile if the base is no longer current;
    InfrastructureError.
    """
    edit = find_edit(pk)
    if edit.state == EditState.SAVED:
        return _rebuild_result(edit)
    if is_stale(edit):
        raise ChangedMeanwhile(STALE)
    if only_drops_reference(edit):
        raise InputError(KEPT_REFERENCE)
    forecast = find_newest_forecast(edit)
    if forecast is None or not is_forecast_valid(forecast, edit):
        forecast = Forecast.objects.create(edit=edit, digest=edit.digest)
        compute_forecast(sandbox, forecast, judge, progress)
    program = None
    if edit.kind == EditKind.PROGRAM:
        program = propose_program(edit)
        require_readable(program)
    lines = list(forecast.lines.select_related("task").order_by("task"))
    ready = _prepare_tasks(sandbox, edit, lines, program.program if program else None, progress)
    with set_actor(user, _describe_edit(edit)):
        return _write_edit(sandbox, user, edit, forecast, program, ready)


def _prepare_tasks(
    sandbox: Sandbox, edit: Edit, lines: list[ForecastTask], program: Program | None, progress: Progress
) -> list[tuple[ForecastTask, ProposedTask, Start]]:
    """Return each affected task after the edit, with the results of its checks at the start; store its state."""
    rows = Task.objects.select_related("environment", "current__scenario__version", "current__scenario__initial")
    tasks = rows.in_bulk([line.task_id for line in lines])
    prepared_tasks = []
    for number, line in enumerate(lines):
        progress(number, len(lines), "Saving")
        proposed, start = prepare_task(sandbox, propose_task(edit, tasks[line.task_id], program))
        prepared_tasks.append((line, proposed, start))
    progress(len(lines), len(lines), "Saving")
    if edit.initial_id is None or edit.kind == EditKind.PROGRAM:
        return prepared_tasks
    for _, proposed, _ in prepared_tasks:
        store_state(proposed.initial)
    return prepared_tasks


def _write_edit(
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
        return _rebuild_result(find_edit(edit.pk))
    edit = find_edit(edit.pk)
    # Checked again under the lock: everything was computed before it.
    if edit.digest != forecast.digest or is_stale(edit) or not is_forecast_valid(forecast, edit):
        raise ChangedMeanwhile(_name_clash(edit, forecast))
    result = SavedEdit(tasks=len(ready))
    version = edit.version
    if program is not None:
        first = ready[0][1].initial if ready else {}
        findings = [*program.findings, *probe_program(sandbox, program.program, first)]
        _, _, version = save_environment(program.record, findings, environment.source, chosen_by=user)
        result.version = version.number
    for line, proposed, start in ready:
        new_revision = _save_task(user, edit, version, line, proposed, start, result)
        result.revision = new_revision.number if edit.kind == EditKind.TASK else None
        if edit.kind == EditKind.TASK:
            edit.saved_revision = new_revision
    edit.state, edit.saved_at = EditState.SAVED, timezone.now()
    edit.saved_version = version if edit.kind == EditKind.PROGRAM else None
    edit.save(update_fields=["state", "saved_at", "saved_version", "saved_revision", "updated_at"])
    write_audit_log(user, "edit.saved", edit, environment=environment.pk, **result.report())
    return result


def _name_clash(edit: Edit, forecast: Forecast) -> str:
    """Return who saved what, or what else changed, while the edit was being saved."""
    rows = Edit.objects.filter(state=EditState.SAVED, environment=edit.environment_id).exclude(pk=edit.pk)
    rows = rows.filter(saved_at__gte=edit.updated_at).select_related("author", "task").order_by("-saved_at")
    last = rows.first()
    if last is None:
        return f"{describe_change(forecast, edit)} while the edit was being saved; nothing was saved. Save it again."
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
    """Save the task's further revision with its reference and audit, and apply the effect on its approval."""
    task, before = proposed.task, proposed.revision
    carries, approved = line.approval == Approval.CARRIES, task.review_state == ReviewState.APPROVED
    initial = store_state(proposed.initial)
    choosing_user = user if edit.kind == EditKind.TASK else None
    saved = save_task(
        proposed.record, version, initial, start, task.source, keeps_review=carries, asked=True, chosen_by=choosing_user
    )
    if choosing_user is not None and saved.row.title != proposed.record.title:
        rename_task(saved.row, proposed.record.title)
    new_revision = saved.revision
    if new_revision.pk != before.pk and edit.kind == EditKind.PROGRAM:
        TaskRevision.objects.filter(pk=new_revision.pk).update(origin_hash=before.origin_hash or before.content_hash)
    reference = None
    if proposed.reference is not None:
        source = "person" if proposed.new_reference or proposed.stored is None else proposed.stored.source
        reference = save_reference(new_revision, proposed.reference, source)
    if line.audit is not None:
        case = build_audit_case(
            TaskRevision.objects.select_related("task", "scenario__version").get(pk=new_revision.pk), reference
        )
        named_judge = NamedJudge(line.judge, _refuse_judge) if line.judge else None
        store_audit(build_audit_case(case.revision, reference, named_judge), TaskAudit.model_validate(line.audit))
    if carries:
        carry_decisions(task.pk, before, new_revision, f"carried over by edit {edit.pk}: {line.approval_why}")
    elif new_revision.pk != before.pk and new_revision.review_state not in SETTLED:
        reopen_task_items(task.pk)
    done.carried += carries and approved
    done.reopened += approved and not carries
    return new_revision


def _refuse_judge() -> Any:
    raise AssertionError("an audit that is there asks no judge")


def _describe_edit(edit: Edit) -> str:
    what = f"edit {edit.pk}"
    return f"{what}: {edit.why}" if edit.why else what


def _rebuild_result(edit: Edit) -> SavedEdit:
    forecast = find_newest_forecast(edit)
    lines = forecast.lines.values_list("approval", "approved") if forecast is not None else []
    approvals = list(lines)
    return SavedEdit(
        edit.saved_version.number if edit.saved_version else None,
        edit.saved_revision.number if edit.saved_revision else None,
        len(approvals),
        sum(approval == Approval.CARRIES and approved for approval, approved in approvals),
        sum(approval == Approval.REOPENS and approved for approval, approved in approvals),
    )  # fmt: skip

"""Records of stored revisions: what a further revision is made of that differs in some parts alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from synthesis.contracts import Finding, Frame, Mark
from synthesis.formats.answer_form import with_form
from synthesis.formats.envscaler_export import STATE_FIELD
from synthesis.formats.records import CheckRecord, TaskRecord
from webapp.scenarios.answer_form import form_of
from webapp.scenarios.models import TaskRevision
from webapp.scenarios.references import frame_of_revision, withheld_of
from webapp.scenarios.services import Start

_MARK = "\N{END OF TEXT}"


@dataclass(frozen=True)
class RevisionChanges:
    """Parts of a revision that become others; None leaves a part as it is. `instruction` is without the answer form."""

    title: str | None = None
    instruction: str | None = None
    checks: tuple[CheckRecord, ...] | None = None
    criteria: tuple[str, ...] | None = None
    state_changes: bool = False
    """Whether the record's own spelling of the initial state does not hold any more."""


UNCHANGED = RevisionChanges()


def plain_instruction(revision: TaskRevision) -> str:
    """The instruction without the form of the answer that stands at its end."""
    form = form_of(revision)
    suffix = with_form(_MARK, form).removeprefix(_MARK) if form else ""
    return revision.instruction.removesuffix(suffix) if suffix else revision.instruction


def task_record(revision: TaskRevision, frame: Frame | None, changes: RevisionChanges = UNCHANGED) -> TaskRecord:
    """The revision as a record, with a frame and with changes. Its initial state is not in it."""
    stored = revision.checks.order_by("position").values_list("label", "source")
    checks = changes.checks
    if checks is None:
        checks = tuple(CheckRecord(label=label, source=source) for label, source in stored)
    instruction = revision.instruction
    if changes.instruction is not None:
        instruction = with_form(changes.instruction, form_of(revision))
    criteria = revision.criteria if changes.criteria is None else changes.criteria
    return TaskRecord(
        environment_key=revision.task.environment.key,
        key=revision.task.key,
        title=changes.title if changes.title is not None else revision.task.title,
        scenario_name=revision.scenario.name,
        instruction=instruction,
        initial_state={},
        checks=checks,
        criteria=tuple(str(criterion) for criterion in criteria),
        score_rule=revision.score_rule,
        frame=frame,
        withheld=withheld_of(revision),
        raw=_raw(revision.record, frame, changes),
    )


def same_record(revision: TaskRevision) -> TaskRecord:
    """The revision as a record, nothing changed."""
    return task_record(revision, frame_of_revision(revision))


def _raw(record: dict[str, Any], frame: Frame | None, changes: RevisionChanges) -> dict[str, Any]:
    """The imported record with the changes in its own fields, so that an export says the same as the revision."""
    raw = {name: value for name, value in record.items() if name != "frame"}
    if changes.instruction is not None:
        raw["task"] = changes.instruction
    if changes.checks is not None:
        raw["checklist"] = [check.label for check in changes.checks]
        raw["checklist_with_func"] = [{"check_item": c.label, "check_func": c.source} for c in changes.checks]
    if changes.criteria is not None:
        raw["criteria"] = list(changes.criteria)
    if changes.state_changes and STATE_FIELD in raw:
        raw[STATE_FIELD] = None
    if frame is not None:
        raw["frame"] = frame.model_dump(mode="json", exclude_defaults=True)
    return raw


def start_of(revision: TaskRevision) -> Start:
    """What is known of a revision's checks at the start."""
    rows = list(revision.checks.order_by("position").values_list("mark", "start_error"))
    marks: tuple[Mark, ...] = tuple(mark for mark, _ in rows)  # type: ignore[misc]
    found = revision.findings.order_by("id").values("kind", "severity", "place", "message", "data")
    return Start(
        marks=marks,
        errors=tuple(error for _, error in rows),
        do_nothing=revision.do_nothing,
        findings=[Finding(**row) for row in found],
    )

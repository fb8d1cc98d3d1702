"""Records of stored revisions, for further revisions that differ in some parts only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from synthesis.contracts import (
    AnswerField,
    CheckRecord,
    ChecksVerifier,
    Criterion,
    Finding,
    Frame,
    GoldenVerifier,
    Mark,
    ScriptVerifier,
    Verifier,
)
from synthesis.formats.answer_form import add_field_checks, drop_field_checks, serialize_form
from synthesis.formats.envscaler_export import STATE_FIELD
from synthesis.formats.records import TaskRecord
from synthesis.formats.spoken_facts import build_fact_checks
from synthesis.formats.verifier_record import serialize_verifier
from webapp.scenarios.answers.answer_form import read_form_and_expected
from webapp.scenarios.models import TaskRevision
from webapp.scenarios.references import read_consistency, read_frame, read_withheld
from webapp.scenarios.services import Start
from webapp.scenarios.verifiers import read_verifier


@dataclass(frozen=True)
class RevisionChanges:
    """Changed parts of a revision; None leaves a part as it is. `checks` are those that people write: the ones that are
    made from the answer form follow from it."""

    title: str | None = None
    instruction: str | None = None
    checks: tuple[CheckRecord, ...] | None = None
    criteria: tuple[Criterion, ...] | None = None
    verifier: Verifier | None = None
    """Another verifier as a whole; of checks and criteria the parts above suffice."""
    answer_form: tuple[AnswerField, ...] | None = None
    expected_answer: dict[str, Any] | None = None
    state_changes: bool = False
    """Whether the record's own spelling of the initial state does not hold any more."""

    @property
    def has_verifier_changes(self) -> bool:
        """True if the checks, the verifier, the answer form or its expected values change."""
        parts = (self.checks, self.verifier, self.answer_form, self.expected_answer)
        return any(part is not None for part in parts)

    @property
    def has_question_changes(self) -> bool:
        """True if runs at the revision say nothing about the changed one."""
        parts = (self.instruction, self.criteria)
        return self.has_verifier_changes or self.state_changes or any(part is not None for part in parts)


UNCHANGED = RevisionChanges()
_SPELLED = ("frame", "answer_form", "expected_answer", "verifier")
"""Parts of a record that are spelled anew."""


def build_task_record(revision: TaskRevision, frame: Frame | None, changes: RevisionChanges = UNCHANGED) -> TaskRecord:
    """Return the revision as a record, with a frame and with changes. Its initial state is not included."""
    checks = changes.checks if changes.checks is not None else _list_stored_checks(revision)
    form, expected = old_form, old_expected = read_form_and_expected(revision)
    if changes.has_verifier_changes:
        form = changes.answer_form if changes.answer_form is not None else form
        expected = changes.expected_answer if changes.expected_answer is not None else expected
        checks = add_field_checks(drop_field_checks(checks, old_form, old_expected), form, expected)
    verifier = _build_changed_verifier(revision, frame, changes, checks, expected)
    return TaskRecord(
        environment_key=revision.task.environment.key,
        key=revision.task.key,
        title=changes.title if changes.title is not None else revision.task.title,
        scenario_name=revision.scenario.name,
        instruction=revision.instruction if changes.instruction is None else changes.instruction,
        answer_form=form,
        expected_answer=expected,
        initial_state={},
        verifier=verifier,
        withheld=read_withheld(revision),
        variant=revision.variant,
        consistency=None if changes.has_question_changes else read_consistency(revision),
        raw=_build_raw_record(revision.record, verifier, changes, checks) | serialize_form(form, expected),
    )


def _build_changed_verifier(
    revision: TaskRevision,
    frame: Frame | None,
    changes: RevisionChanges,
    checks: tuple[CheckRecord, ...],
    expected: dict[str, Any],
) -> Verifier:
    """Return the revision's verifier with the changes, of the same kind unless they bring another one."""
    verifier = changes.verifier if changes.verifier is not None else read_verifier(revision)
    if isinstance(verifier, ChecksVerifier):
        return verifier.model_copy(update={"checks": checks, "marks": None, "frame": frame})
    if isinstance(verifier, GoldenVerifier):
        return verifier.model_copy(update={"checks": checks})
    if isinstance(verifier, ScriptVerifier):
        return verifier.model_copy(update={"expected_answer": expected, "frame": frame})
    criteria = verifier.criteria if changes.criteria is None else changes.criteria
    return verifier.model_copy(update={"criteria": criteria, "expected_answer": expected})


def list_own_checks(revision: TaskRevision) -> tuple[CheckRecord, ...]:
    """Return the checks of a revision that people write: those of its answer form follow from it."""
    return drop_field_checks(_list_stored_checks(revision), *read_form_and_expected(revision))


def _list_stored_checks(revision: TaskRevision) -> tuple[CheckRecord, ...]:
    """Return the checks of a revision; none for a script, whose assertions follow from it."""
    if revision.verifier_kind == "script":
        return ()
    rows = revision.checks.exclude(source="").order_by("position").values_list("label", "source")
    return tuple(CheckRecord(label=label, source=source) for label, source in rows)


def build_unchanged_record(revision: TaskRevision) -> TaskRecord:
    """Return the revision as a record without changes."""
    return build_task_record(revision, read_frame(revision))


def _build_raw_record(
    record: dict[str, Any], verifier: Verifier, changes: RevisionChanges, checks: Sequence[CheckRecord]
) -> dict[str, Any]:
    """Return the imported record with the changes in its own fields, so that an export agrees with the revision."""
    raw = {name: value for name, value in record.items() if name not in _SPELLED}
    if changes.instruction is not None:
        raw["task"] = changes.instruction
    if verifier.kind != "checks":
        raw = {name: value for name, value in raw.items() if name not in ("checklist", "checklist_with_func")}
    elif changes.has_verifier_changes:
        raw["checklist"] = [check.label for check in checks]
        raw["checklist_with_func"] = [{"check_item": c.label, "check_func": c.source} for c in checks]
    if changes.has_verifier_changes and "contains" in raw:
        kept_sources = {check.source for check in checks}
        raw["contains"] = [fact for fact in raw["contains"] if build_fact_checks([fact])[0].source in kept_sources]
    if changes.criteria is not None:
        raw["criteria"] = [criterion.record for criterion in changes.criteria]
    if changes.state_changes and STATE_FIELD in raw:
        raw[STATE_FIELD] = None
    if verifier.frame is not None:
        raw["frame"] = verifier.frame.model_dump(mode="json", exclude_defaults=True)
    return raw | serialize_verifier(verifier)


def read_start(revision: TaskRevision) -> Start:
    """Return the stored results of a revision's checks at the start."""
    rows = list(revision.checks.order_by("position").values_list("mark", "start_error"))
    marks: tuple[Mark, ...] = tuple(mark for mark, _ in rows)  # type: ignore[misc]
    stored_findings = revision.findings.order_by("id").values("kind", "severity", "place", "message", "data")
    return Start(
        marks=marks,
        errors=tuple(error for _, error in rows),
        do_nothing=revision.do_nothing,
        findings=[Finding(**row) for row in stored_findings],
    )

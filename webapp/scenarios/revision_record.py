"""Records of stored revisions: what a further revision is made of that differs in some parts alone."""

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
from synthesis.formats.answer_form import form_record, with_field_checks, without_field_checks
from synthesis.formats.envscaler_export import STATE_FIELD
from synthesis.formats.records import TaskRecord
from synthesis.formats.spoken_facts import fact_checks
from synthesis.formats.verifier_record import verifier_record
from webapp.scenarios.answers.answer_form import read_form_and_expected
from webapp.scenarios.models import TaskRevision
from webapp.scenarios.references import frame_of_revision, withheld_of
from webapp.scenarios.services import Start
from webapp.scenarios.verifiers import read_verifier


@dataclass(frozen=True)
class RevisionChanges:
    """Parts of a revision that become others; None leaves a part as it is. `checks` are those that people write: the
    ones that are made from the answer form follow from it."""

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
    def judges_otherwise(self) -> bool:
        """Whether the checks, the verifier, the answer form or its expected values become others."""
        parts = (self.checks, self.verifier, self.answer_form, self.expected_answer)
        return any(part is not None for part in parts)


UNCHANGED = RevisionChanges()
_SPELLED = ("frame", "answer_form", "expected_answer", "verifier")
"""Parts of a record that are spelled anew."""


def task_record(revision: TaskRevision, frame: Frame | None, changes: RevisionChanges = UNCHANGED) -> TaskRecord:
    """The revision as a record, with a frame and with changes. Its initial state is not in it."""
    checks = changes.checks if changes.checks is not None else _stored_checks(revision)
    form, expected = old_form, old_expected = read_form_and_expected(revision)
    if changes.judges_otherwise:
        form = changes.answer_form if changes.answer_form is not None else form
        expected = changes.expected_answer if changes.expected_answer is not None else expected
        checks = with_field_checks(without_field_checks(checks, old_form, old_expected), form, expected)
    verifier = _changed_verifier(revision, frame, changes, checks, expected)
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
        withheld=withheld_of(revision),
        raw=_raw(revision.record, verifier, changes, checks) | form_record(form, expected),
    )


def _changed_verifier(
    revision: TaskRevision,
    frame: Frame | None,
    changes: RevisionChanges,
    checks: tuple[CheckRecord, ...],
    expected: dict[str, Any],
) -> Verifier:
    """The revision's verifier with the changes, of the same kind unless these bring another one."""
    verifier = changes.verifier if changes.verifier is not None else read_verifier(revision)
    if isinstance(verifier, ChecksVerifier):
        return verifier.model_copy(update={"checks": checks, "marks": None, "frame": frame})
    if isinstance(verifier, GoldenVerifier):
        return verifier.model_copy(update={"checks": checks})
    if isinstance(verifier, ScriptVerifier):
        return verifier.model_copy(update={"expected_answer": expected, "frame": frame})
    criteria = verifier.criteria if changes.criteria is None else changes.criteria
    return verifier.model_copy(update={"criteria": criteria, "expected_answer": expected})


def own_checks(revision: TaskRevision) -> tuple[CheckRecord, ...]:
    """Return the checks of a revision that people write: those of its answer form follow from it."""
    return without_field_checks(_stored_checks(revision), *read_form_and_expected(revision))


def _stored_checks(revision: TaskRevision) -> tuple[CheckRecord, ...]:
    """The checks of a revision; none of a script, whose assertions follow from it."""
    if revision.verifier_kind == "script":
        return ()
    rows = revision.checks.exclude(source="").order_by("position").values_list("label", "source")
    return tuple(CheckRecord(label=label, source=source) for label, source in rows)


def same_record(revision: TaskRevision) -> TaskRecord:
    """The revision as a record, nothing changed."""
    return task_record(revision, frame_of_revision(revision))


def _raw(
    record: dict[str, Any], verifier: Verifier, changes: RevisionChanges, checks: Sequence[CheckRecord]
) -> dict[str, Any]:
    """The imported record with the changes in its own fields, so that an export says the same as the revision."""
    raw = {name: value for name, value in record.items() if name not in _SPELLED}
    if changes.instruction is not None:
        raw["task"] = changes.instruction
    if verifier.kind != "checks":
        raw = {name: value for name, value in raw.items() if name not in ("checklist", "checklist_with_func")}
    elif changes.judges_otherwise:
        raw["checklist"] = [check.label for check in checks]
        raw["checklist_with_func"] = [{"check_item": c.label, "check_func": c.source} for c in checks]
    if changes.judges_otherwise and "contains" in raw:
        kept = {check.source for check in checks}
        raw["contains"] = [fact for fact in raw["contains"] if fact_checks([fact])[0].source in kept]
    if changes.criteria is not None:
        raw["criteria"] = [criterion.record for criterion in changes.criteria]
    if changes.state_changes and STATE_FIELD in raw:
        raw[STATE_FIELD] = None
    if verifier.frame is not None:
        raw["frame"] = verifier.frame.model_dump(mode="json", exclude_defaults=True)
    return raw | verifier_record(verifier)


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

"""Verifier of a stored revision, as `synthesis` takes it, and the names of its parts on pages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from synthesis.contracts import (
    CheckRecord,
    ChecksVerifier,
    Criterion,
    Frame,
    GoldenVerifier,
    RubricVerifier,
    ScriptVerifier,
    Verifier,
)
from synthesis.formats.criteria import format_criterion_line, needs_fact_judge
from webapp.scenarios.answers.answer_form import read_form_and_expected
from webapp.scenarios.models import Check, TaskRevision
from webapp.scenarios.states import load_state

VERIFIER_NAMES = {
    "checks": "checks",
    "golden": "a golden state",
    "rubric": "a rubric",
    "script": "a verification script",
}
"""What people call each kind of verifier."""
VERIFIER_TITLES = {
    "checks": "Checks",
    "golden": "Golden state",
    "rubric": "Rubric",
    "script": "Verification script",
}
"""The same on its own: in filters, facts and pictures."""
VERDICT_NAMES = {
    "checks": ("check", "checks"),
    "golden": ("check", "checks"),
    "rubric": ("criterion", "criteria"),
    "script": ("assertion", "assertions"),
}
"""What people call one and several of the parts that a kind of verifier gives a verdict on."""
FRAMED = ("checks", "script")
"""The kinds of verifiers that may have a frame."""


def read_verifier(revision: TaskRevision) -> Verifier:
    """Return the verifier of a revision, whose golden state is loaded. Raises InputError if that is damaged."""
    frame = None if revision.frame is None else Frame.model_validate(revision.frame)
    if revision.verifier_kind == "rubric":
        _, expected = read_form_and_expected(revision)
        return RubricVerifier(criteria=read_criteria(revision.criteria), expected_answer=expected)
    if revision.verifier_kind == "script":
        _, expected = read_form_and_expected(revision)
        return ScriptVerifier(**(revision.verifier or {}), expected_answer=expected, frame=frame)
    rows = list(revision.checks.exclude(source="").order_by("position").values_list("label", "source", "mark"))
    checks = tuple(CheckRecord(label=label, source=source) for label, source, _ in rows)
    if revision.verifier_kind == "golden" and revision.golden_id is not None:
        return GoldenVerifier(**(revision.verifier or {}), state=load_state(revision.golden_id), checks=checks)
    rule: Any = revision.score_rule
    marks: tuple[Any, ...] = tuple(mark for _, _, mark in rows if mark)
    known_marks = marks if marks and len(marks) == len(checks) else None
    return ChecksVerifier(checks=checks, marks=known_marks, rule=rule, frame=frame)


def name_verdict(kind: str, count: int = 1) -> str:
    """Return the name of one of the parts that a kind of verifier decides, or of several."""
    return VERDICT_NAMES.get(kind, VERDICT_NAMES["checks"])[count != 1]


def read_shown_source(check: Check) -> str:
    """Return the source that is shown of a check: for an assertion the whole script, not the source made from it."""
    revision = check.revision
    return str((revision.verifier or {}).get("source", "")) if revision.verifier_kind == "script" else check.source


def read_criteria(stored: Iterable[Any]) -> tuple[Criterion, ...]:
    """Return the criteria that a revision holds, none if its verifier is no rubric."""
    return tuple(Criterion.model_validate(one) for one in stored)


def list_criteria_lines(revisions: Iterable[int]) -> dict[int, list[str]]:
    """Return the lines of the criteria of those among the revisions that a rubric judges."""
    rows = TaskRevision.objects.filter(pk__in=list(revisions), verifier_kind="rubric").values_list("pk", "criteria")
    return {pk: [format_criterion_line(one) for one in read_criteria(criteria)] for pk, criteria in rows}


def needs_judge(revision: TaskRevision) -> bool:
    """Return whether a judge has to decide what an attempt at the revision earns."""
    return needs_fact_judge(read_criteria(revision.criteria))

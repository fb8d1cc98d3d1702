"""Verdicts of people on each kind of object, their reasons, and which of them are needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from webapp.review.models import ReviewKind
from webapp.scenarios.models import ReviewState


@dataclass(frozen=True)
class Verdict:
    """One choice of a decision. `state` is the resulting state of a task; `key` is the letter that chooses it on the
    page."""

    code: str
    label: str
    hint: str
    key: str
    sign: str
    needs_reason: bool = False
    state: str = ""


@dataclass(frozen=True)
class Reason:
    code: str
    label: str


APPROVE, REQUEST_CHANGES, REJECT = "approve", "request_changes", "reject"
VERDICTS: dict[str, tuple[Verdict, ...]] = {
    ReviewKind.TASK: (
        Verdict(APPROVE, "Approve", "may be trained on", "a", "✓", state=ReviewState.APPROVED),
        Verdict(
            REQUEST_CHANGES, "Request changes", "back to its editor", "c", "↺", True,
            ReviewState.CHANGES_REQUESTED,
        ),
        Verdict(REJECT, "Reject", "never trained on", "r", "✕", True, ReviewState.REJECTED),
    ),
    ReviewKind.TOOL: (
        Verdict("tool_bug", "Tool bug", "the code breaks a rule", "1", "✕"),
        Verdict("test_bug", "Test bug", "no rule says so", "2", "▲"),
        Verdict("ambiguous_rule", "Ambiguous rule", "two readings", "3", "▲"),
        Verdict("flaky", "Flaky", "not the same each time", "4", "▲"),
        Verdict("judge_wrong", "Judge wrong", "the tool is right", "5", "✓"),
    ),
    ReviewKind.TRAJECTORY: (
        Verdict("right", "The reward is right", "it was earned, or rightly not", "a", "✓"),
        Verdict("wrong_reward", "The reward is wrong", "the verifier is mistaken", "c", "▲", True),
        Verdict("unusable", "Not to be trained on", "leave it out of datasets", "r", "✕", True),
    ),
}  # fmt: skip
REASONS: dict[str, tuple[Reason, ...]] = {
    ReviewKind.TASK: (
        Reason("unclear_instruction", "Unclear instruction"),
        Reason("against_state", "Against the state"),
        Reason("check_too_narrow", "Check too narrow"),
        Reason("check_too_loose", "Check too loose"),
        Reason("guard_missing", "Guard missing"),
        Reason("wrong_reference", "Wrong reference"),
        Reason("too_easy", "Too easy"),
        Reason("too_hard", "Too hard"),
        Reason("twin", "Twin of another"),
    ),
    ReviewKind.TOOL: (),
    ReviewKind.TRAJECTORY: (
        Reason("check_too_narrow", "Check too narrow"),
        Reason("check_too_loose", "Check too loose"),
        Reason("luck", "Right by luck"),
        Reason("shortcut", "An unwanted shortcut"),
        Reason("harmful", "Did something harmful as well"),
        Reason("bad_reasoning", "Reasoning does not fit the calls"),
        Reason("user_simulation", "The simulated user erred"),
        Reason("environment", "The environment erred"),
        Reason("twin", "Twin of another"),
    ),
}
"""In the order of their number keys."""
SETTLED = (ReviewState.APPROVED, ReviewState.CHANGES_REQUESTED, ReviewState.REJECTED)


def find_verdict(kind: str, code: str) -> Verdict | None:
    """Return the verdict with this code for the kind of object; None if there is none."""
    return next((verdict for verdict in VERDICTS[kind] if verdict.code == code), None)


def get_verdict_label(kind: str, code: str) -> str:
    verdict = find_verdict(kind, code)
    return verdict.label if verdict is not None else code


def list_reason_labels(kind: str, codes: Sequence[str]) -> list[str]:
    """Return the labels of reason codes; an unknown code is returned unchanged."""
    words = {reason.code: reason.label for reason in REASONS[kind]}
    return [words.get(code, code) for code in codes]

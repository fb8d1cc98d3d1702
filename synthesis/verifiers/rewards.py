"""The reward of an end for each kind of verifier, and the hash by which a score names its verifier."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from synthesis.contracts import (
    AnswerField,
    CheckRecord,
    GoldenVerifier,
    Mark,
    Patch,
    Reward,
    RubricVerifier,
    ScriptVerifier,
    State,
    Verdict,
    Verifier,
)
from synthesis.errors import InputError
from synthesis.runtime import Sandbox, apply_patch
from synthesis.verifiers.check_table import Bound, never_stop
from synthesis.verifiers.checks import Evaluator, compute_reward, derive_mark, hash_checks, trace_checks
from synthesis.verifiers.frame import build_frame_key, find_outside_changes
from synthesis.verifiers.golden import STATE_LABEL, build_state_verdict, golden_differences, hash_golden, reward_golden
from synthesis.verifiers.rubric import Rubric, hash_rubric


def score_end(
    sandbox: Evaluator,
    verifier: Verifier,
    initial: State,
    final: State,
    answer: str | None = "",
    marks: Sequence[Mark] | None = None,
) -> Reward:
    """Return the reward of an end: the state that an attempt left and its answer. States are encoded.

    `marks` are those of the checks at the start, if known. Raise InputError (no checks, or a rubric, for which
    `score_rubric` asks a judge) and InfrastructureError.
    """
    if isinstance(verifier, RubricVerifier):
        raise InputError("A rubric is scored by its criteria, of which a judge decides the facts.")
    sources = [check.source for check in verifier.checks]
    start_marks = marks if marks is not None else verifier.marks
    if verifier.rule == "goals" and start_marks is None:
        start_marks = [derive_mark(verdict) for verdict in sandbox.evaluate_checks(sources, initial, initial)]
    verdicts = sandbox.evaluate_checks(sources, initial, final, answer=answer)
    return reward_end(verifier, verdicts, initial, final, start_marks)


def reward_end(
    verifier: Verifier,
    verdicts: Sequence[Verdict],
    initial: State,
    final: State,
    marks: Sequence[Mark] | None = None,
) -> Reward:
    """Return the reward of an end from the verdicts of its checks. Raise InputError if there are none."""
    if isinstance(verifier, GoldenVerifier):
        return reward_golden(verifier, verdicts, initial, final)
    return compute_reward(verdicts, verifier.rule, marks, find_outside_changes(verifier.frame, initial, final))


def complete_verdicts(verifier: Verifier, verdicts: Sequence[Verdict], start: State, end: State) -> list[Verdict]:
    """Return the verdicts on an end as a reward lists them: that on a golden state before those of checks."""
    if not isinstance(verifier, GoldenVerifier):
        return list(verdicts)
    return [build_state_verdict(golden_differences(verifier, start, end)), *verdicts]


def trace_verdicts(
    sandbox: Sandbox,
    verifier: Verifier,
    initial: State,
    patches: Sequence[Patch],
    *,
    answer: str | None = "",
    over: Bound = never_stop,
) -> list[list[Verdict]]:
    """Return the verdict x step matrix: a row for each verdict, at the start and after each state-changing step.

    `over` may end it early, as it may end a `build_verdict_table`. Raise StateError and InfrastructureError.
    """
    sources = [check.source for check in verifier.checks]
    rows = trace_checks(sandbox, sources, initial, patches, answer=answer, over=over)
    if not isinstance(verifier, GoldenVerifier):
        return rows
    first, state = [build_state_verdict(golden_differences(verifier, initial, initial))], initial
    for patch in patches:
        state = apply_patch(state, patch)
        first.append(build_state_verdict(golden_differences(verifier, initial, state)))
    return [first, *rows]


def list_labels(verifier: Verifier) -> tuple[CheckRecord, ...]:
    """Return the label of each verdict, with the source of its check: a golden state has none."""
    own = (CheckRecord(label=STATE_LABEL, source=""),) if isinstance(verifier, GoldenVerifier) else ()
    return (*own, *verifier.checks)


def hash_verifier(verifier: Verifier, form: Sequence[AnswerField] = ()) -> str:
    """Return the SHA-256, in hex, of everything in a verifier that decides what ends earn."""
    if isinstance(verifier, RubricVerifier):
        return hash_rubric(Rubric.from_verifier(verifier, form))
    if isinstance(verifier, GoldenVerifier):
        return hash_golden(verifier)
    if isinstance(verifier, ScriptVerifier):
        return _hash_script(verifier)
    return hash_checks([check.source for check in verifier.checks], verifier.rule, verifier.frame)


def _hash_script(script: ScriptVerifier) -> str:
    parts = script.model_dump(mode="json", include={"kind", "source", "assertions", "expected_answer"})
    framed = {"frame": build_frame_key(script.frame)} if script.frame is not None else {}
    return hashlib.sha256(json.dumps({**parts, **framed}, sort_keys=True).encode("ascii")).hexdigest()

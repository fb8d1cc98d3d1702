"""What an end earns by each kind of verifier, and the hash that a score names its verifier by."""

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
from synthesis.verifiers.check_table import Bound, unbounded
from synthesis.verifiers.checks import Evaluator, mark_of, reward_of, trace, verifier_hash
from synthesis.verifiers.frame import frame_key, outside_changes
from synthesis.verifiers.golden import STATE_LABEL, golden_differences, golden_hash, reward_golden, state_verdict
from synthesis.verifiers.rubric import Rubric, rubric_hash


def score_end(
    sandbox: Evaluator,
    verifier: Verifier,
    initial: State,
    final: State,
    answer: str | None = "",
    marks: Sequence[Mark] | None = None,
) -> Reward:
    """Return what an end earns: the state that an attempt left and its answer. States are encoded.

    `marks` are what checks are at the start, if that is known. Raises InputError (nothing to judge by, or a rubric,
    which `score_rubric` asks a judge about) and InfrastructureError.
    """
    if isinstance(verifier, RubricVerifier):
        raise InputError("A rubric is scored by its criteria, of which a judge decides the facts.")
    sources = [check.source for check in verifier.checks]
    known = marks if marks is not None else verifier.marks
    if verifier.rule == "goals" and known is None:
        known = [mark_of(verdict) for verdict in sandbox.evaluate_checks(sources, initial, initial)]
    verdicts = sandbox.evaluate_checks(sources, initial, final, answer=answer)
    return reward_end(verifier, verdicts, initial, final, known)


def reward_end(
    verifier: Verifier,
    verdicts: Sequence[Verdict],
    initial: State,
    final: State,
    marks: Sequence[Mark] | None = None,
) -> Reward:
    """Return what an end earns of whose checks these are the verdicts. Raises InputError: nothing judges it."""
    if isinstance(verifier, GoldenVerifier):
        return reward_golden(verifier, verdicts, initial, final)
    return reward_of(verdicts, verifier.rule, marks, outside_changes(verifier.frame, initial, final))


def complete_verdicts(verifier: Verifier, verdicts: Sequence[Verdict], start: State, end: State) -> list[Verdict]:
    """Return the verdicts on an end as a reward lists them: in front of those of checks that on a golden state."""
    if not isinstance(verifier, GoldenVerifier):
        return list(verdicts)
    return [state_verdict(golden_differences(verifier, start, end)), *verdicts]


def trace_verdicts(
    sandbox: Sandbox,
    verifier: Verifier,
    initial: State,
    patches: Sequence[Patch],
    *,
    answer: str | None = "",
    over: Bound = unbounded,
) -> list[list[Verdict]]:
    """Return the verdict x step matrix: a row a verdict, at the start and after each state-changing step.

    `over` may end it early, as it may end a `verdict_table`. Raises StateError and InfrastructureError.
    """
    sources = [check.source for check in verifier.checks]
    rows = trace(sandbox, sources, initial, patches, answer=answer, over=over)
    if not isinstance(verifier, GoldenVerifier):
        return rows
    first, state = [state_verdict(golden_differences(verifier, initial, initial))], initial
    for patch in patches:
        state = apply_patch(state, patch)
        first.append(state_verdict(golden_differences(verifier, initial, state)))
    return [first, *rows]


def list_labels(verifier: Verifier) -> tuple[CheckRecord, ...]:
    """Return what each verdict is about, with the source that gives it: that of a golden state has none."""
    own = (CheckRecord(label=STATE_LABEL, source=""),) if isinstance(verifier, GoldenVerifier) else ()
    return (*own, *verifier.checks)


def hash_verifier(verifier: Verifier, form: Sequence[AnswerField] = ()) -> str:
    """Return the SHA-256, in hex, of everything in a verifier that decides what ends earn."""
    if isinstance(verifier, RubricVerifier):
        return rubric_hash(Rubric.from_verifier(verifier, form))
    if isinstance(verifier, GoldenVerifier):
        return golden_hash(verifier)
    if isinstance(verifier, ScriptVerifier):
        return _hash_script(verifier)
    return verifier_hash([check.source for check in verifier.checks], verifier.rule, verifier.frame)


def _hash_script(script: ScriptVerifier) -> str:
    parts = script.model_dump(mode="json", include={"kind", "source", "assertions", "expected_answer"})
    framed = {"frame": frame_key(script.frame)} if script.frame is not None else {}
    return hashlib.sha256(json.dumps({**parts, **framed}, sort_keys=True).encode("ascii")).hexdigest()

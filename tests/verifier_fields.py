"""Verifiers of test tasks, written as flat fields."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from synthesis.contracts import CheckRecord, ChecksVerifier, Reward, RubricVerifier, State, Verifier
from synthesis.verifiers.checks import Evaluator
from synthesis.verifiers.rewards import score_end


def list_checks(sources: Sequence[str | CheckRecord], labels: Sequence[str] = ()) -> tuple[CheckRecord, ...]:
    """Return checks of sources, with their labels if they are given."""
    named = [*labels, *[""] * len(sources)]
    return tuple(
        one if isinstance(one, CheckRecord) else CheckRecord(label=label, source=one)
        for one, label in zip(sources, named, strict=False)
    )


def score_checks(
    sandbox: Evaluator, checks: Sequence[str], initial: State, final: State, answer: str | None = "", **fields: Any
) -> Reward:
    """Return what an end earns by checks: `fields` are those of their verifier (`rule`, `marks`, `frame`)."""
    verifier = ChecksVerifier(checks=list_checks(checks), **fields)
    return score_end(sandbox, verifier, initial, final, answer)


def nest_verifier(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields with `verifier` instead of `checks`, `labels`, `rule`, `marks`, `frame` and `criteria`.

    `score_rule` is another name for `rule`. A `verifier` that is given stays.
    """
    kept = dict(fields)
    parts = {name: kept.pop(name, None) for name in ("checks", "labels", "rule", "score_rule", "marks", "frame")}
    criteria = kept.pop("criteria", None)
    if kept.get("verifier") is not None:
        return kept
    kept["verifier"] = _make_verifier(parts, criteria, kept.get("expected_answer") or {})
    return kept


def _make_verifier(parts: dict[str, Any], criteria: Any, expected: dict[str, Any]) -> Verifier:
    if criteria:
        return RubricVerifier(criteria=criteria, expected_answer=expected)
    rule = parts["rule"] or parts["score_rule"]
    return ChecksVerifier(
        checks=list_checks(parts["checks"] or (), parts["labels"] or ()),
        marks=parts["marks"],
        frame=parts["frame"],
        **({"rule": rule} if rule else {}),
    )

"""Steps and scores as rows: the same for a replayed run and for one that is made here."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from synthesis.contracts import SOLVED_AT, CallResult, Reward, State, Verdict
from synthesis.formats.records import RunStep
from synthesis.formats.values import clean_text
from webapp.environments.models import Tool
from webapp.scenarios.models import StateBody, TaskRevision
from webapp.scenarios.states import store_state
from webapp.trajectories.failure_kinds import name_failure
from webapp.trajectories.models import SNAPSHOT_EVERY, Score, Step, StepKind, Trajectory

MAX_PATCH = 256 * 1024
"""A longer patch is not kept: the state after its step is, as a snapshot."""
MAX_RESULT = 256 * 1024
"""A longer result is kept cut, with a note; executing the call again gives all of it."""


@dataclass
class ExecutedStep:
    """One step as it was executed; only calls have a result."""

    step: RunStep
    arguments: dict[str, Any]
    result: CallResult | None = None
    matches: bool | None = None
    patch: list[dict[str, Any]] = field(default_factory=list)
    snapshot: StateBody | None = None


def attach_snapshot(played: ExecutedStep, index: int, state: Callable[[], State]) -> None:
    """Attach a snapshot to a step if one is due, or in place of a patch that is too long; `state` returns the state."""
    long = is_patch_too_long(played.patch)
    if index % SNAPSHOT_EVERY == 0 or long:
        played.snapshot = store_state(state())
        played.patch = [] if long else played.patch


def is_patch_too_long(patch: Sequence[dict[str, Any]]) -> bool:
    return bool(patch) and len(json.dumps(patch)) > MAX_PATCH


def load_tool_kinds(revision: TaskRevision) -> dict[str, str]:
    return dict(Tool.objects.filter(version=revision.scenario.version_id).values_list("name", "kind"))


def build_step_row(row: Trajectory, index: int, played: ExecutedStep, kinds: dict[str, str]) -> Step:
    """Return a step, not saved yet. A call that changed the state is a change, whatever the kind of its tool, and one
    that submitted the answer is neither change nor query."""
    step, result = played.step, played.result
    kind = step.kind if step.kind != "call" else kinds.get(step.tool, StepKind.QUERY)
    changes = len(result.patch) if result else 0
    if step.kind == "call" and changes:
        kind = StepKind.CHANGE
    if result is not None and not result.executed:
        kind = StepKind.ANSWER
    return Step(
        trajectory=row,
        index=index,
        turn=step.turn,
        kind=kind,
        content=step.content,
        reasoning=step.reasoning,
        cut=step.cut,
        injected=step.injected.model_dump(mode="json") if step.injected else None,
        tool=step.tool,
        by=step.by,
        arguments=played.arguments if step.kind == "call" else None,
        ok=result.ok if result else None,
        error_kind=result.error.kind if result and result.error else "",
        result=_shorten_result(result.error.model_dump() if result.error else result.result) if result else None,
        recorded=step.recorded or "",
        matches=played.matches,
        patch=played.patch,
        change_count=changes,
        duration_us=result.duration_us if result else 0,
        snapshot=played.snapshot,
    )


def _shorten_result(value: Any) -> Any:
    text = json.dumps(value)
    if len(text) <= MAX_RESULT:
        return value
    return f"{text[: MAX_RESULT // 4]}… ({len(text)} characters; the rest is not kept)"


def _serialize_verdict(verdict: Verdict) -> dict[str, Any]:
    values = verdict.model_dump() | {"reason": clean_text(verdict.reason), "quote": clean_text(verdict.quote)}
    return {name: value for name, value in values.items() if value or name not in ("reason", "quote")}


def add_score(row: Trajectory, revision: TaskRevision, reward: Reward, source: str) -> Score:
    """Append the score of a verifier. `source` is the origin of the execution: `replay`, `rollout`."""
    score = Score.objects.create(
        trajectory=row,
        revision=revision,
        verifier_hash=revision.verifier_hash,
        reward=reward.reward,
        passed=reward.passed,
        total=reward.total,
        verdicts=[_serialize_verdict(item) for item in reward.verdicts],
        outside=[change.model_dump() for change in reward.outside],
        judge=clean_text(reward.judge)[:200],
        question=reward.question,
        source=source,
    )
    marks = revision.checks.order_by("position").values_list("mark", flat=True) if reward.reward < SOLVED_AT else ()
    failure = name_failure(score.reward, score.verdicts, score.outside, list(marks))
    if failure != row.failure:
        row.failure = failure
        Trajectory.objects.filter(pk=row.pk).update(failure=failure)
    return score

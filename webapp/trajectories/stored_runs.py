"""Stored attempts as records that can be executed again: their calls, and their recorded results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from synthesis.contracts import UNREACHED, Injection, Reward, Verdict
from synthesis.formats.records import RunRecord, RunStep
from webapp.scenarios.models import TaskRevision
from webapp.trajectories.models import Score, StepKind, Trajectory


@dataclass(frozen=True)
class StoredRun:
    """A stored attempt for another execution. `earned` is its recorded reward; `told` is true if that was on the
    revision that was asked for, so that it is the reward there."""

    pk: int
    record: RunRecord
    earned: float | None
    ended: bool
    """Whether the program ended it then."""
    final_hash: str
    kept: Reward | None
    """What its newest score says."""
    told: bool


def load_stored_runs(pks: Sequence[int], revision: TaskRevision) -> Iterator[StoredRun]:
    """Yield the attempts with their calls, one after the other."""
    rows = Trajectory.objects.filter(pk__in=pks).defer("record", "matrix", "provenance", "replay_note", "note")
    for row in rows.order_by("-id").iterator(chunk_size=50):
        yield load_stored_run(row, revision)


def load_stored_run(row: Trajectory, revision: TaskRevision) -> StoredRun:
    """Return one attempt with its calls, in two queries."""
    calls = row.steps.filter(kind__in=(StepKind.QUERY, StepKind.CHANGE)).exclude(error_kind__in=UNREACHED)
    columns = ("turn", "tool", "arguments", "injected", "by")
    steps = tuple(
        RunStep(kind="call", turn=turn, tool=tool, arguments=arguments or {}, injected=read_injection(injected), by=by)
        for turn, tool, arguments, injected, by in calls.order_by("index").values_list(*columns)
    )
    score = Score.objects.filter(trajectory=row).exclude(source="recorded").order_by("-id").first()
    record = RunRecord(
        environment_key="", task_key="", steps=steps, answer=row.answer, seed=row.seed, now=row.now,
        validation=row.validation,
        truncated=row.outcome == "truncated",
    )  # fmt: skip
    return StoredRun(
        pk=row.pk,
        record=record,
        earned=row.reward,
        ended=row.outcome == "program_error",
        final_hash=row.final_hash,
        kept=read_score(score, revision) if score is not None else None,
        told=row.revision_id == revision.pk,
    )


def read_injection(stored: Any) -> Injection | None:
    """Return the stored disturbance of a call; None if it was not disturbed."""
    return Injection.model_validate(stored) if stored is not None else None


def read_score(score: Score, revision: TaskRevision) -> Reward:
    """Return a stored score as the reward that it was made from."""
    return Reward(
        reward=score.reward,
        passed=score.passed,
        total=score.total,
        rule="all" if revision.verifier_kind == "rubric" else revision.score_rule,
        verdicts=tuple(Verdict.model_validate(verdict) for verdict in score.verdicts),
        judge=score.judge,
        question=score.question,
    )

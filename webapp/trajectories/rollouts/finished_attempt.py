"""An attempt that is over, into rows at once: the same rows that a rollout writes step by step."""

from __future__ import annotations

from typing import Any

from django.db import transaction

from synthesis.contracts import Attempt, State
from synthesis.runtime.encoding import apply_patch
from webapp.content_store import content_hash
from webapp.environments.totals import lock_environment
from webapp.scenarios.models import TaskRevision
from webapp.trajectories.models import Step, Trajectory
from webapp.trajectories.rollouts.attempt_writer import blank, fill, played_of, record_of
from webapp.trajectories.steps import add_score, keep_state, step_row, tool_kinds
from webapp.trajectories.text_search.text_rows import write_text
from webapp.trajectories.totals import StepCounts, counted


def record_whole(
    attempt: Attempt,
    revision: TaskRevision,
    start: State | None,
    source: str,
    identity: list[Any],
    about: dict[str, Any],
    fork: tuple[Trajectory, int] | None = None,
    rejected: str = "",
    solver: bool = False,
) -> Trajectory:
    """Store an attempt at this revision. `start` is the first state, `identity` what makes it the same attempt when it
    is stored twice: then nothing is written. `about` is its provenance, `fork` the parent and the step of a fork,
    `rejected` the filter by which its batch left it out, `solver` whether it is a try at the task's reference."""
    digest = content_hash([source, *identity])
    played, state = [], start or {}
    for index, step in enumerate(attempt.steps):
        played_step = played_of(step)
        state = apply_patch(state, played_step.patch) if played_step.patch else state
        keep_state(played_step, index, lambda state=state: state)  # type: ignore[misc]
        played.append(played_step)
    with transaction.atomic():
        task = revision.task
        lock_environment(task.environment_id)
        known = Trajectory.objects.filter(content_hash=digest).first()
        if known is not None:
            return known
        row = Trajectory(
            environment_id=task.environment_id,
            task=task,
            revision=revision,
            source=source,
            content_hash=digest,
            rejected=rejected,
            solver=solver,
            conversational=attempt.conversational,
            validation=attempt.validation,
            parent=fork[0] if fork else None,
            forked_at=fork[1] if fork else None,
        )
        with counted(row, task.environment_id):
            blank(row, attempt.policy)
            fill(row, attempt, about)
            row.record = record_of(task, attempt)
            StepCounts.of((one.step, one.result) for one in played).put(row)
            row.save()
            kinds = tool_kinds(revision)
            steps = [step_row(row, index, played_step, kinds) for index, played_step in enumerate(played)]
            write_text(row, Step.objects.bulk_create(steps, batch_size=200))
            if attempt.reward is not None:
                add_score(row, revision, attempt.reward, source)
    return row

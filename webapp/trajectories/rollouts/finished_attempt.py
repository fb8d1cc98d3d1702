"""Storing of an attempt that has ended: the same rows that a rollout writes step by step."""

from __future__ import annotations

from typing import Any

from django.db import transaction

from synthesis.contracts import Attempt, State
from synthesis.runtime.encoding import apply_patch
from webapp.common.content_store import content_hash
from webapp.environments.totals import lock_environment
from webapp.scenarios.models import TaskRevision
from webapp.trajectories.models import Step, Trajectory
from webapp.trajectories.rollouts.attempt_writer import (
    build_run_record,
    fill_trajectory,
    reset_trajectory,
    to_executed_step,
)
from webapp.trajectories.steps import add_score, attach_snapshot, build_step_row, load_tool_kinds
from webapp.trajectories.text_search.text_rows import write_text
from webapp.trajectories.totals import StepCounts, update_totals


def store_finished_attempt(
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
    """Store an attempt at this revision. `start` is the first state; `identity` identifies the attempt, and one that is
    stored already is returned unchanged. `about` is its provenance, `fork` the parent and the step of a fork,
    `rejected` the filter by which its batch left it out, `solver` whether it is a try at the task's reference."""
    digest = content_hash([source, *identity])
    executed_steps, state = [], start or {}
    for index, step in enumerate(attempt.steps):
        played_step = to_executed_step(step)
        state = apply_patch(state, played_step.patch) if played_step.patch else state
        attach_snapshot(played_step, index, lambda state=state: state)  # type: ignore[misc]
        executed_steps.append(played_step)
    with transaction.atomic():
        task = revision.task
        lock_environment(task.environment_id)
        stored = Trajectory.objects.filter(content_hash=digest).first()
        if stored is not None:
            return stored
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
        with update_totals(row, task.environment_id):
            reset_trajectory(row, attempt.policy)
            fill_trajectory(row, attempt, about)
            row.record = build_run_record(task, attempt)
            StepCounts.of((one.step, one.result) for one in executed_steps).put(row)
            row.save()
            kinds = load_tool_kinds(revision)
            steps = [build_step_row(row, index, played_step, kinds) for index, played_step in enumerate(executed_steps)]
            write_text(row, Step.objects.bulk_create(steps, batch_size=200))
            if attempt.reward is not None:
                add_score(row, revision, attempt.reward, source)
    return row

"""The demo's data: tasks, and what its teachers did with some of them, as frozen datasets beside an untrained model."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from synthesis.contracts import Attempt, Reference
from synthesis.formats.sft import Conversation, Shape
from synthesis.rollout import Plan, ReferencePolicy, RolloutTask, run_attempts
from synthesis.runtime import Sandbox
from training.dataset import (
    RowOrigin,
    Split,
    TaskRow,
    TrajectoryRow,
    behaviour_of,
    freeze,
    side_of,
    trajectory_rows,
)
from training.examples.tasks import DemoTask, draw_tasks

EACH = 240
"""Tasks of each environment. Copying is learnt from different lessons, not from the same ones again."""
SPLIT_SHARE = 0.2
CARELESS = 0.6
"""The share of demonstrations by a teacher who acts without looking or stops too early."""
LESSONS = 1
"""Demonstrations of each task that is not held out, by whichever teacher the dice choose."""


def task_row(task: DemoTask) -> TaskRow:
    """A task as a dataset's row."""
    return TaskRow.model_validate(_origin(task).model_dump() | {"rollout": task.rollout})


def _origin(task: DemoTask) -> RowOrigin:
    key, calls = task.rollout.key, task.reference.calls
    return RowOrigin(
        id=key,
        environment=task.environment,
        scenario=key,
        task=key,
        category=f"demo/{task.environment}",
        behaviour=behaviour_of(task.rollout.instruction, [(call.tool, call.arguments) for call in calls]),
    )


@dataclass(frozen=True)
class Lesson:
    """A teacher's turn at a task: the `ordinal`-th, by calls that are known before."""

    task: DemoTask
    teacher: Literal["careful", "careless"]
    ordinal: int

    @property
    def calls(self) -> Reference:
        return self.task.careless if self.teacher == "careless" else self.task.reference


def lessons_of(tasks: Sequence[DemoTask], seed: int, careless: float = CARELESS) -> list[Lesson]:
    """Which teacher shows which task, as the dice say."""
    dice = random.Random(f"teachers:{seed}")
    return [
        Lesson(task, "careless" if dice.random() < careless else "careful", ordinal)
        for task in tasks
        for ordinal in range(LESSONS)
    ]


def teach(sandbox: Sandbox, tasks: Sequence[DemoTask], seed: int, careless: float = CARELESS) -> list[TrajectoryRow]:
    """Demonstrations, executed in the sandbox: what a teacher saw is what the environment said."""
    lessons = lessons_of(tasks, seed, careless)
    done = played(sandbox, [(lesson.task.rollout, lesson.calls) for lesson in lessons])
    rows: list[TrajectoryRow] = []
    for place, (lesson, attempt) in enumerate(zip(lessons, done, strict=True)):
        task = lesson.task
        conversation = Conversation(messages=attempt.messages, tools=task.rollout.offered_tools)
        origin = _origin(task).model_copy(update={"id": f"{task.rollout.key}-lesson-{place}"})
        rows += trajectory_rows(conversation, Shape(), origin)
    return rows


def played(sandbox: Sandbox, lessons: Sequence[tuple[RolloutTask, Reference]]) -> list[Attempt]:
    """What came of playing calls at tasks, in their order."""
    plans = [Plan(task, ReferencePolicy(reference), ordinal=place) for place, (task, reference) in enumerate(lessons)]
    done = asyncio.run(_all(sandbox, plans))
    return [done[place] for place in range(len(lessons))]


async def _all(sandbox: Sandbox, plans: Sequence[Plan]) -> dict[int, Attempt]:
    return {attempt.ordinal: attempt async for attempt in run_attempts(sandbox, plans, at_once=8)}


def split_of(seed: int) -> Split:
    """By behaviour: nothing that is held out was asked with the same words and done by the same calls, by a teacher or
    in RL. Its environments, its words and its tools were there."""
    return Split(unit="behaviour", test_share=SPLIT_SHARE, seed=seed)


def freeze_demo(
    sandbox: Sandbox, folder: Path, seed: int, careless: float = CARELESS
) -> tuple[list[TrajectoryRow], list[TaskRow]]:
    """Write the datasets `tasks` and `trajectories` below `folder`; returns (all demonstrations, all tasks)."""
    split = split_of(seed)
    tasks = draw_tasks(seed, EACH)
    rows = [task_row(task) for task in tasks]
    shown = [task for task, row in zip(tasks, rows, strict=True) if side_of(row, split) == "train"]
    lessons = teach(sandbox, shown, seed, careless)
    selection = {"demo": True, "seed": seed, "careless": careless}
    freeze(folder / "tasks", rows, name="Demo tasks", kind="tasks", split=split, selection=selection)
    freeze(
        folder / "trajectories",
        lessons,
        name="Demo demonstrations",
        kind="trajectories",
        split=Split(unit="task", test_share=0, seed=seed),
        selection=selection,
    )
    return lessons, rows

"""Data of the demo: tasks, and demonstrations of its teachers, as frozen datasets beside an untrained model."""

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
    assign_side,
    build_trajectory_rows,
    freeze_dataset_folder,
    hash_behaviour,
)
from training.examples.tasks import DemoTask, draw_tasks

EACH = 240
"""Tasks of each environment. Copying is learnt from different lessons, not from the same ones again."""
SPLIT_SHARE = 0.2
CARELESS = 0.6
"""The share of demonstrations by a teacher who acts without looking or stops too early."""
LESSONS = 1
"""Demonstrations of each task that is not held out, by whichever teacher the dice choose."""


def build_task_row(task: DemoTask) -> TaskRow:
    """Return a task as a dataset's row."""
    return TaskRow.model_validate(_build_origin(task).model_dump() | {"rollout": task.rollout})


def _build_origin(task: DemoTask) -> RowOrigin:
    key, calls = task.rollout.key, task.reference.calls
    return RowOrigin(
        id=key,
        environment=task.environment,
        scenario=key,
        task=key,
        category=f"demo/{task.environment}",
        behaviour=hash_behaviour(task.rollout.instruction, [(call.tool, call.arguments) for call in calls]),
    )


@dataclass(frozen=True)
class Lesson:
    """A teacher's demonstration of a task: the `ordinal`-th, by calls that are known in advance."""

    task: DemoTask
    teacher: Literal["careful", "careless"]
    ordinal: int

    @property
    def calls(self) -> Reference:
        return self.task.careless if self.teacher == "careless" else self.task.reference


def assign_lessons(tasks: Sequence[DemoTask], seed: int, careless: float = CARELESS) -> list[Lesson]:
    """Return the lessons, with the teacher of each task drawn at random by the seed."""
    dice = random.Random(f"teachers:{seed}")
    return [
        Lesson(task, "careless" if dice.random() < careless else "careful", ordinal)
        for task in tasks
        for ordinal in range(LESSONS)
    ]


def make_demonstrations(
    sandbox: Sandbox, tasks: Sequence[DemoTask], seed: int, careless: float = CARELESS
) -> list[TrajectoryRow]:
    """Return demonstrations, executed in the sandbox: a teacher's observations are the environment's real replies."""
    lessons = assign_lessons(tasks, seed, careless)
    attempts = play_references(sandbox, [(lesson.task.rollout, lesson.calls) for lesson in lessons])
    rows: list[TrajectoryRow] = []
    for place, (lesson, attempt) in enumerate(zip(lessons, attempts, strict=True)):
        task = lesson.task
        conversation = Conversation(messages=attempt.messages, tools=task.rollout.offered_tools)
        origin = _build_origin(task).model_copy(update={"id": f"{task.rollout.key}-lesson-{place}"})
        rows += build_trajectory_rows(conversation, Shape(), origin)
    return rows


def play_references(sandbox: Sandbox, lessons: Sequence[tuple[RolloutTask, Reference]]) -> list[Attempt]:
    """Return the attempts that result from playing references at tasks, in their order."""
    plans = [Plan(task, ReferencePolicy(reference), ordinal=place) for place, (task, reference) in enumerate(lessons)]
    done = asyncio.run(_run_plans(sandbox, plans))
    return [done[place] for place in range(len(lessons))]


async def _run_plans(sandbox: Sandbox, plans: Sequence[Plan]) -> dict[int, Attempt]:
    return {attempt.ordinal: attempt async for attempt in run_attempts(sandbox, plans, at_once=8)}


def build_demo_split(seed: int) -> Split:
    """Return the split by behaviour: nothing held out has the same words and the same calls as a demonstration or a
    task of RL. Its environments, words and tools were trained on.
    """
    return Split(unit="behaviour", test_share=SPLIT_SHARE, seed=seed)


def freeze_demo(
    sandbox: Sandbox, folder: Path, seed: int, careless: float = CARELESS
) -> tuple[list[TrajectoryRow], list[TaskRow]]:
    """Write the datasets `tasks` and `trajectories` below `folder`; return (all demonstrations, all tasks)."""
    split = build_demo_split(seed)
    tasks = draw_tasks(seed, EACH)
    rows = [build_task_row(task) for task in tasks]
    shown_tasks = [task for task, row in zip(tasks, rows, strict=True) if assign_side(row, split) == "train"]
    lessons = make_demonstrations(sandbox, shown_tasks, seed, careless)
    selection = {"demo": True, "seed": seed, "careless": careless}
    freeze_dataset_folder(folder / "tasks", rows, name="Demo tasks", kind="tasks", split=split, selection=selection)
    freeze_dataset_folder(
        folder / "trajectories",
        lessons,
        name="Demo demonstrations",
        kind="trajectories",
        split=Split(unit="task", test_share=0, seed=seed),
        selection=selection,
    )
    return lessons, rows

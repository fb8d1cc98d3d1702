"""Totals of trajectories, changed only here: of a row's steps, of its task, its environment and the tree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from django.db.models import Count, F, Q

from synthesis.contracts import UNCOUNTED, CallResult, TrajectoryStep, is_injected
from synthesis.formats.records import RunStep
from webapp.environments.totals import add_counts, lock_environment
from webapp.scenarios.models import Task
from webapp.trajectories.models import Trajectory
from webapp.trajectories.passes.policy_passes import count_passes, is_plain

SCORED = Q(outcome="program_error") | Q(reward__isnull=False) & ~Q(outcome__in=UNCOUNTED)
"""Trajectories that count in a pass rate: those with a reward, and those that the environment's program ended."""

TASK_COLUMNS = {"trajectories": "trajectory_count", "scored": "scored_count", "solved": "solved_count"}
"""What a task's row says of its trajectories."""


def is_scored(outcome: str, reward: float | None) -> bool:
    """Return whether one trajectory fits `SCORED`."""
    return outcome == "program_error" or (reward is not None and outcome not in UNCOUNTED)


@dataclass
class StepCounts:
    """Counts of a trajectory's steps for its row. A submitted answer is a step, but no call; an error that a
    disturbance injected does not count as the attempt's. Calls of the simulated user are counted apart, and their
    errors do not count as the agent's; the time in tools is that of both."""

    steps: int = 0
    calls: int = 0
    errors: int = 0
    injected: int = 0
    user_calls: int = 0
    duration_us: int = 0

    @classmethod
    def of(cls, steps: Iterable[tuple[RunStep | TrajectoryStep, CallResult | None]]) -> StepCounts:
        """Return the counts of steps, each with its result if it was executed."""
        counts = cls()
        for step, result in steps:
            counts.add(step, result)
        return counts

    def add(self, step: RunStep | TrajectoryStep, result: CallResult | None) -> None:
        is_call = step.kind == "call" and (result is None or result.executed)
        self.steps += 1
        self.injected += step.injected is not None
        self.duration_us += result.duration_us if result is not None else 0
        if step.by == "user":
            self.user_calls += is_call
            return
        self.calls += is_call
        self.errors += result is not None and not result.ok and not is_injected(result)

    def put(self, row: Trajectory) -> list[str]:
        """Set the counts on a row, not saved yet; return the names of the fields."""
        row.step_count, row.call_count = self.steps, self.calls
        row.error_count, row.duration_us = self.errors, self.duration_us
        row.injected_count, row.user_call_count = self.injected, self.user_calls
        return ["step_count", "call_count", "error_count", "injected_count", "user_call_count", "duration_us"]


@contextmanager
def update_totals(row: Trajectory, environment: int | None) -> Iterator[None]:
    """Replace the counts of a row by those of its state after the block. Within a transaction; `environment` is the
    row's environment."""
    if environment is not None:
        lock_environment(environment)
    before = get_current_counts(row)
    yield
    apply_count_changes(before, row)


@dataclass(frozen=True)
class TrajectoryCounts:
    task: int = 0
    environment: int = 0
    numbers: Counter[str] = field(default_factory=Counter)
    passed: tuple[int, str] | None = None
    """The revision and the policy whose passes it counts in."""


def get_current_counts(row: Trajectory) -> TrajectoryCounts:
    """Return the counts of a stored row and the rows that they are added to; none if it is not saved, or has no
    environment."""
    if row.pk is None or row.environment_id is None or row.task_id is None:
        return TrajectoryCounts()
    scored = is_scored(row.outcome, row.reward)
    numbers = {"trajectories": 1, "scored": int(scored), "solved": int(scored and row.outcome == "solved")}
    passed = (row.revision_id, row.policy) if scored and row.revision_id and is_plain(row) else None
    return TrajectoryCounts(row.task_id, row.environment_id, Counter(numbers), passed)


def apply_count_changes(before: TrajectoryCounts, row: Trajectory) -> None:
    """Replace the counts `before` of a row by those of its saved state.

    The lock order is environment, tree, task, as in the code that counts an environment's tasks.
    """
    after = get_current_counts(row)
    changes = {before.environment: Counter[str](), after.environment: Counter[str]()}
    changes[before.environment].subtract(before.numbers)
    changes[after.environment].update(after.numbers)
    # Sorted, so that all transactions lock environments, and then tasks, in one order.
    for environment, numbers in sorted(changes.items()):
        add_counts(environment, **numbers)
    tasks = {before.task: Counter[str](), after.task: Counter[str]()}
    tasks[before.task].subtract(before.numbers)
    tasks[after.task].update(after.numbers)
    for task, numbers in sorted(tasks.items()):
        moved = {column: F(column) + numbers[name] for name, column in TASK_COLUMNS.items() if numbers[name]}
        if task and moved:
            Task.objects.filter(pk=task).update(**moved)
    for revision, policy in sorted({pair for pair in (before.passed, after.passed) if pair is not None}):
        count_passes(revision, policy, SCORED)


def recount_task(task: int) -> None:
    """Count a task's trajectories anew; in a transaction that holds its environment's lock."""
    rows = Trajectory.objects.filter(task=task)
    counts = rows.aggregate(
        trajectories=Count("pk"),
        scored=Count("pk", filter=SCORED),
        solved=Count("pk", filter=SCORED & Q(outcome="solved")),
    )
    Task.objects.filter(pk=task).update(**{column: counts[name] for name, column in TASK_COLUMNS.items()})

"""Attempts of an evaluation task by task: those that count, and the others with their reasons."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from webapp.runs.models import RunRollout, TrainingJob

COLUMNS = (
    "horizon", "row", "verifier", "setting", "ordinal", "environment", "task_id", "outcome", "masked", "quarantined",
    "reward", "turns", "tokens",
)  # fmt: skip
TaskKey = tuple[str, str, str]
"""Row, verifier and setting: two evaluations tried the same task where all of these are the same."""


@dataclass
class TriedTask:
    """Attempts at one task at one horizon. `rewards`, `turns` and `tokens` are of those that count; `left_out` counts
    the others by reason: `lost` (infrastructure), `user_fault`, `cancelled`, `not_believed` (executed again here,
    the attempt came to something else), `repeated` (its number was reported before). Attempts that the environment's
    program ended count, as 0."""

    key: TaskKey
    environment: str
    task: int | None
    rewards: list[float] = field(default_factory=list)
    turns: list[int] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    solved_turns: list[int] = field(default_factory=list)
    program_errors: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    ordinals: set[int] = field(default_factory=set)

    @property
    def tried(self) -> int:
        return len(self.rewards)

    @property
    def solved(self) -> int:
        return len(self.solved_turns)

    @property
    def left_out_count(self) -> int:
        return self.left_out.total()

    @property
    def mean(self) -> float:
        return sum(self.rewards) / len(self.rewards)


def group_tried_tasks(job: TrainingJob) -> dict[int, list[TriedTask]]:
    """Return by horizon the tasks that an evaluation's reports hold attempts at, in the order in which they were
    tried."""
    rows = RunRollout.objects.filter(file__job=job, file__superseded=False).order_by("file__step", "index")
    tasks_by_horizon: dict[int, dict[TaskKey, TriedTask]] = defaultdict(dict)
    for values in rows.values_list(*COLUMNS).iterator():
        horizon, *key, ordinal, environment, task, outcome, masked, quarantined, reward, turns, tokens = values
        tried_task = tasks_by_horizon[horizon].setdefault(tuple(key), TriedTask(tuple(key), environment, task))
        why = (
            "repeated"
            if ordinal in tried_task.ordinals
            else _get_exclusion_reason(outcome, masked, bool(quarantined), reward)
        )
        tried_task.ordinals.add(ordinal)
        tried_task.program_errors += outcome == "program_error" and not why
        if why:
            tried_task.left_out[why] += 1
            continue
        tried_task.rewards.append(reward)
        tried_task.turns.append(turns)
        tried_task.tokens.append(tokens)
        tried_task.solved_turns += [turns] if outcome == "solved" else []
    return {horizon: list(tasks.values()) for horizon, tasks in sorted(tasks_by_horizon.items())}


def _get_exclusion_reason(outcome: str, masked: str, quarantined: bool, reward: float | None) -> str:
    if quarantined:
        return "not_believed"
    if outcome == "cancelled" or masked == "user_fault":
        return "cancelled" if outcome == "cancelled" else "user_fault"
    return "lost" if masked or reward is None else ""

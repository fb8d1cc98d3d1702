"""Attempts of an evaluation task by task: what counts, and what does not and why."""

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
    """The attempts at one task at one horizon. `rewards`, `turns` and `tokens` are of those that count; `left_out`
    counts the others by why: `lost` (infrastructure), `user_fault`, `cancelled`, `not_believed` (executed again here,
    the attempt came to something else), `repeated` (its number was reported before). What the environment's program
    ended counts, as 0."""

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


def tried_tasks(job: TrainingJob) -> dict[int, list[TriedTask]]:
    """By horizon, the tasks that an evaluation's reports hold attempts at, in the order in which they were tried."""
    rows = RunRollout.objects.filter(file__job=job, file__superseded=False).order_by("file__step", "index")
    found: dict[int, dict[TaskKey, TriedTask]] = defaultdict(dict)
    for told in rows.values_list(*COLUMNS).iterator():
        horizon, *key, ordinal, environment, task, outcome, masked, quarantined, reward, turns, tokens = told
        one = found[horizon].setdefault(tuple(key), TriedTask(tuple(key), environment, task))
        why = "repeated" if ordinal in one.ordinals else _left_out(outcome, masked, bool(quarantined), reward)
        one.ordinals.add(ordinal)
        one.program_errors += outcome == "program_error" and not why
        if why:
            one.left_out[why] += 1
            continue
        one.rewards.append(reward)
        one.turns.append(turns)
        one.tokens.append(tokens)
        one.solved_turns += [turns] if outcome == "solved" else []
    return {horizon: list(tasks.values()) for horizon, tasks in sorted(found.items())}


def _left_out(outcome: str, masked: str, quarantined: bool, reward: float | None) -> str:
    if quarantined:
        return "not_believed"
    if outcome == "cancelled" or masked == "user_fault":
        return "cancelled" if outcome == "cancelled" else "user_fault"
    return "lost" if masked or reward is None else ""

"""Reads on rollouts: the attempts and their results."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from django.db.models import QuerySet

from webapp.common.frequencies import rank_by_count
from webapp.environments.models import Tool
from webapp.scenarios.models import TaskRevision
from webapp.scenarios.references import read_withheld
from webapp.trajectories.failure_reason import attach_reasons
from webapp.trajectories.models import AttemptState, Rollout, RolloutAttempt
from webapp.trajectories.rollouts.spec import ForkOf
from webapp.trajectories.side_by_side.queries import MOST as MOST_COMPARED
from webapp.trajectories.totals import is_scored

COLUMNS = (
    "live", "outcome", "reward", "passed", "total", "step_count", "call_count", "error_count", "note", "user_error",
    "user_fault", "environment_s", "agent_s", "user_s", "verification_s", "created_at",
)  # fmt: skip
MOST_SEARCHED = 200
"""The start of a rollout is in its specification, which the database does not search."""
ENDINGS = {
    "infra_error": "lost to the infrastructure",
    "agent_error": "ended by the agent's errors",
    "program_error": "ended by the environment's program",
}


@dataclass(frozen=True)
class Summary:
    """The results of the attempts. `scored` leaves out attempts whose outcome does not depend on the agent; those that
    the environment's program ended are included, with a reward of 0."""

    lines: list[RolloutAttempt]
    outcomes: list[tuple[str, int]]
    done: int
    scored: int
    solved: int
    mean_reward: float | None

    @property
    def running(self) -> int:
        return sum(line.state == AttemptState.RUNNING for line in self.lines)

    def rest(self, total: int, is_open: bool) -> str:
        """Return the text beside the number of solved attempts: other outcomes, and how many are not done."""
        parts = [f"{count} {ENDINGS.get(name, name)}" for name, count in self.others]
        if is_open:
            parts.append(f"{self.running} running, {total} in all")
        elif not self.outcomes:
            parts.append("no attempt was made")
        return "; ".join(parts)

    @property
    def others(self) -> list[tuple[str, int]]:
        """The outcomes other than `solved`."""
        return [(name, count) for name, count in self.outcomes if name != "solved"]

    @property
    def compared(self) -> list[int]:
        """The first trajectories that fit into a comparison with their parent."""
        ended = [line.trajectory.pk for line in self.lines if line.trajectory and line.trajectory.outcome]
        return ended[: MOST_COMPARED - 1]

    @property
    def share(self) -> float | None:
        return self.solved / self.scored if self.scored else None


def build_summary(rollout: Rollout) -> Summary:
    lines = list(list_attempts(rollout))
    ended = [line.trajectory for line in lines if line.trajectory and line.trajectory.outcome]
    attach_reasons(ended)
    judged = [row for row in ended if is_scored(row.outcome, row.reward)]
    rewards = [row.reward or 0.0 for row in judged]
    return Summary(
        lines=lines,
        outcomes=rank_by_count(Counter(row.outcome for row in ended)),
        done=sum(line.state == AttemptState.DONE for line in lines),
        scored=len(judged),
        solved=sum(row.outcome == "solved" for row in judged),
        mean_reward=sum(rewards) / len(rewards) if rewards else None,
    )


def list_attempts(rollout: Rollout) -> QuerySet[RolloutAttempt]:
    """Return the attempts with the columns of their trajectories that a line shows."""
    columns = ["rollout_id", "ordinal", "state", "claim", *(f"trajectory__{name}" for name in COLUMNS)]
    return RolloutAttempt.objects.filter(rollout=rollout).select_related("trajectory").only(*columns)


def list_task_rollouts(task_id: int, count: int = 6) -> list[Rollout]:
    """Return the newest rollouts of a task with their jobs."""
    return list(list_rollouts().filter(task_id=task_id).order_by("-id")[:count])


def list_fork_rollouts(task_id: int, fork: ForkOf, count: int = 6) -> list[Rollout]:
    """Return those of a task's newest rollouts that continue from a step of a trajectory."""
    newest = list_rollouts().filter(task_id=task_id).order_by("-id")[:MOST_SEARCHED]
    return [row for row in newest if row.spec.get("fork") == fork.model_dump()][:count]


def list_tools(revision: TaskRevision | None) -> list[str]:
    """Return the names of the tools that an attempt at a revision can call; empty without a revision."""
    if revision is None:
        return []
    names = Tool.objects.filter(version__scenarios=revision.scenario_id).order_by("position")
    withheld = read_withheld(revision)
    withheld_name = withheld.tool if withheld is not None and not withheld.parameter else ""
    return [name for name in names.values_list("name", flat=True) if name != withheld_name]


def list_rollouts() -> QuerySet[Rollout]:
    return Rollout.objects.select_related("job__created_by", "task", "revision").defer(
        "revision__record", "revision__instruction", "job__payload", "job__result"
    )

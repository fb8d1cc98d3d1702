"""Page contexts of forks: the two places at a step to fork at, a playground's fork, an attempt's parent and forks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from synthesis.errors import EnvariumError
from webapp.accounts.access import has_scope
from webapp.scenarios.answers.answer_form import read_answer_form
from webapp.scenarios.answers.answer_inputs import list_answer_inputs
from webapp.scenarios.models import Playground, ReviewState, Task
from webapp.scenarios.references import find_reference
from webapp.trajectories.forks import services
from webapp.trajectories.forks.outcomes import find_reference_problem
from webapp.trajectories.forks.pair import find_pair_problem
from webapp.trajectories.forks.starts import find_fork_problem, is_call
from webapp.trajectories.models import PlaygroundFork, Step, Trajectory
from webapp.trajectories.rollouts.services import find_obstacle

FORKS_SHOWN = 12
LIGHT = ("pk", "policy", "outcome", "reward", "live", "revision_id", "source", "forked_at")


@dataclass(frozen=True)
class ForkChoice:
    """One of the two places at a step: what is kept, and why a fork there by hand or with a policy is not possible."""

    step: int
    title: str
    about: str
    by_hand: str = ""
    by_policy: str = ""


def list_fork_choices(parent: Trajectory, index: int) -> list[ForkChoice]:
    """Return the choices before a step and after it."""
    row = None if parent.revision is None else parent.steps.filter(index=index).first()
    fork_choices = []
    if index and row is not None:
        fork_choices.append(_build_choice(parent, index, *_describe_before(row)))
    if row is not None:
        about = "Only the task is kept." if not index else f"Steps 0 to {index} are made again; what comes next is new."
        fork_choices.append(_build_choice(parent, index + 1, f"After step {index}", about))
    return fork_choices


def _describe_before(row: Step) -> tuple[str, str]:
    if is_call(row):
        return "Before this call: change it", f"Steps 0 to {row.index - 1} are made again; its arguments are filled in."
    return f"Before step {row.index}", f"Steps 0 to {row.index - 1} are made again; what comes next is new."


def _build_choice(parent: Trajectory, step: int, title: str, about: str) -> ForkChoice:
    unjudged = find_obstacle(parent.attempted_revision)
    by_hand = by_policy = unjudged or find_fork_problem(parent, step)
    if not by_hand:
        try:
            services.require_manual_fork(parent, step)
        except EnvariumError as error:
            by_hand = str(error)
    return ForkChoice(step, title, about, by_hand, by_policy)


def build_playground_context(row: Playground, fork: PlaygroundFork, user: Any) -> dict[str, Any]:
    """Return the context of the part of a playground's page that describes its fork and finishes it."""
    parent = fork.parent
    return {
        "playground": row,
        "fork": fork,
        "parent": parent,
        "task": parent.task,
        "revision": parent.revision,
        "older": parent.revision_id != parent.attempted_task.current_id,
        "mine": row.user_id == getattr(user, "pk", None) and has_scope(user, "review"),
        "own": row.length - row.kept,
        "next": row.undone[-1] if row.undone and not row.serial else None,
        "answer_inputs": list_answer_inputs(read_answer_form(parent.attempted_revision)),
    }


def build_family_context(row: Trajectory, user: Any, *, has_forks: bool = True) -> dict[str, Any]:
    """Return an attempt's parent and forks, and what a fork can become."""
    forks = list(row.forks.only(*LIGHT).order_by("-id")[: FORKS_SHOWN + 1]) if has_forks else []
    context: dict[str, Any] = {"forks": forks[:FORKS_SHOWN], "more_forks": len(forks) > FORKS_SHOWN}
    if row.forked_at is None:
        return context
    row.parent = Trajectory.objects.only(*LIGHT).filter(pk=row.parent_id or 0).first()
    reward = row.reward is not None and not row.live
    context |= {"is_fork": True, "no_pair": find_pair_problem(row)}
    if reward and row.outcome == "solved":
        context["no_reference"] = find_reference_problem(row)
        current = row.attempted_task.current
        context["replaced"] = find_reference(current) if current is not None else None
        context["reopens"] = _describe_decision(row.attempted_task) if context["replaced"] else ""
        context["takes_reference"] = has_scope(user, "review")
    return context


def _describe_decision(task: Task) -> str:
    """Return the decision of people on a task, as text; empty if there is none yet."""
    undecided = (ReviewState.DRAFT, ReviewState.IN_REVIEW)
    return "" if task.review_state in undecided else str(ReviewState(task.review_state).label)

"""One attempt at a task of a package, by a model behind an address, and its reward."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from synthesis.contracts import Attempt, Turn
from synthesis.errors import InfrastructureError, InputError, LLMError
from synthesis.llm import AskedModel, ChatModel, open_role_model
from synthesis.portable.task_file import PortableTask
from synthesis.rollout import (
    AttemptSetting,
    ChatPolicy,
    Conversation,
    Plan,
    PolicyError,
    SimulatedUser,
    User,
    run_attempts,
)
from synthesis.runtime import Sandbox
from synthesis.verifiers.rewards import score_end


@dataclass(frozen=True)
class Limits:
    """Limits of an attempt; `turns` None means 30, or 40 in a conversation."""

    turns: int | None = None
    deadline_s: float = 3_600.0


async def make_attempt(
    sandbox: Sandbox,
    row: PortableTask,
    agent: AskedModel,
    limits: Limits,
    *,
    user: AskedModel | None = None,
    judge: AskedModel | None = None,
    ended: Callable[[], str] = lambda: "",
) -> Attempt:
    """Return the attempt, verified. `ended` returns the reason why the caller gives the agent no further turn, or an
    empty text: the state at that point is verified. Sampling is decided behind the agent's address.

    Raises InputError: a conversation without a model for the user, or a rubric without a judge; InfrastructureError:
    the attempt was lost, which is no reward of 0.
    """
    conversational = row.setting == "conversation"
    if conversational and user is None:
        raise InputError(f"The task {row.id} is a conversation: name the model that plays the user (harness.user).")
    if row.task.asks_judge and judge is None:
        raise InputError(f"The task {row.id} is judged by a rubric: name the model that judges (harness.judge).")
    setting = AttemptSetting(conversational=conversational, max_turns=limits.turns, deadline_s=limits.deadline_s)
    async with (
        open_role_model(agent) as model,
        open_role_model(user if conversational else None) as player,
        open_role_model(judge) as decider,
    ):
        assert model is not None
        policy = _EndedPolicy(model, ended)
        plan = Plan(row.task, policy, setting, _make_user(row, player, user), judge=decider)
        (attempt,) = [one async for one in run_attempts(sandbox, [plan], at_once=1)]
    if attempt.outcome in ("infra_error", "cancelled"):
        raise InfrastructureError(attempt.note or "The attempt was lost.")
    return attempt


def get_reward(attempt: Attempt) -> float:
    """Return the reward of an attempt that `make_attempt` returned. One that the program ended earns 0."""
    return attempt.reward.reward if attempt.reward is not None else 0.0


def score_untouched(sandbox: Sandbox, row: PortableTask) -> float:
    """Return the reward of doing nothing. Raises ProgramError, StateError, InfrastructureError, InputError: its
    verifier is a rubric, whose facts only a judge can decide.
    """
    task = row.task
    if task.rubric is not None:
        raise InputError(f"The task {row.id} is judged by a rubric: attempt it with a judge (harness.judge).")
    with sandbox.reset(task.program, task.initial, seed=task.seed, now=task.now) as episode:
        state = episode.state()
    return score_end(sandbox, task.verifier, state, state).reward


class _EndedPolicy(ChatPolicy):
    """A model whose refusal, once the caller has ended the attempt, is the end of its turns and no failure."""

    def __init__(self, model: ChatModel, ended: Callable[[], str]) -> None:
        super().__init__(model)
        self.ended = ended

    async def act(self, observation: Conversation) -> Turn:
        try:
            return await super().act(observation)
        except LLMError as error:
            if why := self.ended():
                raise PolicyError(f"No further turn was given: {why}.") from error
            raise


def _make_user(row: PortableTask, player: ChatModel | None, role: AskedModel | None) -> User | None:
    if player is None or role is None:
        return None
    return SimulatedUser(player, row.task.instruction, temperature=role.temperature)

"""What a policy is: it sees a conversation and moves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from synthesis.contracts import AnswerField, Message, PromptStyle, Tool, Turn
from synthesis.errors import EnvariumError


@dataclass(frozen=True)
class Conversation:
    """All that a policy may know: never the state, never the checks.

    `messages` begins with the system message; in a conversation the user's first message follows, else the task.
    `tools` are all that may be called; with an `answer_form` the last one submits the answer. `turn` numbers the move
    that is asked for, from 1. One attempt's policy object may serve many attempts at once:
    what it needs to remember stands in here.
    """

    messages: tuple[Message, ...]
    tools: tuple[Tool, ...]
    style: PromptStyle = "tools"
    conversational: bool = False
    turn: int = 1
    answer_form: tuple[AnswerField, ...] = ()


class Policy(Protocol):
    """Chooses the next move. `name` is what a trajectory keeps (an endpoint and model, `reference`, ...).

    One that waits for tokens may have a `heard() -> float`: when, by `time.monotonic`, what makes them last showed that
    it works. An attempt's deadline then counts its silence alone (`synthesis.rollout.deadline`).
    """

    @property
    def name(self) -> str: ...

    async def act(self, observation: Conversation) -> Turn:
        """The next turn. Calls stand in `message.tool_calls`, whatever the style.

        Raises InfrastructureError (LLMError among them): the attempt then ends as `infra_error`. PolicyError: the
        policy itself cannot go on, `agent_error`.
        """
        ...


class PolicyError(EnvariumError):
    """The policy cannot make a move, through no fault of the infrastructure."""

"""The protocol of policies: a policy sees a conversation and returns a turn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from synthesis.contracts import AnswerField, Message, PromptStyle, Tool, Turn
from synthesis.errors import EnvariumError


@dataclass(frozen=True)
class Conversation:
    """All that a policy may know: never the state, never the checks.

    `messages` begins with the system message; in a conversation the user's first message follows, else the task.
    `tools` are all that may be called; with an `answer_form` the last one submits the answer. `turn` is the number of
    the requested turn, from 1. One policy object may serve many attempts at once: all that it needs to remember is in
    here.
    """

    messages: tuple[Message, ...]
    tools: tuple[Tool, ...]
    style: PromptStyle = "tools"
    conversational: bool = False
    turn: int = 1
    answer_form: tuple[AnswerField, ...] = ()


class Policy(Protocol):
    """A chooser of the next turn. `name` is stored with a trajectory (an endpoint and model, `reference`, ...).

    A policy that waits for tokens may have a `heard() -> float`: the moment, by `time.monotonic`, at which the source
    of the tokens was last active. An attempt's deadline then counts only its silence (`synthesis.rollout.deadline`).
    """

    @property
    def name(self) -> str: ...

    async def act(self, observation: Conversation) -> Turn:
        """Return the next turn. Calls are in `message.tool_calls`, in every style.

        Raise InfrastructureError (LLMError among them): the attempt then ends as `infra_error`. Raise PolicyError if
        the policy itself cannot continue: `agent_error`.
        """
        ...


class PolicyError(EnvariumError):
    """The policy cannot make a move, through no fault of the infrastructure."""

"""A policy that plays a known solution, to show that a task, its verifier and the loop work together."""

from __future__ import annotations

from synthesis.contracts import Message, Reference, ToolCall, Turn
from synthesis.rollout.known_turns import give_answer
from synthesis.rollout.policy import Conversation


class ReferencePolicy:
    """A policy that makes a reference's calls, `calls_a_turn` at a time, and then gives its answer."""

    name = "reference"

    def __init__(self, reference: Reference, calls_a_turn: int = 1) -> None:
        self.reference = reference
        self.calls_a_turn = max(1, calls_a_turn)

    async def act(self, observation: Conversation) -> Turn:
        start = (observation.turn - 1) * self.calls_a_turn
        due = self.reference.calls[start : start + self.calls_a_turn]
        if not due:
            return Turn(message=give_answer(observation, self.reference.answer))
        calls = tuple(ToolCall(name=call.tool, arguments=dict(call.arguments)) for call in due)
        return Turn(message=Message(role="assistant", tool_calls=calls))

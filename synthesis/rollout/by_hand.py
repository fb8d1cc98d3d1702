"""A person as a policy: the calls chosen by hand, one in each turn, then the answer."""

from __future__ import annotations

from collections.abc import Sequence

from synthesis.contracts import ReferenceCall, Turn
from synthesis.rollout.known_turns import give_answer, make_call
from synthesis.rollout.policy import Conversation


class ByHandPolicy:
    """A policy that makes `calls` after the first `before` turns, which another attempt made, and then answers.

    The answer is words, or the object to submit, as JSON text, if the task has an answer form.
    """

    def __init__(self, name: str, calls: Sequence[ReferenceCall], answer: str, before: int = 0) -> None:
        self.name = name
        self.calls = tuple(calls)
        self.answer = answer
        self.before = before

    async def act(self, observation: Conversation) -> Turn:
        """Return the next call, or the answer. Raise PolicyError if the answer form requires a JSON object and it is
        none."""
        number = observation.turn - 1 - self.before
        if number >= len(self.calls):
            return Turn(message=give_answer(observation, self.answer))
        return Turn(message=make_call(observation.style, self.calls[number]))

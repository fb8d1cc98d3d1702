"""A person as a policy: the calls that were chosen by hand, one a turn, then the answer."""

from __future__ import annotations

import json
from collections.abc import Sequence

from synthesis.contracts import Message, PromptStyle, ReferenceCall, ToolCall, Turn
from synthesis.rollout.policy import Conversation


class ByHandPolicy:
    """Makes `calls` after the first `before` turns, which another attempt made, and then says the answer."""

    def __init__(self, name: str, calls: Sequence[ReferenceCall], answer: str, before: int = 0) -> None:
        self.name = name
        self.calls = tuple(calls)
        self.answer = answer
        self.before = before

    async def act(self, observation: Conversation) -> Turn:
        number = observation.turn - 1 - self.before
        if number >= len(self.calls):
            return Turn(message=Message(role="assistant", content=_said(observation.style, self.answer or "Done.")))
        call = self.calls[number]
        made = ToolCall(name=call.tool, arguments=dict(call.arguments))
        return Turn(message=Message(role="assistant", content=_spelled(observation.style, call), tool_calls=(made,)))


def _spelled(style: PromptStyle, call: ReferenceCall) -> str:
    """The call in words, for styles in which calls stand in the words."""
    if style == "react":
        return f"Action: {call.tool}\nAction Input: {json.dumps(call.arguments, ensure_ascii=False)}"
    if style == "call":
        given = ", ".join(f"{name}={value!r}" for name, value in call.arguments.items())
        return f"[{call.tool}({given})]"
    return ""


def _said(style: PromptStyle, answer: str) -> str:
    return f"Answer: {answer}" if style == "react" else answer

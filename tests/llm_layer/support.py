"""Calls, models without a network and stores for the tests of the LLM layer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from synthesis.contracts import Message, Tool, Usage
from synthesis.llm import Reply
from synthesis.llm.calls import Site, StageCall

USAGE = Usage(prompt_tokens=100, completion_tokens=50)


def site(item: str = "desk", sample: int = 0, **changes: Any) -> Site:
    return Site(**({"role": "author", "stage": "plan_state", "item": item, "sample": sample} | changes))


def stage_call(words: str = "Hello", item: str = "desk", sample: int = 0, **parameters: Any) -> StageCall:
    message = Message(role="user", content=words)
    return StageCall(site=site(item, sample), messages=(message,), parameters=parameters)


def said(text: str, usage: Usage = USAGE, **changes: Any) -> Reply:
    return Reply(message=Message(role="assistant", content=text), usage=usage, **changes)


@dataclass
class Far:
    """A model that says what it is told to, one after the other, the last again and again. `gate`: nothing is said
    before it is set."""

    replies: Sequence[Reply | Exception] = (said("Hello."),)
    name: str = "far/m"
    gate: asyncio.Event | None = None
    asked: list[tuple[tuple[Message, ...], dict[str, Any]]] = field(default_factory=list)
    open: int = 0
    most_open: int = 0

    async def complete(self, messages: Sequence[Message], tools: Sequence[Tool] = (), **parameters: Any) -> Reply:
        self.asked.append((tuple(messages), parameters))
        reply = self.replies[min(len(self.asked), len(self.replies)) - 1]
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        try:
            await (self.gate.wait() if self.gate else asyncio.sleep(0))
        finally:
            self.open -= 1
        if isinstance(reply, Exception):
            raise reply
        return reply


async def soon(condition: Callable[[], bool]) -> None:
    """Until other tasks have brought something about."""
    for _ in range(1_000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it did not come about")


async def settled(*waiting: Awaitable[Any]) -> list[Any]:
    """Results and exceptions alike."""
    return await asyncio.gather(*waiting, return_exceptions=True)

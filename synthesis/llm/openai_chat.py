"""A model of an OpenAI-compatible server: the `ChatModel` that everything uses."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from synthesis.contracts import Message, Tool
from synthesis.errors import InputError
from synthesis.llm.chat import Reply
from synthesis.llm.endpoint import StructuredForm
from synthesis.llm.wire import request_messages, request_tools

if TYPE_CHECKING:
    from synthesis.llm.client import Connection

RESERVED = frozenset({"model", "stream", "n"})
"""Set here; as a parameter they are an InputError."""


async def nothing() -> None:
    """Before a request, where nobody wants to know."""


class OpenAIChat:
    """A model of a connection: the `ChatModel` that everything uses."""

    def __init__(self, connection: Connection, model: str) -> None:
        self.connection = connection
        self.model = model

    @property
    def name(self) -> str:
        return f"{self.connection.endpoint.name}/{self.model}"

    def heard(self) -> float:
        """When its server last sent something, on the clock of `time.monotonic`."""
        return self.connection.heard_at

    @property
    def structured(self) -> StructuredForm:
        """What `response_format` holds it to."""
        return self.connection.endpoint.structured

    async def complete(self, messages: Sequence[Message], tools: Sequence[Tool] = (), **parameters: Any) -> Reply:
        """The next message; `usage.requests` counts what was sent for it, `usage.lost` what failed before.

        Raises LLMError once the retries or the deadline are used up; its `requests` says how many were sent.
        Raises InputError for a parameter that is not the caller's to set.
        """
        return await self.send(messages, tools, parameters)

    async def send(
        self,
        messages: Sequence[Message],
        tools: Sequence[Tool],
        parameters: Mapping[str, Any],
        before: Callable[[], Awaitable[None]] = nothing,
    ) -> Reply:
        """As `complete`; `before` is awaited when a request's turn comes next, each retry included."""
        if taken := RESERVED & parameters.keys():
            raise InputError(f"{', '.join(sorted(taken))} cannot be set as a parameter of a model.")
        body: dict[str, Any] = {"model": self.model, "messages": request_messages(messages)}
        if tools:
            body["tools"] = request_tools(tools)
        return await self.connection.completion(body | dict(parameters), before)

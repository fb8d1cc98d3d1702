"""A model of an OpenAI-compatible server: the usual `ChatModel`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from synthesis.contracts import Message, Tool
from synthesis.errors import InputError
from synthesis.llm.chat import Embeddings, Reply
from synthesis.llm.endpoint import Endpoint, StructuredForm
from synthesis.llm.wire import build_request_messages, build_request_tools

RESERVED = frozenset({"model", "stream", "n"})
"""Set here; as a parameter they are an InputError."""


async def ignore_request() -> None:
    """Ignore the coming request: the default callback."""


class ModelConnection(Protocol):
    """The parts of `synthesis.llm.client.Connection` that models need."""

    @property
    def endpoint(self) -> Endpoint: ...

    @property
    def heard_at(self) -> float: ...

    async def completion(self, body: dict[str, Any], before: Callable[[], Awaitable[None]]) -> Reply: ...

    async def embed(self, model: str, texts: Sequence[str]) -> Embeddings: ...


class OpenAIChat:
    """A model of a connection: the usual `ChatModel`."""

    def __init__(self, connection: ModelConnection, model: str) -> None:
        self.connection = connection
        self.model = model

    @property
    def name(self) -> str:
        return f"{self.connection.endpoint.name}/{self.model}"

    def heard(self) -> float:
        """Return when its server last sent something, on the clock of `time.monotonic`."""
        return self.connection.heard_at

    @property
    def structured(self) -> StructuredForm:
        """The form that `response_format` can enforce."""
        return self.connection.endpoint.structured

    async def complete(self, messages: Sequence[Message], tools: Sequence[Tool] = (), **parameters: Any) -> Reply:
        """Return the next message; `usage.requests` counts the requests sent for it, `usage.lost` the failed ones.

        Raise LLMError once the retries or the deadline are used up; its `requests` is the number of requests sent.
        Raise InputError for a parameter that the caller may not set.
        """
        return await self.send(messages, tools, parameters)

    async def send(
        self,
        messages: Sequence[Message],
        tools: Sequence[Tool],
        parameters: Mapping[str, Any],
        before: Callable[[], Awaitable[None]] = ignore_request,
    ) -> Reply:
        """Complete as `complete` does; `before` is awaited when a request's turn comes next, each retry included."""
        if taken := RESERVED & parameters.keys():
            raise InputError(f"{', '.join(sorted(taken))} cannot be set as a parameter of a model.")
        body: dict[str, Any] = {"model": self.model, "messages": build_request_messages(messages)}
        if tools:
            body["tools"] = build_request_tools(tools)
        return await self.connection.completion(body | dict(parameters), before)

"""The chat protocol: what everything above knows of an LLM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from synthesis.contracts import Frozen, Message, Tool, Usage
from synthesis.errors import LLMError


class Reply(Frozen):
    """One reply. `model` is what the endpoint says it used; reasoning is apart from the content."""

    message: Message
    finish_reason: str = ""
    usage: Usage = Usage()
    model: str = ""


class Embeddings(Frozen):
    """A vector for each text that was handed in, all of one length."""

    vectors: tuple[tuple[float, ...], ...]
    usage: Usage = Usage()


class ChatModel(Protocol):
    """A model behind some endpoint. `name` is how people know it."""

    @property
    def name(self) -> str: ...

    async def complete(self, messages: Sequence[Message], tools: Sequence[Tool] = (), **parameters: Any) -> Reply:
        """The next message. `parameters` are the endpoint's own (`temperature`, `max_tokens`, `stop`, `seed`, ...).

        Raises LLMError, after bounded retries.
        """
        ...


def last_heard(model: ChatModel) -> float:
    """When a model's server last sent something to anybody (`time.monotonic`); 0 where nobody keeps that."""
    heard = getattr(model, "heard", None)
    return float(heard()) if heard is not None else 0.0


class CountedModel:
    """A model with the usage of all that it was asked through this, failures included."""

    def __init__(self, model: ChatModel) -> None:
        self._model = model
        self.usage = Usage()

    @property
    def name(self) -> str:
        return self._model.name

    def heard(self) -> float:
        return last_heard(self._model)

    async def complete(self, messages: Sequence[Message], tools: Sequence[Tool] = (), **parameters: Any) -> Reply:
        try:
            reply = await self._model.complete(messages, tools, **parameters)
        except LLMError as error:
            self.usage += Usage(requests=error.requests, lost=error.requests)
            raise
        self.usage += reply.usage
        return reply

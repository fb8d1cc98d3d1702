"""The chat protocol: the interface of an LLM for all other code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from synthesis.contracts import Frozen, Message, Tool, Usage
from synthesis.errors import LLMError


class Reply(Frozen):
    """One reply. `model` is the name that the endpoint reports; reasoning is separate from the content."""

    message: Message
    finish_reason: str = ""
    usage: Usage = Usage()
    model: str = ""


class Embeddings(Frozen):
    """A vector for each given text, all of one length."""

    vectors: tuple[tuple[float, ...], ...]
    usage: Usage = Usage()


class ChatModel(Protocol):
    """A model behind some endpoint. `name` is its name for people."""

    @property
    def name(self) -> str: ...

    async def complete(self, messages: Sequence[Message], tools: Sequence[Tool] = (), **parameters: Any) -> Reply:
        """Return the next message. `parameters` are the endpoint's own (`temperature`, `max_tokens`, `stop`, `seed`,
        ...).

        Raise LLMError, after bounded retries.
        """
        ...


def get_last_heard(model: ChatModel) -> float:
    """Return when a model's server last sent anything (`time.monotonic`); 0 if the model does not record it."""
    heard = getattr(model, "heard", None)
    return float(heard()) if heard is not None else 0.0


class CountedModel:
    """A model with the usage of all requests made through this object, failures included."""

    def __init__(self, model: ChatModel) -> None:
        self._model = model
        self.usage = Usage()

    @property
    def name(self) -> str:
        return self._model.name

    def heard(self) -> float:
        return get_last_heard(self._model)

    async def complete(self, messages: Sequence[Message], tools: Sequence[Tool] = (), **parameters: Any) -> Reply:
        try:
            reply = await self._model.complete(messages, tools, **parameters)
        except LLMError as error:
            self.usage += Usage(requests=error.requests, lost=error.requests)
            raise
        self.usage += reply.usage
        return reply

"""How stages ask: each call is looked up first, sent within the cap, stored before it is used, and counted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel

from synthesis.contracts import Message, Tool, Usage
from synthesis.errors import InputError, LLMError, MalformedReply
from synthesis.llm.calls import Site, StageCall
from synthesis.llm.chat import ChatModel, Reply
from synthesis.llm.cost import Meter
from synthesis.llm.store import CallStore
from synthesis.llm.structured import again, code_form, json_form, json_reader, read_code

TRIES = 3
M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")


class SiteModel(Protocol):
    """A model that also wants to know where it is asked: the scripted provider. Real ones see messages only."""

    @property
    def name(self) -> str: ...

    async def answer(self, call: StageCall) -> Reply:
        """Raises LLMError."""
        ...


@dataclass
class Asker:
    """Asks the models of a batch, by role. Raises LLMError and SpendCapReached.

    Equal requests of one item that are made twice are one call unless their `sample` differs.
    """

    models: Mapping[str, ChatModel | SiteModel]
    store: CallStore
    meter: Meter = field(default_factory=Meter)

    def model(self, role: str) -> ChatModel | SiteModel:
        if role not in self.models:
            raise InputError(f"No model plays the {role}. Choose one for this role.")
        return self.models[role]

    async def reply(self, call: StageCall) -> Reply:
        """The stored reply of this call, or a new one, stored before it is given back."""
        model = self.model(call.site.role)
        key = call.key(model.name)
        known = await self.store.find(key)
        if known is not None:
            self.meter.replayed += 1
            return known
        self.meter.require_room()
        await self.store.begin(key, call, model.name)
        try:
            reply = await self._send(model, call)
        except LLMError as error:
            self.meter.add(call.site, model.name, Usage(requests=error.requests, lost=error.requests))
            await self.store.fail(key, call, error)
            raise
        self.meter.add(call.site, model.name, reply.usage)
        return await self.store.keep(key, call, reply)

    async def structured(
        self,
        call: StageCall,
        wanted: type[M],
        check: Callable[[M], None] = lambda found: None,
        tries: int = TRIES,
    ) -> M:
        """A reply as `wanted`; one that does not fit, or where `check` raises InputError, is asked for again."""
        return await self.formed(call, json_form(wanted), json_reader(wanted, check), tries)

    async def code(self, call: StageCall, check: Callable[[str], None] = lambda code: None, tries: int = TRIES) -> str:
        """A reply as Python source. It is not looked at further than `check` does, and never executed here."""

        def read(text: str) -> str:
            code = read_code(text)
            check(code)
            return code

        return await self.formed(call, code_form(), read, tries)

    async def formed(self, call: StageCall, form: str, read: Callable[[str], T], tries: int = TRIES) -> T:
        """What `read` makes of a reply whose `form` is told at the end of the last message.

        Where `read` raises InputError the model is asked again with the error. Raises MalformedReply after `tries`
        replies: nothing of them is kept as data.
        """
        asked = call.model_copy(update={"messages": _with_form(call.messages, form)})
        reason = key = ""
        for _ in range(tries):
            reply = await self.reply(asked)
            key = asked.key(self.model(call.site.role).name)
            try:
                return read(reply.message.content)
            except InputError as error:
                reason = str(error)
                more = again(reply.message, reason)
                asked = asked.model_copy(update={"messages": (*asked.messages[: len(call.messages)], *more)})
        message = f"The {call.site.role} gave no usable reply in {tries} tries ({call.site.stage}): {reason}"
        raise MalformedReply(message, call_key=key, requests=tries)

    def chat(self, site: Site) -> SiteChat:
        """A chat model for rollouts and judges whose calls are stored and counted like all others."""
        return SiteChat(self, site)

    async def _send(self, model: ChatModel | SiteModel, call: StageCall) -> Reply:
        if hasattr(model, "answer"):
            return await model.answer(call)
        return await model.complete(call.messages, call.tools, **call.parameters)


@dataclass(frozen=True)
class SiteChat:
    """The `ChatModel` of one site."""

    asker: Asker
    site: Site

    @property
    def name(self) -> str:
        return self.asker.model(self.site.role).name

    async def complete(self, messages: Sequence[Message], tools: Sequence[Tool] = (), **parameters: Any) -> Reply:
        call = StageCall(site=self.site, messages=tuple(messages), tools=tuple(tools), parameters=parameters)
        return await self.asker.reply(call)


def _with_form(messages: tuple[Message, ...], form: str) -> tuple[Message, ...]:
    last = messages[-1]
    return (*messages[:-1], last.model_copy(update={"content": f"{last.content}\n\n{form}"}))

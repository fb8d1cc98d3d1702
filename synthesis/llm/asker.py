"""How stages ask: each call is looked up first, sent within the cap, stored before it is used, and counted."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel

from synthesis.contracts import Message, Tool, Usage
from synthesis.errors import EnvariumError, InputError, LLMError, MalformedReply
from synthesis.llm.calls import Site, StageCall
from synthesis.llm.chat import ChatModel, Reply
from synthesis.llm.cost import FREE, CostMeter
from synthesis.llm.endpoint import StructuredForm
from synthesis.llm.reply_reader import read_object
from synthesis.llm.reply_words import Read
from synthesis.llm.sampling import Sampling, sampling_of
from synthesis.llm.source_reader import read_source
from synthesis.llm.store import CallStore
from synthesis.llm.structured import (
    again,
    code_form,
    json_form,
    reason_of,
    response_format,
)
from synthesis.prompts import with_form

TRIES = 3
LONG = 20_000
"""Characters of a reply that is read beside the event loop: a long one may take a second, and all other items wait."""
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
    """Asks the models of a batch, by role, in one event loop. Raises LLMError and SpendCapReached.

    Equal requests of one item that are made twice are one call unless their `sample` differs: the second finds the
    first one's reply, or waits for it. What fails is the failure of all who waited.
    """

    models: Mapping[str, ChatModel | SiteModel]
    store: CallStore
    meter: CostMeter = field(default_factory=CostMeter)
    sampling: Mapping[str, Sampling] = field(default_factory=dict)
    """By role, in place of what is usual for it."""
    _flights: dict[str, asyncio.Future[Reply]] = field(default_factory=dict)

    def model(self, role: str) -> ChatModel | SiteModel:
        if role not in self.models:
            raise InputError(f"No model plays the {role}. Choose one for this role.")
        return self.models[role]

    async def reply(self, call: StageCall) -> Reply:
        """The stored reply of this call, or a new one, stored before it is given back. Asked as its role is asked."""
        model = self.model(call.site.role)
        call = self.sampled(call)
        key = call.key(model.name)
        while (flight := self._flights.get(key)) is not None:
            with contextlib.suppress(asyncio.CancelledError):
                reply = await asyncio.shield(flight)
                self.meter.replay(call.site)
                return reply
            if _stopped():  # else whoever had sent it was: this one goes instead
                raise asyncio.CancelledError
        flight = self._flights[key] = asyncio.get_running_loop().create_future()
        try:
            reply = await self._found(key, call) or await self._sent(key, call, model)
            flight.set_result(reply)
            return reply
        except EnvariumError as error:
            flight.set_exception(error)
            flight.exception()  # nobody may be waiting for it
            raise
        finally:
            del self._flights[key]
            flight.cancel()

    def sampled(self, call: StageCall) -> StageCall:
        """The call with the parameters of its role; the offline provider has none."""
        if hasattr(self.model(call.site.role), "answer"):
            return call
        chosen = sampling_of(call.site.role, self.sampling).parameters(call.site.sample)
        return call.model_copy(update={"parameters": call.parameters | chosen})

    async def structured(
        self,
        call: StageCall,
        wanted: type[M],
        check: Callable[[M], Awaitable[None] | None] = lambda reply: None,
        tries: int = TRIES,
    ) -> M:
        """A reply as `wanted`; one that does not fit, or where `check` raises InputError, is asked for again.

        Models whose endpoint can be held to a schema, or to JSON at all, are; words ask all of them.
        """
        form: StructuredForm = getattr(self.model(call.site.role), "structured", "none")
        if form != "none":
            held = {"response_format": response_format(wanted, form)} | call.parameters
            call = call.model_copy(update={"parameters": held})
        return await self.formed(call, json_form(wanted), lambda text: read_object(text, wanted), check, tries)

    async def code(
        self,
        call: StageCall,
        check: Callable[[str], Awaitable[None] | None] = lambda code: None,
        tries: int = TRIES,
    ) -> str:
        """A reply as Python source. It is not looked at further than `check` does, and never executed here."""
        return await self.formed(call, code_form(call.site.stage), read_source, check, tries)

    async def formed(
        self,
        call: StageCall,
        form: str,
        read: Callable[[str], Read],
        check: Callable[[T], Awaitable[None] | None],
        tries: int = TRIES,
    ) -> T:
        """What `read` makes of a reply whose `form` is told in the last message, once `check` let it pass.

        Where one of them raises InputError the model is asked again with the error. Raises MalformedReply after `tries`
        replies, from the last of these errors: nothing of them is kept as data.
        """
        asked = call.model_copy(update={"messages": _with_form(call.messages, form)})
        key = reason = ""
        last: InputError | None = None
        for number in range(1, tries + 1):
            reply = await self.reply(asked)
            key = self.sampled(asked).key(self.model(call.site.role).name)
            repairs: tuple[str, ...] = ()
            try:
                found = await _read(reply.message.content, read)
                repairs = tuple(sorted(found.repairs))
                value: T = await _looked_at(found.value, check)
                if repairs:
                    await self.store.note_reading(key, repairs, "")
                return value
            except InputError as error:
                last, reason = error, reason_of(reply, error)
                await self.store.note_reading(key, repairs, reason)
                more = again(reply.message, reason, number, error.observed)
                asked = asked.model_copy(update={"messages": (*asked.messages[: len(call.messages)], *more)})
        message = f"The {call.site.role} gave no usable reply in {tries} tries ({call.site.stage}): {reason}"
        raise MalformedReply(message, call_key=key, requests=tries) from last

    def chat(self, site: Site) -> SiteChat:
        """A chat model for rollouts and judges whose calls are stored and counted like all others."""
        return SiteChat(self, site)

    async def _found(self, key: str, call: StageCall) -> Reply | None:
        known = await self.store.find(key)
        if known is not None:
            self.meter.replay(call.site)
        return known

    async def _sent(self, key: str, call: StageCall, model: ChatModel | SiteModel) -> Reply:
        price = FREE if hasattr(model, "answer") else None
        sent = 0

        async def before() -> None:
            nonlocal sent
            await self.store.begin(key, call, model.name)
            sent += 1

        async with self.meter.room(call, model.name, price):
            usage: Usage | None = None
            try:
                reply = await _answer(model, call, before)
                usage = reply.usage if reply.usage.requests else reply.usage.model_copy(update={"requests": sent})
            except LLMError as error:
                await self.store.fail(key, call, error)
                raise
            finally:  # also where the task is cancelled: what was sent is paid for
                self.meter.add(call, model.name, usage or Usage(requests=sent, lost=sent), price)
        return await self.store.keep(key, call, reply)


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


async def _answer(model: ChatModel | SiteModel, call: StageCall, before: Callable[[], Awaitable[None]]) -> Reply:
    """The model's reply. `before` is awaited before each request, where the model can say when that is."""
    if hasattr(model, "send"):
        return await model.send(call.messages, call.tools, call.parameters, before)
    await before()
    if hasattr(model, "answer"):
        return await model.answer(call)
    return await model.complete(call.messages, call.tools, **call.parameters)


def _stopped() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _read(text: str, read: Callable[[str], T]) -> T:
    return read(text) if len(text) <= LONG else await asyncio.to_thread(read, text)


async def _looked_at(reply: T, check: Callable[[T], Awaitable[None] | None]) -> T:
    """What was read, once `check` (which may have to wait for the sandbox) let it pass."""
    waiting = check(reply)
    if inspect.isawaitable(waiting):
        await waiting
    return reply


def _with_form(messages: tuple[Message, ...], form: str) -> tuple[Message, ...]:
    last = messages[-1]
    return (*messages[:-1], last.model_copy(update={"content": with_form(last.content, form)}))

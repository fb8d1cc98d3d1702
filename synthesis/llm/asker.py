"""Calls of stages: each is looked up first, sent within the cap, stored before it is used, and counted."""

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
from synthesis.llm.calls import Sampling, Site, StageCall, get_sampling
from synthesis.llm.chat import ChatModel, Reply
from synthesis.llm.cost import FREE, CostMeter
from synthesis.llm.endpoint import StructuredForm
from synthesis.llm.reply_reader import read_object
from synthesis.llm.reply_words import Read
from synthesis.llm.source_reader import read_source
from synthesis.llm.store import CallStore
from synthesis.llm.structured import (
    build_code_form,
    build_json_form,
    build_response_format,
    build_retry_messages,
    find_failure_reason,
)
from synthesis.llm.turn_gate import UNKNOWN, expecting_calls
from synthesis.prompts import insert_form

TRIES = 3
LONG = 20_000
"""Characters from which a reply is read outside of the event loop: it may take a second, and all other items wait."""
M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")


class SiteModel(Protocol):
    """A model that also needs the site of a call: the scripted provider. Real ones see only messages."""

    @property
    def name(self) -> str: ...

    async def answer(self, call: StageCall) -> Reply:
        """Return the reply. Raise LLMError."""
        ...


@dataclass
class Asker:
    """Calls to the models of a batch, by role, in one event loop. Raise LLMError and SpendCapReached.

    Equal requests of one item that are made twice are one call unless their `sample` differs: the second finds the
    first one's reply, or waits for it. A failure is raised for all that waited.
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
        """Return the stored reply of this call, or a new one, stored before it is returned. Use the sampling of its
        role."""
        model = self.model(call.site.role)
        call = self.apply_sampling(call)
        key = call.key(model.name)
        while (flight := self._flights.get(key)) is not None:
            with contextlib.suppress(asyncio.CancelledError):
                reply = await asyncio.shield(flight)
                self.meter.replay(call.site)
                return reply
            if _is_cancelled():  # otherwise the sender was cancelled, and this task sends instead
                raise asyncio.CancelledError
        flight = self._flights[key] = asyncio.get_running_loop().create_future()
        try:
            reply = await self._find_stored(key, call) or await self._send(key, call, model)
            flight.set_result(reply)
            return reply
        except EnvariumError as error:
            flight.set_exception(error)
            flight.exception()  # no task may be waiting for it
            raise
        finally:
            del self._flights[key]
            flight.cancel()

    def apply_sampling(self, call: StageCall) -> StageCall:
        """Return the call with the parameters of its role; the offline provider has none."""
        if hasattr(self.model(call.site.role), "answer"):
            return call
        chosen = get_sampling(call.site.role, self.sampling).parameters(call.site.sample)
        return call.model_copy(update={"parameters": call.parameters | chosen})

    async def structured(
        self,
        call: StageCall,
        wanted: type[M],
        check: Callable[[M], Awaitable[None] | None] = lambda reply: None,
        tries: int = TRIES,
    ) -> M:
        """Return a reply as `wanted`; request again one that does not fit, or for which `check` raises InputError.

        If an endpoint can enforce a schema, or JSON at all, it does; the words of the request ask for it in any case.
        """
        form: StructuredForm = getattr(self.model(call.site.role), "structured", "none")
        if form != "none":
            parameters = {"response_format": build_response_format(wanted, form)} | call.parameters
            call = call.model_copy(update={"parameters": parameters})
        return await self.ask_in_form(
            call, build_json_form(wanted), lambda text: read_object(text, wanted), check, tries
        )

    async def code(
        self,
        call: StageCall,
        check: Callable[[str], Awaitable[None] | None] = lambda code: None,
        tries: int = TRIES,
    ) -> str:
        """Return a reply as Python source. Only `check` inspects it further, and it is never executed here."""
        return await self.ask_in_form(call, build_code_form(call.site.stage), read_source, check, tries)

    async def ask_in_form(
        self,
        call: StageCall,
        form: str,
        read: Callable[[str], Read],
        check: Callable[[T], Awaitable[None] | None],
        tries: int = TRIES,
    ) -> T:
        """Return the result of `read` for a reply, after `check` accepts it. The last message asks for the `form`.

        If one of them raises InputError, the model is asked again with the error. Raise MalformedReply after `tries`
        replies, from the last of these errors: none of them is kept as data.
        """
        asked = call.model_copy(update={"messages": _add_form(call.messages, form)})
        key = reason = ""
        last: InputError | None = None
        for number in range(1, tries + 1):
            reply = await self.reply(asked)
            key = self.apply_sampling(asked).key(self.model(call.site.role).name)
            repairs: tuple[str, ...] = ()
            try:
                reading = await _read_reply(reply.message.content, read)
                repairs = tuple(sorted(reading.repairs))
                value: T = await _check_reply(reading.value, check)
                if repairs:
                    await self.store.note_reading(key, repairs, "")
                return value
            except InputError as error:
                last, reason = error, find_failure_reason(reply, error)
                await self.store.note_reading(key, repairs, reason)
                more = build_retry_messages(reply.message, reason, number, error.observed)
                asked = asked.model_copy(update={"messages": (*asked.messages[: len(call.messages)], *more)})
        message = f"The {call.site.role} gave no usable reply in {tries} tries ({call.site.stage}): {reason}"
        raise MalformedReply(message, call_key=key, requests=tries) from last

    def chat(self, site: Site, calls_ahead: int = UNKNOWN) -> SiteChat:
        """Return a chat model for rollouts and judges whose calls are stored and counted like all others."""
        return SiteChat(self, site, calls_ahead)

    async def _find_stored(self, key: str, call: StageCall) -> Reply | None:
        stored = await self.store.find(key)
        if stored is not None:
            self.meter.replay(call.site)
        return stored

    async def _send(self, key: str, call: StageCall, model: ChatModel | SiteModel) -> Reply:
        price = FREE if hasattr(model, "answer") else None
        sent = 0

        async def record_begin() -> None:
            nonlocal sent
            await self.store.begin(key, call, model.name)
            sent += 1

        async with self.meter.room(call, model.name, price):
            usage: Usage | None = None
            try:
                with expecting_calls(call.calls_ahead):
                    reply = await _ask_model(model, call, record_begin)
                usage = reply.usage if reply.usage.requests else reply.usage.model_copy(update={"requests": sent})
            except LLMError as error:
                await self.store.fail(key, call, error)
                raise
            finally:  # also if the task is cancelled: sent requests are paid for
                self.meter.add(call, model.name, usage or Usage(requests=sent, lost=sent), price)
        return await self.store.keep(key, call, reply)


@dataclass(frozen=True)
class SiteChat:
    """The `ChatModel` of one site. `calls_ahead` is that of the first turn."""

    asker: Asker
    site: Site
    calls_ahead: int = UNKNOWN

    @property
    def name(self) -> str:
        return self.asker.model(self.site.role).name

    async def complete(self, messages: Sequence[Message], tools: Sequence[Tool] = (), **parameters: Any) -> Reply:
        turns = sum(message.role == "assistant" for message in messages)
        ahead = max(0, self.calls_ahead - turns) if self.calls_ahead < UNKNOWN else UNKNOWN
        call = StageCall(
            site=self.site,
            messages=tuple(messages),
            tools=tuple(tools),
            parameters=parameters,
            calls_ahead=ahead,
        )
        return await self.asker.reply(call)


async def _ask_model(model: ChatModel | SiteModel, call: StageCall, before: Callable[[], Awaitable[None]]) -> Reply:
    """Return the model's reply. `before` is awaited before each request, if the model supports that."""
    if hasattr(model, "send"):
        return await model.send(call.messages, call.tools, call.parameters, before)
    await before()
    if hasattr(model, "answer"):
        return await model.answer(call)
    return await model.complete(call.messages, call.tools, **call.parameters)


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _read_reply(text: str, read: Callable[[str], T]) -> T:
    return read(text) if len(text) <= LONG else await asyncio.to_thread(read, text)


async def _check_reply(reply: T, check: Callable[[T], Awaitable[None] | None]) -> T:
    """Return the reply, after `check` (which may have to wait for the sandbox) accepts it."""
    waiting = check(reply)
    if inspect.isawaitable(waiting):
        await waiting
    return reply


def _add_form(messages: tuple[Message, ...], form: str) -> tuple[Message, ...]:
    last = messages[-1]
    return (*messages[:-1], last.model_copy(update={"content": insert_form(last.content, form)}))

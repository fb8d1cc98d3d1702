"""OpenAI-compatible servers, spoken to by `openai`'s async client, with retries that are counted and bounded."""

from __future__ import annotations

import asyncio
import email.utils
import json
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from types import TracebackType
from typing import Any, TypeVar

import httpx
import openai

from synthesis.contracts import Message, Tool, Usage
from synthesis.errors import FormatError, InputError, LLMError
from synthesis.llm.chat import Embeddings, Reply
from synthesis.llm.endpoint import Endpoint, StructuredForm
from synthesis.llm.transport import BoundedTransport, Lanes
from synthesis.llm.wire import read_embeddings, read_models, read_reply, request_messages, request_tools

FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 30.0
LONGEST_RETRY_AFTER_S = 120.0
"""So long others wait on the word of a server; whoever it was said to waits as asked, if the deadline lets it."""
EMBEDDED_AT_ONCE = 16
"""Texts in a request: their vectors must fit in a reply, 4,096 numbers as text each."""
EMBEDDED_CHARS = 32_000
LONG_KEY = 12
EXCERPT_FROM = 100_000
"""A longer page of an error is not read as JSON."""
_AGAIN = {"unreachable", "timeout", "rate_limited", "failed", "malformed"}
RESERVED = frozenset({"model", "stream", "n"})
"""Set here; as a parameter they are an InputError."""
_RETRIED_STATUS = {408, 409, 425, 429}
_QUOTA_WORDS = ("insufficient_quota", "exceeded your current quota")
"""Of a 429 that no waiting helps."""
T = TypeVar("T")
_CONTEXT_WORDS = (
    "context_length_exceeded",
    "maximum context length",
    "context window",
    "max_model_len",
    "prompt is too long",
)


def connect(endpoint: Endpoint) -> Connection:
    """A connection, to be used as `async with`; it belongs to the event loop it is opened in."""
    return Connection(endpoint)


async def _nothing() -> None:
    """Before a request, where nobody wants to know."""


class Connection:
    """One endpoint's connection pool and its gate: all its models together keep to `max_concurrency`.

    Where the server asks for a pause (`Retry-After`), nothing more goes to it until that is over.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.gate = asyncio.Semaphore(endpoint.max_concurrency)
        self.porch = asyncio.Semaphore(endpoint.max_concurrency + endpoint.max_concurrency // 4)
        """Where many may be sent at once, a few more are written down before their turn, which is not spent on that."""
        self._quiet_until = 0.0
        self._key = endpoint.api_key.get_secret_value()
        lanes = Lanes(endpoint.max_concurrency, endpoint.reach)
        transport = BoundedTransport(lanes, self._key, endpoint.reply_bytes)
        self._http = httpx.AsyncClient(transport=transport, follow_redirects=False, trust_env=False)
        self._client = openai.AsyncOpenAI(
            api_key="set by the transport",
            base_url=endpoint.base_url,
            max_retries=0,
            timeout=endpoint.timeout_s,
            http_client=self._http,
        )

    def chat(self, model: str) -> OpenAIChat:
        """A model of this endpoint."""
        return OpenAIChat(self, model)

    async def completion(self, body: dict[str, Any], before: Callable[[], Awaitable[None]] = _nothing) -> Reply:
        """The reply to a request, tried again while that may help; `before` is awaited before each try.

        `usage.requests` counts what was sent, `usage.lost` what failed. Raises LLMError.
        """

        # Not `chat.completions.create`: it walks every message by its declared type first, 13 ms for a long talk.
        def send() -> Awaitable[httpx.Response]:
            return self._client.post("/chat/completions", cast_to=httpx.Response, body=body)

        reply, sent = await self._insist(send, self._reader(read_reply, "chat completion"), before)
        usage = reply.usage.model_copy(update={"requests": sent, "lost": sent - 1})
        return reply.model_copy(update={"usage": usage})

    async def embed(self, model: str, texts: Sequence[str]) -> Embeddings:
        """A vector for each text, in their order and of one length; `EMBEDDED_AT_ONCE` texts a request.

        Raises LLMError, and InputError for a text that is empty or longer than `EMBEDDED_CHARS`.
        """
        for place, text in enumerate(texts):
            if not 0 < len(text) <= EMBEDDED_CHARS:
                raise InputError(f"Text {place} has {len(text):,} characters; 1 to {EMBEDDED_CHARS:,} can be embedded.")
        starts = range(0, len(texts), EMBEDDED_AT_ONCE)
        try:
            async with asyncio.TaskGroup() as group:
                asked = [
                    group.create_task(self._embedded(model, texts[start : start + EMBEDDED_AT_ONCE]))
                    for start in starts
                ]
        except ExceptionGroup as failed:  # the first one has stopped the others
            raise failed.exceptions[0] from None
        batches = [task.result() for task in asked]
        usage = sum((batch.usage for batch in batches), Usage())
        vectors = tuple(vector for batch in batches for vector in batch.vectors)
        if len({len(vector) for vector in vectors}) > 1:
            raise LLMError("malformed", f"{self._who()} sent vectors of different lengths.", requests=usage.requests)
        return Embeddings(vectors=vectors, usage=usage)

    async def _embedded(self, model: str, texts: Sequence[str]) -> Embeddings:
        body = {"model": model, "input": list(texts), "encoding_format": "float"}

        def send() -> Awaitable[httpx.Response]:
            return self._client.post("/embeddings", cast_to=httpx.Response, body=body)

        read = self._reader(lambda text: read_embeddings(text, len(texts)), "list of embeddings")
        embedded, sent = await self._insist(send, read)
        return embedded.model_copy(
            update={"usage": embedded.usage.model_copy(update={"requests": sent, "lost": sent - 1})}
        )

    async def models(self) -> list[str]:
        """The names of the models that the server lists, without a retry. Raises LLMError."""
        response = await self._answer(
            lambda: self._client.get("/models", cast_to=httpx.Response), self.endpoint.timeout_s
        )
        return self._reader(read_models, "list of models")(response)

    async def _insist(
        self,
        send: Callable[[], Awaitable[httpx.Response]],
        read: Callable[[httpx.Response], T],
        before: Callable[[], Awaitable[None]] = _nothing,
    ) -> tuple[T, int]:
        """(what is read of the answer, requests sent), within the retries and the deadline. Raises LLMError.

        The deadline counts requests and waits between them, not the wait for a turn: that is not the server's fault.
        """
        endpoint, left, started = self.endpoint, self.endpoint.deadline_s, 0.0

        def begin() -> None:
            nonlocal started
            started = time.monotonic()

        for sent in range(1, endpoint.max_retries + 2):
            try:
                return read(await self._answer(send, min(left, endpoint.timeout_s), before, begin)), sent
            except LLMError as error:
                error.requests = sent
                wait = _wait(error, sent)
                left -= time.monotonic() - started + wait
                if error.reason not in _AGAIN or sent > endpoint.max_retries or left <= 0:
                    raise _final(error, sent) from None
                await asyncio.sleep(wait)
        raise AssertionError("the loop returns or raises")

    async def _answer(
        self,
        send: Callable[[], Awaitable[httpx.Response]],
        seconds: float,
        before: Callable[[], Awaitable[None]] = _nothing,
        on_turn: Callable[[], None] = lambda: None,
    ) -> httpx.Response:
        """What the server answers to one request, within the gate and the time. Raises LLMError."""
        try:
            async with self.porch:
                await self._quiet()
                await before()
                async with self.gate:
                    await self._quiet()
                    on_turn()
                    async with asyncio.timeout(seconds):
                        return await send()
        except (TimeoutError, openai.APITimeoutError):
            raise LLMError("timeout", f"{self._who()} did not reply within {round(seconds, 1):g} seconds.") from None
        except openai.APIStatusError as error:
            raise self._paused(self._refusal(error.response)) from None
        except openai.APIConnectionError as error:
            if isinstance(error.__cause__, LLMError):
                raise self._named(error.__cause__) from None
            cause = type(error.__cause__ or error).__name__
            raise LLMError("unreachable", f"{self._who()} cannot be reached, or hung up ({cause}).") from None
        except LLMError as error:
            raise self._named(error) from None

    async def _quiet(self) -> None:
        """Until the pause is over that the server asked for, if any."""
        while (rest := self._quiet_until - time.monotonic()) > 0:
            await asyncio.sleep(rest)

    def _reader(self, read: Callable[[str], T], what: str) -> Callable[[httpx.Response], T]:
        """`read` on a response's text; what it cannot read is an LLMError that shows what came instead."""

        def reading(response: httpx.Response) -> T:
            text = response.text
            if len(self._key) >= LONG_KEY:  # a server may repeat it; short ones are words that replies hold
                text = text.replace(self._key, "[key]")
            try:
                return read(text)
            except FormatError as error:
                kind = response.headers.get("content-type", "no content type")[:60]
                shown = self._excerpt(response)
                message = f"{self._who()} sent something that is no {what} ({error}; {kind}): {shown}"
                raise LLMError("malformed", message) from None

        return reading

    def _paused(self, error: LLMError) -> LLMError:
        """The same error; where the server asks for a pause with it, everybody keeps it."""
        if error.retry_after is not None:
            rest = max(0.0, min(error.retry_after, LONGEST_RETRY_AFTER_S))
            self._quiet_until = max(self._quiet_until, time.monotonic() + rest)
        return error

    def _refusal(self, response: httpx.Response) -> LLMError:
        status, excerpt = response.status_code, self._excerpt(response)
        who = self._who()
        if 300 <= status < 400:
            return LLMError(
                "refused",
                f"{who} redirects elsewhere ({status}); redirects are not followed. Register its final address.",
            )
        if status in {401, 403}:
            return LLMError("refused", f"{who} refused the key ({status}): {excerpt}")
        if status == 404:
            return LLMError("refused", f"{who} knows no such model or address (404): {excerpt}")
        if status in {400, 413, 422} and any(word in response.text.lower() for word in _CONTEXT_WORDS):
            return LLMError("context", f"The conversation is longer than the model of {who} can read: {excerpt}")
        asked = retry_after(response.headers)
        if status == 429 and not any(word in response.text.lower() for word in _QUOTA_WORDS):
            return LLMError("rate_limited", f"{who} asks for fewer requests (429): {excerpt}", retry_after=asked)
        if status in _RETRIED_STATUS - {429} or status >= 500:
            return LLMError("failed", f"{who} failed ({status}): {excerpt}", retry_after=asked)
        return LLMError("refused", f"{who} refused the request ({status}): {excerpt}")

    def _named(self, error: LLMError) -> LLMError:
        return LLMError(error.reason, f"{self._who()}: {error}") if self._who() not in str(error) else error

    def _who(self) -> str:
        return f"The endpoint {self.endpoint.name}"

    def _excerpt(self, response: httpx.Response) -> str:
        text = response.text
        try:
            body = json.loads(text) if len(text) < EXCERPT_FROM else None
            inner = body.get("error", body.get("message")) if isinstance(body, dict) else None
            inner = inner.get("message") if isinstance(inner, dict) else inner
            text = inner if isinstance(inner, str) else text
        except (ValueError, RecursionError):
            pass
        # An echo of the key would go to logs and pages: some servers repeat it whole.
        text = text.replace(self._key, "[key]") if self._key else text
        return " ".join(text.split())[:300] or "(nothing said)"

    async def aclose(self) -> None:
        await self._client.close()

    async def __aenter__(self) -> Connection:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class OpenAIChat:
    """A model of a connection: the `ChatModel` that everything uses."""

    def __init__(self, connection: Connection, model: str) -> None:
        self.connection = connection
        self.model = model

    @property
    def name(self) -> str:
        return f"{self.connection.endpoint.name}/{self.model}"

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
        before: Callable[[], Awaitable[None]] = _nothing,
    ) -> Reply:
        """As `complete`; `before` is awaited when a request's turn comes next, each retry included."""
        if taken := RESERVED & parameters.keys():
            raise InputError(f"{', '.join(sorted(taken))} cannot be set as a parameter of a model.")
        body: dict[str, Any] = {"model": self.model, "messages": request_messages(messages)}
        if tools:
            body["tools"] = request_tools(tools)
        return await self.connection.completion(body | dict(parameters), before)


@asynccontextmanager
async def open_models(chosen: Mapping[str, tuple[Endpoint, str]]) -> AsyncIterator[dict[str, OpenAIChat]]:
    """The chosen (endpoint, model) of each role, opened. Roles at one endpoint share its connection and its gate."""
    async with AsyncExitStack() as stack:
        opened: list[Connection] = []
        models: dict[str, OpenAIChat] = {}
        for role, (endpoint, model) in chosen.items():
            connection = next((known for known in opened if known.endpoint == endpoint), None)
            if connection is None:
                connection = await stack.enter_async_context(connect(endpoint))
                opened.append(connection)
            models[role] = connection.chat(model)
        yield models


def _final(error: LLMError, sent: int) -> LLMError:
    if sent == 1:
        return error
    return LLMError(error.reason, f"{error} (tried {sent} times)", requests=sent, retry_after=error.retry_after)


def _wait(error: LLMError, sent: int) -> float:
    """Seconds until the next try: what the server asks for, else doubling, with jitter so that many do not come
    back at once."""
    if error.retry_after is not None:
        return max(0.0, error.retry_after) + random.uniform(0.0, 0.1)
    return min(FIRST_WAIT_S * 2 ** (sent - 1), LONGEST_WAIT_S) * random.uniform(0.75, 1.25)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that `Retry-After` (seconds or a date) asks for; None where it says nothing usable."""
    value = headers.get("retry-after", "").strip()
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(value).timestamp() - time.time()
        except (TypeError, ValueError):
            return None
    return seconds if seconds == seconds else None

"""A client of OpenAI-compatible servers, based on `openai`'s async client, with counted and bounded retries."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, TypeVar

import httpx
import openai

from synthesis.contracts import Usage
from synthesis.errors import FormatError, InputError, LLMError
from synthesis.llm.chat import Embeddings, Reply
from synthesis.llm.endpoint import Endpoint
from synthesis.llm.failures import build_status_error, extract_message, is_too_long
from synthesis.llm.openai_chat import OpenAIChat, ignore_request
from synthesis.llm.refusals import LeftOut, find_refused_parameter, fit_body
from synthesis.llm.repetition import REASON as REPETITION
from synthesis.llm.repetition import strip_repetition
from synthesis.llm.stream import collect_completion, is_stream
from synthesis.llm.transport import AiohttpTransport, BoundedTransport
from synthesis.llm.turn_gate import TurnGate
from synthesis.llm.wire import encode_body, read_embeddings, read_models, read_reply

FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 30.0
LONGEST_RETRY_AFTER_S = 120.0
"""Longest wait of other callers after a server's request; its recipient waits as asked, if the deadline allows it."""
EMBEDDED_AT_ONCE = 16
"""Texts in a request: their vectors must fit in a reply, 4,096 numbers as text each."""
EMBEDDED_CHARS = 32_000
CONNECT_S = 15.0
LONG_KEY = 12
STREAMED = "x-streamed"
"""Marks a response that was put together from a stream."""
JSON_HEADERS = {"Content-Type": "application/json", "User-Agent": f"Envarium (openai {openai.__version__})"}
_AGAIN = {"unreachable", "timeout", "rate_limited", "failed", "malformed"}
T = TypeVar("T")


Noted = Callable[[str, LeftOut], Awaitable[None]]
"""Hears the endpoint's name and the parameter that is left out from now on."""


async def _ignore_left_out(endpoint: str, left_out: LeftOut) -> None:
    """Ignore a parameter that an endpoint refuses."""


def connect_to_endpoint(endpoint: Endpoint, noted: Noted = _ignore_left_out) -> Connection:
    """Return a connection, to be used as `async with`; it belongs to the event loop it is opened in."""
    return Connection(endpoint, noted)


@dataclass
class _Heard:
    """The received part of a reply: whether it is a stream, and whether there were any words in it."""

    streamed: bool = False
    words: bool = False


class _Unfit(Exception):
    """The server refuses a parameter of the request: it is sent again without it."""

    def __init__(self, left_out: LeftOut, requests: int = 0) -> None:
        super().__init__(left_out.name)
        self.left_out = left_out
        self.requests = requests


class Connection:
    """One endpoint's connection pool and its gate: all its models together keep to `max_concurrency`.

    If the server asks for a pause (`Retry-After`), no request is sent to it until that is over.
    """

    def __init__(self, endpoint: Endpoint, noted: Noted = _ignore_left_out) -> None:
        self.endpoint = endpoint
        self.left_out = {model: dict(names) for model, names in endpoint.left_out.items()}
        self.asked_after: frozenset[str] = frozenset()
        """Parameters that are never left out: their refusal is what the caller wants to hear."""
        self._noted = noted
        self.gate = TurnGate(endpoint.max_concurrency)
        self.porch = TurnGate(endpoint.max_concurrency + endpoint.max_concurrency // 4)
        """Where many may be sent at once, a few more are written down before their turn, which is not spent on that."""
        self.heard_at = 0.0
        """When the server last sent something (`time.monotonic`), to whomever: it works, however long others wait."""
        self._quiet_until = 0.0
        self._key = endpoint.api_key.get_secret_value()
        self._transport = BoundedTransport(AiohttpTransport(endpoint.reach), self._key, endpoint.reply_bytes)
        self._http = httpx.AsyncClient(transport=self._transport, follow_redirects=False, trust_env=False)
        self._timeout = httpx.Timeout(endpoint.timeout_s, connect=min(endpoint.timeout_s, CONNECT_S))
        self._client = openai.AsyncOpenAI(
            api_key="set by the transport",
            base_url=endpoint.base_url,
            max_retries=0,
            timeout=self._timeout,
            http_client=self._http,
        )
        self._completions = httpx.URL(f"{self._client.base_url}chat/completions")

    def chat(self, model: str) -> OpenAIChat:
        """Return a model of this endpoint."""
        return OpenAIChat(self, model)

    async def completion(self, body: dict[str, Any], before: Callable[[], Awaitable[None]] = ignore_request) -> Reply:
        """Return the reply to a request, with retries while they may help; `before` is awaited before each try.

        `usage.requests` counts the requests sent, `usage.lost` those that failed. Raise LLMError.
        """

        model, received = str(body.get("model", "")), _Heard()
        spent = 0

        def read_completion(response: httpx.Response) -> Reply:
            received.streamed = STREAMED in response.headers
            return self._make_reader(read_reply, "chat completion")(response)

        while True:
            left_out = self.left_out.setdefault(model, {})
            known_refusals = {name: instead for name, instead in left_out.items() if name not in self.asked_after}
            sent = fit_body({"stream": True, "stream_options": {"include_usage": True}} | body, known_refusals)
            if "stream" not in sent:
                sent.pop("stream_options", None)
            try:
                reply, requests = await self._insist(
                    lambda sent=sent: self._send(sent),  # type: ignore[misc]
                    read_completion,
                    before,
                )
                break
            except _Unfit as unfit:
                spent += unfit.requests
                await self._leave_out(unfit.left_out)
            except LLMError as error:
                error.requests += spent
                raise
        if received.streamed and not reply.usage.prompt_tokens and reply.finish_reason != REPETITION:
            # A cap cannot be enforced without token counts: the next replies are not streamed.
            await self._leave_out(LeftOut(model=model, name="stream", said="it counts no tokens of what it streams"))
        usage = reply.usage.model_copy(update={"requests": requests + spent, "lost": requests + spent - 1})
        return strip_repetition(reply.model_copy(update={"usage": usage}))

    async def _send(self, body: dict[str, Any]) -> httpx.Response:
        """Return the response to a request, whose body may not be complete. Raise _Unfit if a parameter is refused."""
        # Not with the clients of `openai` or httpx: both together take four times the processor time of the request.
        request = httpx.Request(
            "POST",
            self._completions,
            headers=JSON_HEADERS,
            content=encode_body(body),
            extensions={"timeout": self._timeout.as_dict()},
        )
        response = await self._transport.handle_async_request(request)
        if response.is_success:
            return response
        await response.aread()
        refused = find_refused_parameter(response.status_code, response.text, body)
        if refused is None or refused[0] in self.asked_after or is_too_long(response):
            raise httpx.HTTPStatusError("", request=request, response=response)
        message = extract_message(response, self._key)
        name, instead = refused
        raise _Unfit(LeftOut(model=str(body.get("model", "")), name=name, instead=instead, said=message))

    async def _leave_out(self, left_out: LeftOut) -> None:
        self.left_out.setdefault(left_out.model, {})[left_out.name] = left_out.instead
        await self._noted(self.endpoint.name, left_out)

    async def embed(self, model: str, texts: Sequence[str]) -> Embeddings:
        """Return a vector for each text, in their order and of one length; `EMBEDDED_AT_ONCE` texts a request.

        Raise LLMError, and InputError for a text that is empty or longer than `EMBEDDED_CHARS`.
        """
        for place, text in enumerate(texts):
            if not 0 < len(text) <= EMBEDDED_CHARS:
                raise InputError(f"Text {place} has {len(text):,} characters; 1 to {EMBEDDED_CHARS:,} can be embedded.")
        starts = range(0, len(texts), EMBEDDED_AT_ONCE)
        try:
            async with asyncio.TaskGroup() as group:
                asked = [
                    group.create_task(self._embed_batch(model, texts[start : start + EMBEDDED_AT_ONCE]))
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

    async def _embed_batch(self, model: str, texts: Sequence[str]) -> Embeddings:
        body = {"model": model, "input": list(texts), "encoding_format": "float"}

        def send_texts() -> Awaitable[httpx.Response]:
            return self._client.post("/embeddings", cast_to=httpx.Response, body=body)

        read = self._make_reader(lambda text: read_embeddings(text, len(texts)), "list of embeddings")
        embedded, sent = await self._insist(send_texts, read)
        return embedded.model_copy(
            update={"usage": embedded.usage.model_copy(update={"requests": sent, "lost": sent - 1})}
        )

    async def models(self) -> list[str]:
        """Return the names of the models that the server lists, without a retry. Raise LLMError."""
        response = await self._answer(
            lambda: self._client.get("/models", cast_to=httpx.Response), self.endpoint.timeout_s
        )
        return self._make_reader(read_models, "list of models")(response)

    async def _insist(
        self,
        send: Callable[[], Awaitable[httpx.Response]],
        read: Callable[[httpx.Response], T],
        before: Callable[[], Awaitable[None]] = ignore_request,
    ) -> tuple[T, int]:
        """Return (the parsed answer, requests sent), within the retries and the deadline. Raise LLMError.

        The deadline counts requests and waits between them, not the wait for a turn: that is not the server's fault.
        """
        endpoint, left, started = self.endpoint, self.endpoint.deadline_s, 0.0

        def record_start() -> None:
            nonlocal started
            started = time.monotonic()

        for sent in range(1, endpoint.max_retries + 2):
            try:
                return read(await self._answer(send, min(left, endpoint.timeout_s), before, record_start)), sent
            except _Unfit as unfit:
                unfit.requests = sent
                raise
            except LLMError as error:
                error.requests = sent
                wait = _compute_wait(error, sent)
                left -= time.monotonic() - started + wait
                if error.reason not in _AGAIN or sent > endpoint.max_retries or left <= 0:
                    raise _build_final_error(error, sent) from None
                await asyncio.sleep(wait)
        raise AssertionError("the loop returns or raises")

    async def _answer(
        self,
        send: Callable[[], Awaitable[httpx.Response]],
        seconds: float,
        before: Callable[[], Awaitable[None]] = ignore_request,
        on_turn: Callable[[], None] = lambda: None,
    ) -> httpx.Response:
        """Return the response to one request. Raise LLMError; the time limit is for the server's silence."""
        received = _Heard()
        try:
            async with self.porch.turn():
                await self._wait_out_pause()
                await before()
                async with self.gate.turn():
                    await self._wait_out_pause()
                    on_turn()
                    async with asyncio.timeout(seconds) as silence:
                        response = await self._read_whole(await send(), silence, received)
                        self.heard_at = time.monotonic()
                        return response
        except (TimeoutError, openai.APITimeoutError, httpx.TimeoutException) as error:
            cause = error if isinstance(error, httpx.ConnectTimeout) else error.__cause__
            if isinstance(cause, httpx.ConnectTimeout):
                raise self._build_unreachable_error(cause) from None
            raise LLMError("timeout", self._format_silence(received, seconds)) from None
        except (openai.APIStatusError, httpx.HTTPStatusError) as error:
            raise self._record_pause(build_status_error(self._who(), error.response, self._key)) from None
        except openai.APIConnectionError as error:
            if isinstance(error.__cause__, LLMError):
                raise self._name_endpoint(error.__cause__) from None
            raise self._build_unreachable_error(error.__cause__ or error) from None
        except httpx.HTTPError as error:
            raise self._build_unreachable_error(error) from None
        except LLMError as error:
            raise self._name_endpoint(error) from None

    async def _read_whole(self, response: httpx.Response, silence: asyncio.Timeout, heard: _Heard) -> httpx.Response:
        """Return the response with its whole body. Each piece with words extends the time limit; pieces without words
        extend it only until the deadline."""
        if not is_stream(response):
            await response.aread()
            return response
        now = asyncio.get_running_loop().time
        last = now() + self.endpoint.deadline_s

        def record_activity(words: bool) -> None:
            heard.words = heard.words or words
            self.heard_at = time.monotonic()
            if words or now() < last:
                silence.reschedule(now() + self.endpoint.timeout_s)

        heard.streamed = True
        try:
            text = await collect_completion(response, self.endpoint.reply_bytes, record_activity)
        except FormatError as error:
            raise LLMError("malformed", f"{self._who()} sent a stream that is no chat completion ({error}).") from None
        finally:
            await response.aclose()
        return httpx.Response(200, text=text, headers={"content-type": "application/json", STREAMED: "1"})

    def _format_silence(self, heard: _Heard, seconds: float) -> str:
        if heard.words:
            return f"{self._who()} stopped sending during its reply, for {self.endpoint.timeout_s:g} seconds."
        of_all = seconds < self.endpoint.timeout_s  # the last request has the rest of the deadline
        spelled = f"{self.endpoint.deadline_s if of_all else seconds:g}"
        limit = f"{spelled} second{'s' * (spelled != '1')}"
        return f"{self._who()} did not reply within {limit}{', all tries together' * of_all}."

    def _build_unreachable_error(self, cause: BaseException) -> LLMError:
        name = type(cause).__name__
        away = self.endpoint.name if isinstance(cause, httpx.ConnectError | httpx.ConnectTimeout) else ""
        return LLMError("unreachable", f"{self._who()} cannot be reached, or hung up ({name}).", away=away)

    async def _wait_out_pause(self) -> None:
        """Wait until the pause that the server asked for is over, if any."""
        while (rest := self._quiet_until - time.monotonic()) > 0:
            await asyncio.sleep(rest)

    def _make_reader(self, read: Callable[[str], T], what: str) -> Callable[[httpx.Response], T]:
        """Wrap `read` for a response's text; a text that it cannot read becomes an LLMError that shows the text."""

        def read_response(response: httpx.Response) -> T:
            text = response.text
            if len(self._key) >= LONG_KEY:  # a server may repeat it; short ones are words that replies hold
                text = text.replace(self._key, "[key]")
            try:
                return read(text)
            except FormatError as error:
                kind = response.headers.get("content-type", "no content type")[:60]
                message_text = extract_message(response, self._key)
                message = f"{self._who()} sent something that is no {what} ({error}; {kind}): {message_text}"
                raise LLMError("malformed", message) from None

        return read_response

    def _record_pause(self, error: LLMError) -> LLMError:
        """Return the same error; if the server asks for a pause with it, all requests wait for that."""
        if error.retry_after is not None:
            rest = max(0.0, min(error.retry_after, LONGEST_RETRY_AFTER_S))
            self._quiet_until = max(self._quiet_until, time.monotonic() + rest)
        return error

    def _name_endpoint(self, error: LLMError) -> LLMError:
        return LLMError(error.reason, f"{self._who()}: {error}") if self._who() not in str(error) else error

    def _who(self) -> str:
        return f"The endpoint {self.endpoint.name}"

    async def aclose(self) -> None:
        await self._client.close()

    async def __aenter__(self) -> Connection:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


@asynccontextmanager
async def open_models(
    chosen: Mapping[str, tuple[Endpoint, str]], noted: Noted = _ignore_left_out
) -> AsyncIterator[dict[str, OpenAIChat]]:
    """Open the chosen (endpoint, model) of each role. Roles at one endpoint share its connection and its gate."""
    async with AsyncExitStack() as stack:
        opened: list[Connection] = []
        models: dict[str, OpenAIChat] = {}
        for role, (endpoint, model) in chosen.items():
            connection = next((known for known in opened if known.endpoint == endpoint), None)
            if connection is None:
                connection = await stack.enter_async_context(connect_to_endpoint(endpoint, noted))
                opened.append(connection)
            models[role] = connection.chat(model)
        yield models


def _build_final_error(error: LLMError, sent: int) -> LLMError:
    if sent == 1:
        return error
    message = f"{error} (tried {sent} times)"
    return LLMError(error.reason, message, requests=sent, retry_after=error.retry_after, away=error.away)


def _compute_wait(error: LLMError, sent: int) -> float:
    """Return the seconds until the next try: as the server asks, else doubling, with jitter to spread the retries."""
    if error.retry_after is not None:
        return max(0.0, error.retry_after) + random.uniform(0.0, 0.1)
    return min(FIRST_WAIT_S * 2 ** (sent - 1), LONGEST_WAIT_S) * random.uniform(0.75, 1.25)

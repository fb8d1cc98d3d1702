"""OpenAI-compatible servers, spoken to by `openai`'s async client, with retries that are counted and bounded."""

from __future__ import annotations

import asyncio
import email.utils
import json
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import Any

import httpx
import openai

from synthesis.contracts import Message, Tool
from synthesis.errors import FormatError, InputError, LLMError
from synthesis.llm.chat import Reply
from synthesis.llm.endpoint import Endpoint
from synthesis.llm.transport import BoundedTransport, Lanes
from synthesis.llm.wire import read_models, read_reply, request_messages, request_tools

FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 30.0
LONGEST_RETRY_AFTER_S = 120.0
_AGAIN = {"unreachable", "timeout", "rate_limited", "failed", "malformed"}
RESERVED = frozenset({"model", "stream", "n"})
"""Set here; as a parameter they are an InputError."""
_RETRIED_STATUS = {408, 409, 425, 429}
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


class Connection:
    """One endpoint's connection pool and its gate: all its models together keep to `max_concurrency`."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.gate = asyncio.Semaphore(endpoint.max_concurrency)
        self._key = endpoint.api_key.get_secret_value()
        transport = BoundedTransport(Lanes(endpoint.max_concurrency), self._key, endpoint.reply_bytes)
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

    async def request(self, body: dict[str, Any]) -> Reply:
        """One request, without a retry. Raises LLMError."""

        # Not `chat.completions.create`: it walks every message by its declared type first, 13 ms for a long talk.
        def send() -> Awaitable[httpx.Response]:
            return self._client.post("/chat/completions", cast_to=httpx.Response, body=body)

        return self._read(await self._answer(send))

    async def models(self) -> list[str]:
        """The names of the models that the server lists, without a retry. Raises LLMError."""
        response = await self._answer(lambda: self._client.get("/models", cast_to=httpx.Response))
        try:
            return read_models(response.text)
        except FormatError as error:
            message = f"{self._who()} sent something that is no list of models ({error}): {self._excerpt(response)}"
            raise LLMError("malformed", message) from None

    async def _answer(self, send: Callable[[], Awaitable[httpx.Response]]) -> httpx.Response:
        """What the server answers to one request, within the gate and the time. Raises LLMError."""
        seconds = self.endpoint.timeout_s
        try:
            async with self.gate, asyncio.timeout(seconds):
                return await send()
        except (TimeoutError, openai.APITimeoutError):
            raise LLMError("timeout", f"{self._who()} did not reply within {seconds:g} seconds.") from None
        except openai.APIStatusError as error:
            raise self._refusal(error.response) from None
        except openai.APIConnectionError as error:
            if isinstance(error.__cause__, LLMError):
                raise self._named(error.__cause__) from None
            cause = type(error.__cause__ or error).__name__
            raise LLMError("unreachable", f"{self._who()} cannot be reached, or hung up ({cause}).") from None
        except LLMError as error:
            raise self._named(error) from None

    def _read(self, response: httpx.Response) -> Reply:
        try:
            return read_reply(response.text)
        except FormatError as error:
            kind = response.headers.get("content-type", "no content type")[:60]
            shown = self._excerpt(response)
            message = f"{self._who()} sent something that is no chat completion ({error}; {kind}): {shown}"
            raise LLMError("malformed", message) from None

    def _refusal(self, response: httpx.Response) -> LLMError:
        status, said = response.status_code, self._excerpt(response)
        who = self._who()
        if 300 <= status < 400:
            return LLMError(
                "refused",
                f"{who} redirects elsewhere ({status}); redirects are not followed. Register its final address.",
            )
        if status in {401, 403}:
            return LLMError("refused", f"{who} refused the key ({status}): {said}")
        if status == 404:
            return LLMError("refused", f"{who} knows no such model or address (404): {said}")
        if status in {400, 413, 422} and any(word in response.text.lower() for word in _CONTEXT_WORDS):
            return LLMError("context", f"The conversation is longer than the model of {who} can read: {said}")
        if status == 429:
            error = LLMError("rate_limited", f"{who} asks for fewer requests (429): {said}")
        elif status in _RETRIED_STATUS or status >= 500:
            error = LLMError("failed", f"{who} failed ({status}): {said}")
        else:
            return LLMError("refused", f"{who} refused the request ({status}): {said}")
        error.__dict__["retry_after"] = retry_after(response.headers)
        return error

    def _named(self, error: LLMError) -> LLMError:
        return LLMError(error.reason, f"{self._who()}: {error}") if self._who() not in str(error) else error

    def _who(self) -> str:
        return f"The endpoint {self.endpoint.name}"

    def _excerpt(self, response: httpx.Response) -> str:
        text = response.text
        try:
            found = json.loads(text)
            inner = found.get("error", found.get("message")) if isinstance(found, dict) else None
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

    async def complete(self, messages: Sequence[Message], tools: Sequence[Tool] = (), **parameters: Any) -> Reply:
        """The next message; `usage.requests` counts what was sent for it, `usage.lost` what failed before.

        Raises LLMError once the retries or the deadline are used up; its `requests` says how many were sent.
        Raises InputError for a parameter that is not the caller's to set.
        """
        if taken := RESERVED & parameters.keys():
            raise InputError(f"{', '.join(sorted(taken))} cannot be set as a parameter of a model.")
        body: dict[str, Any] = {"model": self.model, "messages": request_messages(messages)}
        if tools:
            body["tools"] = request_tools(tools)
        body |= parameters
        endpoint = self.connection.endpoint
        until = time.monotonic() + endpoint.deadline_s
        for sent in range(1, endpoint.max_retries + 2):
            try:
                async with asyncio.timeout(until - time.monotonic()):
                    reply = await self.connection.request(body)
            except TimeoutError:
                message = f"The endpoint {endpoint.name} gave no reply within {endpoint.deadline_s:g} seconds."
                raise LLMError("timeout", message, requests=sent) from None
            except LLMError as error:
                error.requests = sent
                wait = _wait(error, sent)
                last = sent > endpoint.max_retries or time.monotonic() + wait >= until
                if error.reason not in _AGAIN or last:
                    raise _final(error, sent) from None
                await asyncio.sleep(wait)
            else:
                usage = reply.usage.model_copy(update={"requests": sent, "lost": sent - 1})
                return reply.model_copy(update={"usage": usage})
        raise AssertionError("the loop returns or raises")


def _final(error: LLMError, sent: int) -> LLMError:
    if sent == 1:
        return error
    return LLMError(error.reason, f"{error} (tried {sent} times)", requests=sent)


def _wait(error: LLMError, sent: int) -> float:
    """Seconds until the next try: what the server asks for, else doubling, with jitter so that many do not come
    back at once."""
    asked = error.__dict__.get("retry_after")
    backoff = min(FIRST_WAIT_S * 2 ** (sent - 1), LONGEST_WAIT_S) * random.uniform(0.75, 1.25)
    return backoff if asked is None else max(0.0, min(asked, LONGEST_RETRY_AFTER_S)) + random.uniform(0.0, 0.1)


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

"""A short conversation with an endpoint, to show whether it works and what it can do."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel

from synthesis.contracts import Message, Tool
from synthesis.errors import EnvariumError, FormatError, LLMError
from synthesis.json_reader import read_json
from synthesis.llm import Endpoint, Reply
from synthesis.llm.endpoint import StructuredForm
from synthesis.llm.structured import build_response_format
from webapp.endpoints import services
from webapp.endpoints.connections import open_connection
from webapp.endpoints.models import Endpoint as Row
from webapp.endpoints.models import StructuredOutput

if TYPE_CHECKING:
    from synthesis.llm.openai_chat import OpenAIChat

SECONDS = 20.0
TOKENS = 200
MOST_CHARS = 10_000
"""A longer reply is none of so few tokens."""
PING = Tool(
    name="ping",
    description="Says that calls arrive.",
    parameters={"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]},
)
ASKED = Message(role="user", content="Call the tool ping with the word hello. Say nothing else.")
GREETING = Message(role="user", content="Say hello in one short sentence.")
"""Says nothing of JSON, so that only a server that holds its model to it gets any."""
OBJECT = Message(role="user", content="Say hello, as JSON.")
"""OpenAI refuses `json_object` if no message mentions JSON."""
REFUSED = ("refused", "failed")
WITHOUT_CALLS = "If it cannot call tools, use the prompt style ReAct or func(args)."

ADVICE = {
    "unreachable": "Is the server running, and is this its address, up to and with /v1?",
    "timeout": "It may still be loading its model: try again in a while, or with a smaller one.",
    "malformed": "Is this its address, up to and including /v1? A sign-in page or a proxy may be in front of it.",
}


class Colour(BaseModel):
    colour: Literal["red", "green"]


@dataclass(frozen=True)
class Trial:
    """Outcome of a trial. `calls_tools` is None if no reply came; `structured` is None if it could not be found out."""

    ok: bool
    message: str
    seconds: float = 0.0
    calls_tools: bool | None = None
    structured: StructuredForm | None = None


def try_endpoint(row: Row, model: str) -> Trial:
    """Ask `model` for one call, then for JSON. Every error is in the message."""
    started = time.monotonic()
    try:
        endpoint = services.open_endpoint(row).model_copy(update={"timeout_s": SECONDS, "max_retries": 0})
        calls, verdict, form, more = asyncio.run(_ask_model(endpoint, model))
    except EnvariumError as error:
        advice = ADVICE.get(getattr(error, "reason", ""), "")
        return Trial(False, f"{error} {advice}".strip(), time.monotonic() - started)
    return Trial(True, f"{model} {verdict} {more}", time.monotonic() - started, calls, form)


async def _ask_model(endpoint: Endpoint, model: str) -> tuple[bool, str, StructuredForm | None, str]:
    """Return (whether it calls tools, a sentence on that, the form of structured output, a sentence on that)."""
    async with open_connection(endpoint) as connection:
        connection.asked_after = frozenset({"response_format"})
        chat = connection.chat(model)
        try:
            calls, verdict = _describe_call_reply(
                await chat.complete([ASKED], [PING], max_tokens=TOKENS, temperature=0)
            )
        except LLMError as error:
            if error.reason not in REFUSED:
                raise
            calls, verdict = await _retry_without_tools(chat, error)
        return calls, verdict, *await _find_structured_form(chat)


def _describe_call_reply(reply: Reply) -> tuple[bool, str]:
    used = f" {reply.usage.prompt_tokens} + {reply.usage.completion_tokens} tokens."
    if not reply.usage.prompt_tokens + reply.usage.completion_tokens:
        used = " The server counts no tokens."
    calls = [call for call in reply.message.tool_calls if call.name == PING.name]
    if any(not call.error for call in calls):
        return True, f"replied and calls tools.{used}"
    if calls:
        return False, f"replied with a call that cannot be used: {calls[0].error}.{used}"
    words = " ".join(reply.message.content.split())[:120] or "nothing"
    return False, f"replied, but with words instead of a call: {words!r}.{used} {WITHOUT_CALLS}"


async def _retry_without_tools(chat: OpenAIChat, error: LLMError) -> tuple[bool, str]:
    """Repeat the request without a tool. Raises the first error if that fails too."""
    try:
        await chat.complete([GREETING], max_tokens=TOKENS, temperature=0)
    except LLMError:
        raise error from None
    return False, f"replied, but not to a request with a tool: {error} {WITHOUT_CALLS}"


async def _find_structured_form(chat: OpenAIChat) -> tuple[StructuredForm | None, str]:
    """Return the strictest form that the server accepts and its model's replies have, and a sentence on it."""
    findings: list[str] = []
    tried: tuple[tuple[StructuredForm, Message], ...] = (("json_schema", GREETING), ("json_object", OBJECT))
    for form, question in tried:
        try:
            reply_format = build_response_format(Colour, form)
            reply = await chat.complete([question], max_tokens=TOKENS, temperature=0, response_format=reply_format)
        except LLMError as error:
            if error.reason not in REFUSED:
                return None, f"The forms that it holds replies to could not be determined: {error}"
            findings.append(f"{form} is refused ({error})")
            continue
        if _has_form(reply, form):
            return form, f"It holds replies to {StructuredOutput(form).label}.{_format_attempts(findings)}"
        findings.append(
            f"{form} changes nothing: it said {' '.join(reply.message.content.split())[:60] or 'nothing'!r}"
        )
    return "none", f"It holds replies to nothing, so JSON is asked for in words alone.{_format_attempts(findings)}"


def _has_form(reply: Reply, form: StructuredForm) -> bool:
    """Return whether a reply has the form; of one that was cut off at the token limit, only its beginning counts."""
    text = reply.message.content.strip()
    if len(text) > MOST_CHARS:
        return False
    try:
        parsed = read_json(text)
    except FormatError:
        return reply.finish_reason == "length" and text.startswith("{")
    if form == "json_object":
        return isinstance(parsed, dict)
    return isinstance(parsed, dict) and parsed.keys() == {"colour"} and parsed["colour"] in ("red", "green")


def _format_attempts(heard: list[str]) -> str:
    return f" {'; '.join(heard)}." if heard else ""


def look_for_models(row: Row, seconds: float = SECONDS) -> list[str]:
    """Return every model that the server lists, each once. Raises EnvariumError."""
    endpoint = services.open_endpoint(row).model_copy(update={"timeout_s": seconds})

    async def request_models() -> list[str]:
        async with open_connection(endpoint) as connection:
            return await connection.models()

    names = asyncio.run(request_models())
    if not names:
        raise LLMError("malformed", f"The endpoint {row.name} lists no model.")
    return list(dict.fromkeys(names))

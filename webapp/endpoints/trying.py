"""One tiny conversation with an endpoint, to tell a person whether it works and what it can."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from synthesis.contracts import Message, Tool
from synthesis.errors import EnvariumError, LLMError
from synthesis.llm import Endpoint, Reply
from webapp.endpoints import services
from webapp.endpoints.models import Endpoint as Row

SECONDS = 20.0
PING = Tool(
    name="ping",
    description="Says that calls arrive.",
    parameters={"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]},
)
ASKED = Message(role="user", content="Call the tool ping with the word hello. Say nothing else.")


@dataclass(frozen=True)
class Trial:
    """What came of it. `calls_tools` is None where nothing came back."""

    ok: bool
    message: str
    seconds: float = 0.0
    calls_tools: bool | None = None


def try_endpoint(row: Row, model: str) -> Trial:
    """Ask `model` for one call. Whatever goes wrong is in the message."""
    started = time.monotonic()
    try:
        endpoint = services.opened(row).model_copy(update={"timeout_s": SECONDS, "max_retries": 0})
        reply = asyncio.run(_ask(endpoint, model))
    except EnvariumError as error:
        return Trial(False, str(error), time.monotonic() - started)
    seconds = time.monotonic() - started
    used = f" {reply.usage.prompt_tokens} + {reply.usage.completion_tokens} tokens."
    if not reply.usage.prompt_tokens + reply.usage.completion_tokens:
        used = " The server counts no tokens."
    calls = [call for call in reply.message.tool_calls if call.name == PING.name]
    if any(not call.error for call in calls):
        return Trial(True, f"{model} replied and calls tools.{used}", seconds, True)
    if calls:
        return Trial(True, f"{model} replied with a call that cannot be used: {calls[0].error}.{used}", seconds, False)
    said = " ".join(reply.message.content.split())[:120] or "nothing"
    return Trial(
        True,
        f"{model} replied, but with words instead of a call: {said!r}.{used} If it cannot call tools, use the prompt "
        "style ReAct or func(args).",
        seconds,
        False,
    )


async def _ask(endpoint: Endpoint, model: str) -> Reply:
    from synthesis.llm.client import connect  # takes a second to import, which every start would pay

    async with connect(endpoint) as connection:
        return await connection.chat(model).complete([ASKED], [PING], max_tokens=200, temperature=0)


def look_for_models(row: Row, seconds: float = SECONDS) -> list[str]:
    """Every model that the server lists, each once. Raises EnvariumError."""
    endpoint = services.opened(row).model_copy(update={"timeout_s": seconds})

    async def ask() -> list[str]:
        from synthesis.llm.client import connect

        async with connect(endpoint) as connection:
            return await connection.models()

    found = asyncio.run(ask())
    if not found:
        raise LLMError("malformed", f"The endpoint {row.name} lists no model.")
    return list(dict.fromkeys(found))

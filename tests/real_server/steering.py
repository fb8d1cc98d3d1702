"""Stands in front of vLLM's application (`--middleware steering.Steering`), in its process: models of no sense whose
replies are short, or calls of tools, or too long to wait for, by the name that they are asked under.

Nothing here answers: the server's own parsers, grammars, limits and counts are what tests look at.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

FIRST = ord("!")
"""The tiny model's tokens are bytes, and its ids begin here."""
BLANKS = (197, 198, 201, 220)
"""Tab, line feed, carriage return and space."""
SHORT_JSON = {str(ord(sign) - FIRST): weight for sign, weight in {'"': 100, "}": 60, "]": 60, ",": 50}.items()}
"""Ends strings, objects and lists as soon as a grammar lets them end."""
NO_ARGUMENTS = {str(ord(sign) - FIRST): weight for sign, weight in {'"': -100, "{": 50, "}": 60, "]": 60}.items()}
NO_ARGUMENTS |= {str(number): -100 for number in BLANKS}
"""Makes a call's arguments an empty object, where a grammar asks for a call."""
STEERED: dict[str, dict[str, Any]] = {
    "brief": {"max_tokens": 120},
    "terse": {"max_tokens": 400, "temperature": 0, "logit_bias": SHORT_JSON},
    "caller": {"max_tokens": 200, "temperature": 0},
    "slow": {"max_tokens": 20_000, "ignore_eos": True},
}
FORCED = {"tool_choice": "required", "logit_bias": NO_ARGUMENTS}


def steered(request: dict[str, Any]) -> dict[str, Any]:
    name = request.get("model", "")
    changed = request | STEERED.get(name, {})
    if name == "caller" and request.get("tools"):
        changed |= FORCED
    if name == "slow":
        changed.pop("response_format", None)
    return changed


class Steering:
    """ASGI: changes the body of chat completions on their way in."""

    def __init__(self, app: Callable[..., Awaitable[None]]) -> None:
        self.app = app

    async def __call__(self, scope: dict[str, Any], receive: Callable[[], Awaitable[Any]], send: Any) -> None:
        if scope["type"] != "http" or not scope["path"].endswith("/chat/completions"):
            await self.app(scope, receive, send)
            return
        body, more = b"", True
        while more:
            part = await receive()
            body, more = body + part.get("body", b""), part.get("more_body", False)
        body = json.dumps(steered(json.loads(body))).encode()
        headers = [(name, value) for name, value in scope["headers"] if name != b"content-length"]
        scope = scope | {"headers": [*headers, (b"content-length", str(len(body)).encode())]}
        waiting = [{"type": "http.request", "body": body, "more_body": False}]

        async def again() -> Any:
            return waiting.pop() if waiting else await receive()

        await self.app(scope, again, send)

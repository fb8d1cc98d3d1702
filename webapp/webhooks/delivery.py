"""Sending of a webhook's message: one signed POST, without redirects, to an address that was looked at."""

from __future__ import annotations

import asyncio
import json
import time

import httpx

from synthesis.errors import InputError, LLMError
from synthesis.llm.transport import AiohttpTransport
from webapp.endpoints.addresses import check_address
from webapp.webhooks.models import Delivery
from webapp.webhooks.services import note_try, require_address, secret_of
from webapp.webhooks.signature import signature

TIMEOUT_S = 8.0
WHOLE_S = 10.0
SAID_BYTES = 300
"""So much of an answer is read: it says why a message was refused."""


def send(row: Delivery) -> None:
    """Try to deliver a message once and write how it ended."""
    try:
        require_address(row.webhook.url)
        status, said, wait_s = asyncio.run(asyncio.wait_for(_post(row), WHOLE_S))
    except (InputError, LLMError) as error:
        status, said, wait_s = 0, str(error), 0.0
    except TimeoutError:
        status, said, wait_s = 0, f"No whole answer within {WHOLE_S:.0f} s.", 0.0
    except httpx.HTTPError as error:
        status, said, wait_s = 0, f"{type(error).__name__}: {error}", 0.0
    note_try(row, status, said, wait_s)


async def _post(row: Delivery) -> tuple[int, str, float]:
    """(status, what was said where it is no success, the rest that was asked for)."""
    body = json.dumps(row.payload, ensure_ascii=False).encode()
    now = int(time.time())
    headers = {
        "content-type": "application/json",
        "user-agent": "Envarium",
        "webhook-id": row.public_id,
        "webhook-timestamp": str(now),
        "webhook-signature": signature(secret_of(row.webhook), row.public_id, now, body),
    }
    reach = check_address(row.webhook.url)
    client = httpx.AsyncClient(
        transport=AiohttpTransport(reach), timeout=TIMEOUT_S, follow_redirects=False, trust_env=False
    )
    async with client, client.stream("POST", row.webhook.url, content=body, headers=headers) as answer:
        if answer.is_success:
            return answer.status_code, "", 0.0
        return answer.status_code, await _beginning(answer), _rest(answer)


async def _beginning(answer: httpx.Response) -> str:
    """The beginning of what was answered; a redirect is named, never followed."""
    if answer.is_redirect:
        return "It answered with a redirect, which is not followed. Register the address that it leads to."
    said = b""
    async for piece in answer.aiter_raw():
        said += piece
        if len(said) >= SAID_BYTES:
            break
    return f"HTTP {answer.status_code}: {said[:SAID_BYTES].decode('utf-8', 'replace')}"


def _rest(answer: httpx.Response) -> float:
    text = answer.headers.get("retry-after", "")
    return float(text) if text.isdecimal() and len(text) < 7 else 0.0

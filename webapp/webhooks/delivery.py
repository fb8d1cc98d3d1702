"""Delivery of a webhook's message: one signed POST, without redirects, to an address that was checked."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import httpx

from synthesis.errors import InputError, LLMError
from synthesis.llm.transport import AiohttpTransport
from webapp.endpoints.addresses import check_address
from webapp.webhooks.models import Delivery
from webapp.webhooks.services import note_try, postpone_deliveries, require_webhook_address, unseal_secret
from webapp.webhooks.signature import compute_signature

logger = logging.getLogger(__name__)

TIMEOUT_S = 8.0
WHOLE_S = 10.0
ADDRESS_S = 8.0
"""Time for which messages are sent to one address in a row; the next ones follow at the next tick."""
EXPECTED = (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError)
SAID_BYTES = 300
"""Length of an answer that is read: it says why a message was refused."""


@dataclass(frozen=True)
class TryResult:
    """Outcome of a try. `status` is that of the answer, 0 without one; `wait_s` the rest that was asked for."""

    status: int
    said: str = ""
    wait_s: float = 0.0

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300


def send_deliveries(claimed: Sequence[Sequence[Delivery]]) -> int:
    """Try to deliver the claimed messages and write the outcomes; return how many messages were tried.

    All addresses are tried at the same time. Messages of one follow one another; after one that failed, or after
    `ADDRESS_S`, the others of its address wait.
    """
    with ThreadPoolExecutor(max_workers=max(1, len(claimed))) as threads:
        return sum(map(_note_results, claimed, threads.map(_try_deliveries, claimed)))


def _try_deliveries(rows: Sequence[Delivery]) -> list[TryResult]:
    """Try the messages of one address in turn, in a thread of its own, without the database."""
    results: list[TryResult] = []
    until = time.monotonic() + ADDRESS_S
    for row in rows:
        results.append(_try_delivery(row))
        if not results[-1].is_success or time.monotonic() > until:
            break
    return results


def _note_results(rows: Sequence[Delivery], results: Sequence[TryResult]) -> int:
    for row, result in zip(rows, results, strict=False):
        note_try(row, result.status, result.said, result.wait_s)
    postpone_deliveries(rows[len(results) :], rows[len(results) - 1])
    return len(results)


def _try_delivery(row: Delivery) -> TryResult:
    try:
        require_webhook_address(row.webhook.url)
        return asyncio.run(asyncio.wait_for(_post_delivery(row), WHOLE_S))
    except (InputError, LLMError) as error:
        return TryResult(0, str(error))
    except TimeoutError:
        return TryResult(0, f"No whole answer within {WHOLE_S:.0f} s.")
    except Exception as error:  # what one message meets keeps no other waiting
        if not isinstance(error, EXPECTED):
            logger.exception("The message %s could not be sent", row.public_id)
        return TryResult(0, f"{type(error).__name__}: {error}")


async def _post_delivery(row: Delivery) -> TryResult:
    body = json.dumps(row.payload, ensure_ascii=False).encode()
    now = int(time.time())
    headers = {
        "content-type": "application/json",
        "user-agent": "Envarium",
        "webhook-id": row.public_id,
        "webhook-timestamp": str(now),
        "webhook-signature": compute_signature(unseal_secret(row.webhook), row.public_id, now, body),
    }
    reach = check_address(row.webhook.url)
    client = httpx.AsyncClient(
        transport=AiohttpTransport(reach), timeout=TIMEOUT_S, follow_redirects=False, trust_env=False
    )
    async with client, client.stream("POST", row.webhook.url, content=body, headers=headers) as answer:
        if answer.is_success:
            return TryResult(answer.status_code)
        return TryResult(answer.status_code, await _read_answer_start(answer), _parse_retry_after(answer))


async def _read_answer_start(answer: httpx.Response) -> str:
    """Return the beginning of the answer; a redirect is named, never followed."""
    if answer.is_redirect:
        return "It answered with a redirect, which is not followed. Register the address that it leads to."
    answer_bytes = b""
    async for piece in answer.aiter_raw():
        answer_bytes += piece
        if len(answer_bytes) >= SAID_BYTES:
            break
    return f"HTTP {answer.status_code}: {answer_bytes[:SAID_BYTES].decode('utf-8', 'replace')}"


def _parse_retry_after(answer: httpx.Response) -> float:
    text = answer.headers.get("retry-after", "")
    return float(text) if text.isdecimal() and len(text) < 7 else 0.0

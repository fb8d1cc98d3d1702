"""Requests to served models, kept in the broker while a client waits for their answer.

A request lies in the list of one attempt at a deployment until its worker takes it, and its answer in a list of its
own. Nothing outlives a broker: waiting clients get an error and ask again. All keys expire.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, cast

import redis
from django.conf import settings

from synthesis.errors import InfrastructureError
from webapp.common.broker import make_client
from webapp.common.database.connections import release_connection
from webapp.workers.serving.errors import ModelAway

KEPT_SECONDS = 3_600
LOOK_SECONDS = 1.0
"""Seconds between checks of a waiting request whether its worker is still connected."""
WAITS_SECONDS = 20
"""A request is dropped if no client was seen waiting for it within this time."""
MOST_WAITING = 2_000
BROKER_AWAY = "The broker does not answer just now, so no served model can be asked. Try again in a moment."


@lru_cache(maxsize=4)
def _get_client(url: str) -> redis.Redis:
    return make_client(url, seconds=LOOK_SECONDS + 5.0)


@contextmanager
def _open_broker() -> Iterator[redis.Redis]:
    """Yield the broker's client. Raises InfrastructureError: the broker is away."""
    try:
        yield _get_client(settings.BROKER_URL)
    except redis.RedisError as error:
        raise InfrastructureError(BROKER_AWAY) from error


def _build_queue_key(deployment: str, attempt: int) -> str:
    return f"envarium:serving:{deployment}:{attempt}"


def _build_request_key(deployment: str, attempt: int, request: str, what: str) -> str:
    return f"{_build_queue_key(deployment, attempt)}:{request}:{what}"


def ask_worker(
    deployment: str, attempt: int, body: dict[str, Any], seconds: float, why_gone: Callable[[], str]
) -> tuple[int, dict[str, Any]]:
    """Return the (status, body) that the worker answers to a request, waiting up to `seconds`.

    `why_gone` returns why this attempt serves no more, empty while it does; it is called every `LOOK_SECONDS`. Raises
    ModelAway, TimeoutError, InfrastructureError.
    """
    request = secrets.token_hex(12)
    queue, answer = _build_queue_key(deployment, attempt), _build_request_key(deployment, attempt, request, "answer")
    waits, held = (
        _build_request_key(deployment, attempt, request, "waits"),
        _build_request_key(deployment, attempt, request, "held"),
    )
    with _open_broker() as broker:
        if cast(int, broker.llen(queue)) >= MOST_WAITING:
            raise ModelAway(f"{MOST_WAITING:,} requests wait for this model already. Try again in a while.")
        pipe = broker.pipeline(transaction=False)
        pipe.set(waits, 1, ex=WAITS_SECONDS)
        pipe.rpush(queue, json.dumps({"id": request, "body": body}))
        pipe.expire(queue, KEPT_SECONDS)
        pipe.execute()
        try:
            until, was_taken = time.monotonic() + seconds, False
            while time.monotonic() < until:
                popped = cast(Any, broker.blpop([answer], timeout=LOOK_SECONDS))
                if popped is not None:
                    answered = json.loads(popped[1])
                    return int(answered["status"]), answered["body"]
                gone = why_gone()
                release_connection()
                if gone:
                    raise ModelAway(gone)
                holds = bool(broker.exists(held))
                if was_taken and not holds:
                    raise ModelAway("The worker that had this request no longer knows it. Ask again.")
                was_taken = was_taken or holds
                broker.expire(waits, WAITS_SECONDS)
            raise TimeoutError
        finally:
            broker.delete(waits, held, answer)


def take_requests(deployment: str, attempt: int, most: int, wait_s: float) -> list[dict[str, Any]]:
    """Return the next requests of an attempt, `most` at a time, waiting for the first. Raises InfrastructureError."""
    queue, until = _build_queue_key(deployment, attempt), time.monotonic() + wait_s
    with _open_broker() as broker:
        while True:
            left = min(LOOK_SECONDS, until - time.monotonic())
            first = cast(Any, broker.blpop([queue], timeout=left)) if left > 0.01 else None
            texts = [first[1]] if first is not None else []
            texts += cast(Any, broker.lpop(queue, most - len(texts))) or [] if most > len(texts) else []
            taken = [
                request for text in texts if (request := _take_awaited(broker, deployment, attempt, text)) is not None
            ]
            if taken or time.monotonic() >= until:
                return taken


def _take_awaited(broker: redis.Redis, deployment: str, attempt: int, text: bytes) -> dict[str, Any] | None:
    """Return a request that a client still waits for, marked as taken; else None."""
    request: dict[str, Any] = json.loads(text)
    if not broker.exists(_build_request_key(deployment, attempt, request["id"], "waits")):
        return None
    broker.set(_build_request_key(deployment, attempt, request["id"], "held"), 1, ex=_get_held_seconds())
    return request


def renew_requests(deployment: str, attempt: int, holding: Sequence[str]) -> None:
    """Record that a worker still works on these requests. Raises InfrastructureError."""
    if not holding:
        return
    with _open_broker() as broker:
        pipe = broker.pipeline(transaction=False)
        for request in holding:
            pipe.expire(_build_request_key(deployment, attempt, request, "held"), _get_held_seconds())
        pipe.execute()


def _get_held_seconds() -> int:
    return int(settings.TRAINING_LEASE_SECONDS) + 5


def answer_request(deployment: str, attempt: int, request: str, status: int, body: dict[str, Any]) -> bool:
    """Pass an answer to the client that waits for it; return False if none does any more. Raises
    InfrastructureError."""
    with _open_broker() as broker:
        if not broker.exists(_build_request_key(deployment, attempt, request, "waits")):
            return False
        key = _build_request_key(deployment, attempt, request, "answer")
        pipe = broker.pipeline(transaction=False)
        pipe.rpush(key, json.dumps({"status": status, "body": body}))
        pipe.expire(key, WAITS_SECONDS)
        pipe.execute()
    return True

"""Requests to served models, kept in the broker while somebody waits for their answer.

A request lies in the list of one attempt at a deployment until its worker takes it, and its answer in a list of its
own. Nothing outlives a broker: who waits is told, and asks again. All keys end by themselves.
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
from webapp.broker import client
from webapp.database.connections import release_connection
from webapp.workers.serving.errors import ModelAway

KEPT_SECONDS = 3_600
LOOK_SECONDS = 1.0
"""So often whoever waits looks whether its worker is still there."""
WAITS_SECONDS = 20
"""A request that nobody was seen waiting for within so long is not worked on."""
MOST_WAITING = 2_000
BROKER_AWAY = "The broker does not answer just now, so no served model can be asked. Try again in a moment."


@lru_cache(maxsize=4)
def _server(url: str) -> redis.Redis:
    return client(url, seconds=LOOK_SECONDS + 5.0)


@contextmanager
def _broker() -> Iterator[redis.Redis]:
    """Raises InfrastructureError: the broker is away."""
    try:
        yield _server(settings.BROKER_URL)
    except redis.RedisError as error:
        raise InfrastructureError(BROKER_AWAY) from error


def _queue(deployment: str, attempt: int) -> str:
    return f"envarium:serving:{deployment}:{attempt}"


def _of(deployment: str, attempt: int, request: str, what: str) -> str:
    return f"{_queue(deployment, attempt)}:{request}:{what}"


def ask(
    deployment: str, attempt: int, body: dict[str, Any], seconds: float, why_gone: Callable[[], str]
) -> tuple[int, dict[str, Any]]:
    """(status, body) that the worker answers to a request, waited for up to `seconds`.

    `why_gone` says why this attempt serves no more, empty while it does; it is asked every `LOOK_SECONDS`.
    Raises ModelAway, TimeoutError, InfrastructureError.
    """
    request = secrets.token_hex(12)
    queue, answer = _queue(deployment, attempt), _of(deployment, attempt, request, "answer")
    waits, held = _of(deployment, attempt, request, "waits"), _of(deployment, attempt, request, "held")
    with _broker() as broker:
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
                found = cast(Any, broker.blpop([answer], timeout=LOOK_SECONDS))
                if found is not None:
                    told = json.loads(found[1])
                    return int(told["status"]), told["body"]
                gone = why_gone()
                release_connection()
                if gone:
                    raise ModelAway(gone)
                holds = bool(broker.exists(held))
                if was_taken and not holds:
                    raise ModelAway("The worker that had this request does not know of it any more. Ask again.")
                was_taken = was_taken or holds
                broker.expire(waits, WAITS_SECONDS)
            raise TimeoutError
        finally:
            broker.delete(waits, held, answer)


def take(deployment: str, attempt: int, most: int, wait_s: float) -> list[dict[str, Any]]:
    """The next requests of an attempt, `most` at a time, the first waited for. Raises InfrastructureError."""
    queue, until = _queue(deployment, attempt), time.monotonic() + wait_s
    with _broker() as broker:
        while True:
            left = min(LOOK_SECONDS, until - time.monotonic())
            first = cast(Any, broker.blpop([queue], timeout=left)) if left > 0.01 else None
            texts = [first[1]] if first is not None else []
            texts += cast(Any, broker.lpop(queue, most - len(texts))) or [] if most > len(texts) else []
            taken = [request for text in texts if (request := _wanted(broker, deployment, attempt, text)) is not None]
            if taken or time.monotonic() >= until:
                return taken


def _wanted(broker: redis.Redis, deployment: str, attempt: int, text: bytes) -> dict[str, Any] | None:
    """A request that somebody still waits for, marked as taken."""
    request: dict[str, Any] = json.loads(text)
    if not broker.exists(_of(deployment, attempt, request["id"], "waits")):
        return None
    broker.set(_of(deployment, attempt, request["id"], "held"), 1, ex=_held_seconds())
    return request


def renew(deployment: str, attempt: int, holding: Sequence[str]) -> None:
    """Note that a worker still works on these requests. Raises InfrastructureError."""
    if not holding:
        return
    with _broker() as broker:
        pipe = broker.pipeline(transaction=False)
        for request in holding:
            pipe.expire(_of(deployment, attempt, request, "held"), _held_seconds())
        pipe.execute()


def _held_seconds() -> int:
    return int(settings.TRAINING_LEASE_SECONDS) + 5


def answer(deployment: str, attempt: int, request: str, status: int, body: dict[str, Any]) -> bool:
    """Hand an answer to whoever waits for it; False where nobody does any more. Raises InfrastructureError."""
    with _broker() as broker:
        if not broker.exists(_of(deployment, attempt, request, "waits")):
            return False
        key = _of(deployment, attempt, request, "answer")
        pipe = broker.pipeline(transaction=False)
        pipe.rpush(key, json.dumps({"status": status, "body": body}))
        pipe.expire(key, WAITS_SECONDS)
        pipe.execute()
    return True

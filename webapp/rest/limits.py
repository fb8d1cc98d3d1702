"""Rate limits by token, counted in the broker. Without a broker nobody is limited.

What a training worker says of its work is counted apart from what people ask by the same token, and its requests to
LLMs apart from both: a job that talks much must not lose its lease for that.
"""

from __future__ import annotations

import time
from functools import lru_cache
from typing import Literal

import redis
from django.conf import settings

from webapp.accounts.models import ApiToken
from webapp.broker import client
from webapp.rest.problems import Problem

WINDOW_SECONDS = 60
Kind = Literal["api", "worker", "llm"]


@lru_cache(maxsize=4)
def server(url: str) -> redis.Redis:
    return client(url, seconds=0.5)


def most_of(kind: Kind) -> int:
    """Requests of this kind that a token may send within a minute; 0 is no limit."""
    return int(settings.API_REQUESTS_A_MINUTE if kind == "api" else settings.WORKER_REQUESTS_A_MINUTE)


def count(token: ApiToken, kind: Kind = "api") -> None:
    """Count one request. Raises `Problem` (429 with Retry-After) above what its kind may come to."""
    most = most_of(kind)
    if not most:
        return
    now = int(time.time())
    key = f"envarium:requests:{kind}:{token.prefix}:{now // WINDOW_SECONDS}"
    try:
        pipe = server(settings.BROKER_URL).pipeline(transaction=False)
        pipe.incr(key)
        pipe.expire(key, 2 * WINDOW_SECONDS)
        used = int(pipe.execute()[0])
    except redis.RedisError:
        return
    if used > most:
        wait = WINDOW_SECONDS - now % WINDOW_SECONDS
        message = f"This token sent more than {most} requests within a minute. Try again in {wait} seconds."
        raise Problem(429, message, headers={"Retry-After": str(wait)})

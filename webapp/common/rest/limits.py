"""Rate limits by token, counted in the broker. Without a broker there is no limit.

Requests of a training worker are counted apart from those of people with the same token, and its requests to LLMs apart
from both: a job that sends many requests must not lose its lease for that.
"""

from __future__ import annotations

import time
from functools import lru_cache
from typing import Literal

import redis
from django.conf import settings

from webapp.accounts.models import ApiToken
from webapp.common.broker import make_client
from webapp.common.rest.problems import Problem

WINDOW_SECONDS = 60
Kind = Literal["api", "worker", "llm"]


@lru_cache(maxsize=4)
def get_broker_client(url: str) -> redis.Redis:
    return make_client(url, seconds=0.5)


def get_request_limit(kind: Kind) -> int:
    """Return the requests of this kind that a token may send within a minute; 0 is no limit."""
    return int(settings.API_REQUESTS_A_MINUTE if kind == "api" else settings.WORKER_REQUESTS_A_MINUTE)


def count_request(token: ApiToken, kind: Kind = "api") -> None:
    """Count one request. Raises `Problem` (429 with Retry-After) above the limit of its kind."""
    most = get_request_limit(kind)
    if not most:
        return
    now = int(time.time())
    key = f"envarium:requests:{kind}:{token.prefix}:{now // WINDOW_SECONDS}"
    try:
        pipe = get_broker_client(settings.BROKER_URL).pipeline(transaction=False)
        pipe.incr(key)
        pipe.expire(key, 2 * WINDOW_SECONDS)
        used = int(pipe.execute()[0])
    except redis.RedisError:
        return
    if used > most:
        wait = WINDOW_SECONDS - now % WINDOW_SECONDS
        message = f"This token sent more than {most} requests within a minute. Try again in {wait} seconds."
        raise Problem(429, message, headers={"Retry-After": str(wait)})

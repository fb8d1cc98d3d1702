"""A modest brake: so many requests a minute and token, counted in the broker. Without a broker nobody is braked."""

from __future__ import annotations

import time
from functools import lru_cache

import redis
from django.conf import settings

from webapp.accounts.models import ApiToken
from webapp.jobs.broker import client
from webapp.rest.problems import Problem

WINDOW_SECONDS = 60


@lru_cache(maxsize=4)
def server(url: str) -> redis.Redis:
    return client(url, seconds=0.5)


def count(token: ApiToken) -> None:
    """Count one request. Raises `Problem` (429 with Retry-After) above `API_REQUESTS_A_MINUTE`; 0 switches it off."""
    most = settings.API_REQUESTS_A_MINUTE
    if not most:
        return
    now = int(time.time())
    key = f"envarium:api:{token.prefix}:{now // WINDOW_SECONDS}"
    try:
        pipe = server(settings.BROKER_URL).pipeline(transaction=False)
        pipe.incr(key)
        pipe.expire(key, 2 * WINDOW_SECONDS)
        used = int(pipe.execute()[0])
    except redis.RedisError:
        return
    if used > most:
        wait = WINDOW_SECONDS - now % WINDOW_SECONDS
        said = f"This token sent more than {most} requests within a minute. Try again in {wait} seconds."
        raise Problem(429, said, headers={"Retry-After": str(wait)})

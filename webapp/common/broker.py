"""A plain client of the broker, beside Celery's: for heartbeats and health, which must never wait long."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

SOCKET_SCHEMES = {"redis+socket", "socket", "unix"}


def make_client(url: str, *, seconds: float = 1.5) -> redis.Redis:
    """Return a client for `url` in Celery's spelling (`redis+socket:///path?virtual_host=0`) or redis-py's.

    Every command raises `redis.RedisError` within about `seconds`. Raises ValueError for another kind of URL.
    """
    parts = urlsplit(url)
    if parts.scheme in SOCKET_SCHEMES:
        query = parse_qs(parts.query)
        number = (query.get("virtual_host") or query.get("db") or ["0"])[0]
        return redis.Redis(unix_socket_path=unquote(parts.path), db=int(number), **_limit_waiting(seconds))
    return redis.Redis.from_url(url, **_limit_waiting(seconds))


def _limit_waiting(seconds: float) -> dict[str, Any]:
    """Return the options of a client that tries once: redis-py tries three times more, up to ten seconds apart."""
    return {"socket_timeout": seconds, "socket_connect_timeout": seconds, "retry": Retry(NoBackoff(), 0)}

"""A plain client of the broker, beside Celery's: for heartbeats and health, which must never wait long."""

from __future__ import annotations

from urllib.parse import parse_qs, unquote, urlsplit

import redis

SOCKET_SCHEMES = {"redis+socket", "socket", "unix"}


def client(url: str, *, seconds: float = 1.5) -> redis.Redis:
    """A client for `url` in Celery's spelling (`redis+socket:///path?virtual_host=0`) or redis-py's.

    Every command raises `redis.RedisError` within about `seconds`. Raises ValueError for another kind of URL.
    """
    parts = urlsplit(url)
    if parts.scheme in SOCKET_SCHEMES:
        query = parse_qs(parts.query)
        number = (query.get("virtual_host") or query.get("db") or ["0"])[0]
        return redis.Redis(
            unix_socket_path=unquote(parts.path), db=int(number), socket_timeout=seconds, socket_connect_timeout=seconds
        )
    return redis.Redis.from_url(url, socket_timeout=seconds, socket_connect_timeout=seconds)

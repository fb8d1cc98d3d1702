"""Database connections: released before a long wait; and the errors of a database that is away."""

from __future__ import annotations

import psycopg
from django.db import connection

from webapp.common.errors import iter_error_origins

AWAY = "The database does not answer just now. Try again in a moment; what was sent may not have been saved."
AWAY_STATES = ("08", "57P")
"""SQLSTATEs of connections that fail, and of a server that goes down or is not up yet."""


def release_connection() -> None:
    """Release this thread's connection before a wait: the pool is small, and many wait."""
    if not connection.in_atomic_block:
        connection.close()


def is_away(error: BaseException | None) -> bool:
    """Return whether an error, or one of its causes, means that the database was away, and not that the query was
    wrong."""
    for origin in iter_error_origins(error):
        if isinstance(origin, psycopg.OperationalError | psycopg.InterfaceError):
            return origin.sqlstate is None or origin.sqlstate.startswith(AWAY_STATES)
    return False

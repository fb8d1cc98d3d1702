"""Database connections: given back before a long wait; and what says that the database itself went away."""

from __future__ import annotations

import psycopg
from django.db import connection

from webapp.errors import origins

AWAY = "The database does not answer just now. Try again in a moment; what was sent may not have been saved."
AWAY_STATES = ("08", "57P")
"""SQLSTATEs of connections that fail, and of a server that goes down or is not up yet."""


def release_connection() -> None:
    """Give this thread's connection back before a wait: the pool is small, and many wait."""
    if not connection.in_atomic_block:
        connection.close()


def is_away(error: BaseException | None) -> bool:
    """Whether an error, or one that it came of, says that the database was away: nothing about what was asked."""
    for origin in origins(error):
        if isinstance(origin, psycopg.OperationalError | psycopg.InterfaceError):
            return origin.sqlstate is None or origin.sqlstate.startswith(AWAY_STATES)
    return False

"""Database connections that are given back before a long wait."""

from __future__ import annotations

from django.db import connection


def release_connection() -> None:
    """Give this thread's connection back before a wait: the pool is small, and many wait."""
    if not connection.in_atomic_block:
        connection.close()

"""Databases that benchmarks make for themselves and drop."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo


@contextmanager
def own_database(prefix: str) -> Iterator[str]:
    """The URL of a new, empty database on the server of DATABASE_URL, dropped at the end."""
    server = os.environ.get("DATABASE_URL", "postgresql://envarium@127.0.0.1:5432/envarium")
    name = f"{prefix}_{secrets.token_hex(4)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
        try:
            yield make_conninfo(**{**conninfo_to_dict(server), "dbname": name})
        finally:
            connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

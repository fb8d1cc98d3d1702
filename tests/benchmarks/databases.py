"""Databases that benchmarks make for themselves and drop."""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo


@contextmanager
def own_database(prefix: str) -> Iterator[str]:
    """The URL of a new, empty database on the server of DATABASE_URL, or on one of its own; gone at the end."""
    name = f"{prefix}_{secrets.token_hex(4)}"
    with _server() as server, psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
        try:
            yield make_conninfo(**{**conninfo_to_dict(server), "dbname": name})
        finally:
            connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


@contextmanager
def _server() -> Iterator[str]:
    if named := os.environ.get("DATABASE_URL"):
        yield named
        return
    from webapp.stack.brief import BriefServers
    from webapp.stack.home import Home

    with tempfile.TemporaryDirectory(prefix="bench-postgres-") as folder:
        home = Home(Path(folder))
        home.prepare()
        servers = BriefServers(home)
        try:
            yield servers.postgres()
        finally:
            servers.stop(at_once=True)

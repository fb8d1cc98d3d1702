"""Management commands without DATABASE_URL: they bring the home's own database, or use that of the running site."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from webapp.stack.brief import BriefServers
from webapp.stack.config import ROOT
from webapp.stack.home import Home, HomeLock

COUNT = "from webapp.accounts.models import User; print(User.objects.count())"
ADD = "from webapp.accounts.models import User; User.objects.create(username='kept')"


def manage(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    dropped = {"DATABASE_URL", "BROKER_URL", "DJANGO_SETTINGS_MODULE", "ENVARIUM_STATIC_ROOT"}
    environment = {name: value for name, value in os.environ.items() if name not in dropped}
    return subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), *arguments],
        env={**environment, "ENVARIUM_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def shell(home: Path, code: str) -> str:
    done = manage(home, "shell", "--verbosity", "0", "-c", code)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.slow
def test_a_command_brings_a_fresh_homes_database_or_uses_that_of_a_running_site(tmp_path: Path) -> None:
    """The first has tables; rows are kept; no process is left; a site's own server goes on."""
    home = Home(tmp_path / "home")
    assert shell(home.path, f"{COUNT}; {ADD}") == "0"
    assert shell(home.path, COUNT) == "1"
    left = [p.info["cmdline"] for p in psutil.process_iter(["cmdline"]) if str(tmp_path) in str(p.info["cmdline"])]
    assert not left
    lock = HomeLock(home)
    lock.take("http://127.0.0.1:1")
    servers = BriefServers(home)
    try:
        home.store_urls(servers.postgres(), "redis+socket:///nowhere?virtual_host=0")
        pid = json.loads((home.records / "postgres.json").read_text())["pid"]
        assert shell(home.path, COUNT) == "1"
        assert psutil.pid_exists(pid), "the command stopped a server that is not its own"
    finally:
        servers.stop()
        lock.release()


def test_help_needs_no_server(tmp_path: Path) -> None:
    assert manage(tmp_path / "home", "help", "migrate").returncode == 0
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("path", ["a-file"])
def test_an_impossible_home_is_said_in_one_line(tmp_path: Path, path: str) -> None:
    (tmp_path / path).write_text("")
    done = manage(tmp_path / path, "shell", "-c", COUNT)
    assert done.returncode == 1
    assert "ENVARIUM_HOME" in done.stderr
    assert "Traceback" not in done.stderr

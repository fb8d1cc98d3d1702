"""`make run` on a disk of its own that is filled to the last byte and emptied again: it tells, waits and goes on."""

from __future__ import annotations

import http.cookiejar
import json
import re
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import psutil
import pytest

from tests.fixtures.installation import Installation
from tests.fixtures.processes import wait_for
from webapp.stack.services import fetch_health

pytestmark = pytest.mark.kill

SIZE_MIB, RESERVE_MIB, LEFT_MIB = 800, 128, 48
TOLD = "The disk is almost full"


def may_mount(folder: Path) -> bool:
    """Whether a process of ours may have a disk of its own: needs `unshare`, and root."""
    trial = ["unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", str(folder)]
    return shutil.which("unshare") is not None and subprocess.run(trial, capture_output=True).returncode == 0


class SmallDisk(Installation):
    """A run whose home is all that is on a disk. The disk is seen from here through its process."""

    def command(self) -> list[str]:
        self.home.path.mkdir(parents=True)
        mount = (
            f"mount -t tmpfs -o size={SIZE_MIB}m tmpfs '{self.home.path}' && exec '{sys.executable}' -m webapp.stack"
        )
        return ["unshare", "-m", "sh", "-c", f"{mount} && exec '{sys.executable}' -m webapp.stack"]

    @property
    def seen(self) -> Path:
        assert self.running
        return Path(f"/proc/{self.running.pid}/root{self.home.path}")

    def fill(self, leave_mib: int) -> None:
        """Write until so much is left; 0 is the last byte."""
        with (self.seen / "filling").open("ab", buffering=0) as file:
            try:
                while leave_mib == 0 or shutil.disk_usage(self.seen).free > leave_mib << 20:
                    file.write(b"x" * 65_536)
            except OSError:
                return

    def kill_database(self) -> None:
        """A crash while nothing can be written: what starts again cannot even write its own number down."""
        assert self.running
        for process in psutil.Process(self.running.pid).children():
            if process.name() == "postgres":
                process.kill()

    def outlived(self) -> bool:
        return self.running is not None and self.running.process.poll() is None


class Person:
    """Somebody who is logged in as demo."""

    def __init__(self, run: Installation) -> None:
        self.root = f"http://127.0.0.1:{run.port}"
        self.cookies = http.cookiejar.CookieJar()
        self.open = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self.cookies)).open
        password = re.search(r"Log in as demo with the password (\S+)", run.text())
        assert password
        self.page("/account/login/")
        self.open(f"{self.root}/account/login/", urlencode(self.form(username="demo", password=password[1])).encode())

    def form(self, **fields: str) -> dict[str, str]:
        return {"csrfmiddlewaretoken": self.token, **fields}

    @property
    def token(self) -> str:
        return next(cookie.value or "" for cookie in self.cookies if "csrf" in cookie.name)

    def page(self, path: str) -> str:
        with self.open(self.root + path, timeout=20) as answer:
            return str(answer.read().decode())

    def page_if_any(self, path: str) -> str:
        try:
            return self.page(path)
        except (urllib.error.HTTPError, OSError):
            return ""

    def api(self, path: str, body: Any = None) -> Any:
        headers = {"X-CSRFToken": self.token, "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        with self.open(urllib.request.Request(f"{self.root}/api/v1{path}", data, headers), timeout=20) as answer:
            return json.loads(answer.read())


def room(run: Installation) -> dict[str, Any]:
    return dict(fetch_health(run.port).body.get("disk") or {})


def test_a_full_disk_is_told_outlived_and_nothing_is_lost(tmp_path: Path) -> None:
    if not may_mount(tmp_path):
        pytest.skip("this account may not mount a disk of its own")
    run = SmallDisk(tmp_path, ENVARIUM_DISK_RESERVE_MIB=str(RESERVE_MIB), ENVARIUM_TRAINING="off")
    run.start()
    try:
        person = Person(run)
        for job in person.api("/jobs")["data"]:  # a first start audits what is bundled, for minutes
            person.api(f"/jobs/{job['id']}/cancel", {})
        assert TOLD not in person.page("/")
        run.fill(LEFT_MIB)
        wait_for(lambda: room(run).get("ok") is False, seconds=60, what="a word about the disk")
        assert TOLD in person.page("/tasks/")
        task = person.api("/tasks?limit=1")["data"][0]["id"]
        job = person.api("/audits", {"task": task})["id"]
        run.fill(0)
        asked = wait_for(lambda: (found := room(run)).get("free_mib") == 0 and found, seconds=60, what="a full disk")
        assert asked["error"].startswith(TOLD)
        run.kill_database()
        wait_for(lambda: crashes(run) > 1, seconds=90, what="two crashes")
        assert not person.page_if_any(f"/jobs/{job}/")
        assert run.outlived(), run.text()
        (run.seen / "filling").unlink()
        wait_for(lambda: fetch_health(run.port).body.get("status") == "ok", seconds=120, what="health")
        assert TOLD not in person.page("/")
        done = wait_for(lambda: _ended(person, job), seconds=150, what="the job that waited")
        assert (done["state"], done["error"]) == ("succeeded", "")
    finally:
        run.kill_everything()


def crashes(run: Installation) -> int:
    return run.text().count("could not be started") + run.text().count("ended (")


def _ended(person: Person, job: int) -> dict[str, Any] | None:
    found = person.api(f"/jobs/{job}")
    return found if found["state"] in ("succeeded", "failed") else None

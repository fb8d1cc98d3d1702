"""Processes are killed in the ways that machines kill them; nothing that was committed may be lost."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest

from tests.fixtures.processes import ROOT, Running, launch, wait_for
from webapp.stack.home import Home
from webapp.stack.postgres import Postgres
from webapp.stack.services import health
from webapp.stack.valkey import Valkey

pytestmark = [pytest.mark.kill, pytest.mark.xdist_group("one installation")]

INSERT = "insert into kept (text) values (%s)"


class Run:
    """`python -m webapp.stack`, or a module that stands for it, on a home and a port of its own."""

    def __init__(self, folder: Path, module: str = "webapp.stack", **more: str) -> None:
        self.module = module
        self.more = more
        self.home = Home(folder / "home")
        self.port = free_port()
        self.output = folder / "output.log"
        self.running: Running | None = None

    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name not in {"DATABASE_URL", "BROKER_URL"}}
        return {**kept, **self.more, "ENVARIUM_HOME": str(self.home.path), "PORT": str(self.port)}

    def start(self, seconds: float = 150) -> None:
        """Start it, and wait for the ready line."""
        self.output.write_bytes(b"")
        self.running = launch(self.command(), self.output, self.environment())
        line = f"Envarium is ready at http://127.0.0.1:{self.port}\n"
        wait_for(lambda: line in self.text() or self.gone(), seconds=seconds, what="the ready line")

    def command(self) -> list[str]:
        return [sys.executable, "-m", self.module]

    def gone(self) -> bool:
        if self.running and self.running.process.poll() is not None:
            raise AssertionError(self.text())
        return False

    def text(self) -> str:
        return self.output.read_text()

    def children(self) -> list[psutil.Process]:
        assert self.running
        return psutil.Process(self.running.pid).children(recursive=True)

    def child(self, name: str) -> int:
        return int(re.findall(r'"pid": (\d+)', (self.home.records / f"{name}.json").read_text())[0])

    def database(self) -> str:
        return Postgres(self.home.postgres, self.home.sockets()).url()

    def execute(self, statement: str, *values: object) -> list[tuple[object, ...]]:
        with psycopg.connect(self.database(), autocommit=True) as connection:
            cursor = connection.execute(statement, values)  # type: ignore[call-overload]
            return cursor.fetchall() if cursor.description else []

    def signal_and_wait(self, number: signal.Signals) -> int:
        assert self.running
        self.running.process.send_signal(number)
        return self.running.process.wait(timeout=60)

    def kill_everything(self) -> None:
        """What a power cut does to the processes: all at once, the supervisor first."""
        assert self.running
        family = self.children()
        self.running.process.kill()
        for process in family:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        self.running.process.wait(timeout=10)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def alive(processes: list[psutil.Process]) -> list[psutil.Process]:
    return [one for one in processes if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """One installation for the whole file; each test leaves it stopped or finds it started by `started`."""
    found = Run(tmp_path_factory.mktemp("stack"))
    yield found
    if found.running and found.running.process.poll() is None:
        assert found.signal_and_wait(signal.SIGTERM) == 0


@pytest.fixture
def started(run: Run) -> Run:
    if run.running is None or run.running.process.poll() is not None:
        run.start()
        run.execute("create table if not exists kept (text text)")
    return run


def test_it_comes_up_well_and_logs_nothing_secret(started: Run) -> None:
    found = health(started.port)
    assert found.code == 200
    assert found.body["status"] == "ok"
    assert {"llm", "sandbox"} <= set(found.body["workers"])
    assert found.body["postgres"]["version"].startswith("18")
    secret = started.home.secret("secret-key")
    assert not any(secret in log.read_text(errors="replace") for log in started.home.logs.glob("*.log"))
    modes = {name: (started.home.path / name).stat().st_mode & 0o777 for name in ("secret-key", "demo-password")}
    assert set(modes.values()) == {0o600}


def test_a_second_run_on_the_same_home_is_refused(started: Run) -> None:
    other = {**started.environment(), "PORT": str(free_port())}
    result = subprocess.run(
        [sys.executable, "-m", "webapp.stack"], env=other, cwd=ROOT, capture_output=True, text=True, timeout=30
    )
    assert result.returncode == 1
    assert started.running
    assert f"process {started.running.pid}, at http://127.0.0.1:{started.port}" in result.stderr
    assert health(started.port).code == 200


def test_postgres_killed_is_started_again_with_its_rows(started: Run) -> None:
    started.execute(INSERT, "before the server was killed")
    os.kill(started.child("postgres"), signal.SIGKILL)
    wait_for(lambda: "postgres is back after" in started.text() or started.gone(), seconds=60, what="PostgreSQL")
    assert ("before the server was killed",) in started.execute("select text from kept")
    wait_for(lambda: health(started.port).code == 200, seconds=30, what="health")


@pytest.mark.parametrize("name", ["valkey", "web", "worker-sandbox", "beat"])
def test_a_killed_service_is_started_again(started: Run, name: str) -> None:
    before = started.child(name)
    os.kill(before, signal.SIGKILL)
    wait_for(lambda: f"{name} is back after" in started.text() or started.gone(), seconds=60, what=name)
    assert started.child(name) != before
    wait_for(lambda: health(started.port).body.get("status") == "ok", seconds=30, what="health")


def test_ctrl_c_stops_what_it_started_and_nothing_else(started: Run, tmp_path: Path) -> None:
    foreign_home = Home(tmp_path)
    foreign_home.prepare()
    stranger = Valkey(foreign_home.valkey, foreign_home.sockets())
    service = stranger.service()
    service.before()
    foreign = launch([str(part) for part in service.command], tmp_path / "valkey.log", dict(service.environment))
    try:
        wait_for(stranger.answers, what="the other Valkey")
        family = started.children()
        # A record that names a process that is not ours, as after a restart of the machine.
        (started.home.records / "web-old.json").write_text(f'{{"pid": {foreign.pid}, "started": 1.0}}')
        assert started.signal_and_wait(signal.SIGINT) == 0
        assert alive(family) == []
        started.start()
        assert stranger.answers()
    finally:
        foreign.kill()


def test_no_child_survives_a_killed_supervisor(started: Run) -> None:
    family = started.children()
    assert len(family) >= 6
    assert started.running
    started.running.process.kill()
    started.running.process.wait(timeout=10)
    wait_for(lambda: not alive(family), seconds=20, what="the children's end")


def test_everything_killed_at_once_comes_back_whole(started: Run) -> None:
    for number in range(50):
        started.execute(INSERT, f"row {number}")
    started.kill_everything()
    started.start()
    rows = {row[0] for row in started.execute("select text from kept")}
    assert {f"row {number}" for number in range(50)} <= rows
    assert health(started.port).code == 200


def test_survivors_of_a_killed_run_do_not_stop_the_next(started: Run) -> None:
    """The kernel's signal is one safety; a stopped postmaster, which does not hear it, needs another."""
    assert started.running
    postmaster = started.child("postgres")
    os.kill(postmaster, signal.SIGSTOP)
    started.running.process.kill()
    started.running.process.wait(timeout=10)
    time.sleep(1)
    assert psutil.Process(postmaster).status() == psutil.STATUS_STOPPED
    started.start()
    assert "stopping postgres, left over from a run that was killed" in started.text()
    assert not psutil.pid_exists(postmaster) or not alive([psutil.Process(postmaster)])
    assert health(started.port).code == 200

"""Starts, stops and a killed supervisor. Each service, and all at once, are killed in
`tests/batches/engine/test_kill_stack.py`, amid work of which nothing may be lost."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.fixtures.installation import Installation, free_port
from tests.fixtures.processes import ROOT, launch, wait_for
from webapp.stack.home import Home
from webapp.stack.services import fetch_health
from webapp.stack.valkey import Valkey

pytestmark = [pytest.mark.kill, pytest.mark.xdist_group("one installation")]


def waits_for(process: psutil.Process, number: signal.Signals) -> bool:
    """Whether a stopped process has been sent that signal."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    pending = next(line.split()[1] for line in status.splitlines() if line.startswith("ShdPnd:"))
    return bool(int(pending, 16) >> (number - 1) & 1)


def alive(processes: list[psutil.Process]) -> list[psutil.Process]:
    return [one for one in processes if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]


@pytest.fixture
def started(installation: Installation) -> Installation:
    if installation.running is None or installation.running.process.poll() is not None:
        installation.start()
        installation.end_first_audit()
    return installation


def test_it_comes_up_well_and_logs_nothing_secret(started: Installation) -> None:
    found = fetch_health(started.port)
    assert found.code == 200
    assert found.body["status"] == "ok"
    assert {"llm", "sandbox"} <= set(found.body["workers"])
    assert found.body["postgres"]["version"].startswith("18")
    secret = started.home.secret("secret-key")
    assert not any(secret in log.read_text(errors="replace") for log in started.home.logs.glob("*.log"))
    modes = {name: (started.home.path / name).stat().st_mode & 0o777 for name in ("secret-key", "demo-password")}
    assert set(modes.values()) == {0o600}


def test_a_second_run_on_the_same_home_is_refused(started: Installation) -> None:
    other = {**started.environment(), "PORT": str(free_port())}
    result = subprocess.run(
        [sys.executable, "-m", "webapp.stack"], env=other, cwd=ROOT, capture_output=True, text=True, timeout=30
    )
    assert result.returncode == 1
    assert started.running
    assert f"process {started.running.pid}, at http://127.0.0.1:{started.port}" in result.stderr
    assert fetch_health(started.port).code == 200


def test_ctrl_c_stops_what_it_started_and_nothing_else(started: Installation, tmp_path: Path) -> None:
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


def test_children_of_a_killed_supervisor_end_and_one_that_cannot_does_not_stop_the_next_run(
    started: Installation,
) -> None:
    """The kernel's signal is one safety; a stopped postmaster, which does not hear it, needs another."""
    assert started.running
    family, postmaster = started.children(), psutil.Process(started.child("postgres"))
    assert len(family) >= 6
    postmaster.send_signal(signal.SIGSTOP)
    started.running.process.kill()
    started.running.process.wait(timeout=10)
    held = {postmaster, *postmaster.children(recursive=True)}
    wait_for(lambda: not set(alive(family)) - held, seconds=20, what="the children's end")
    assert postmaster.status() == psutil.STATUS_STOPPED
    assert waits_for(postmaster, signal.SIGINT), "it would end too, if it could"
    started.start()
    assert "stopping postgres, left over from a run that was killed" in started.text()
    assert alive(family) == []
    assert fetch_health(started.port).code == 200

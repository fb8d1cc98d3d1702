"""What happens when something is killed with SIGKILL."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from synthesis.errors import EpisodeLost, InfrastructureError
from synthesis.runtime import Sandbox
from tests.benchmarks.runtime import processes_below
from tests.runtime.programs import body

pytestmark = pytest.mark.kill
ROOT = Path(__file__).resolve().parents[2]
HOST = """
import sys, threading, time
from synthesis.runtime import Sandbox
from tests.runtime.programs import body
sandbox = Sandbox(mode=sys.argv[1])
idle = sandbox.reset(body("return 1"), {})
busy = sandbox.reset(body("while True: pass"), {})
threading.Thread(target=lambda: busy.call("act", {}), daemon=True).start()
time.sleep(0.3)
print("ready", flush=True)
time.sleep(60)
"""


def until(condition: Callable[[], bool], seconds: float = 5.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return condition()


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("mode", ["auto", "no_namespaces"])
def test_killing_the_host_leaves_no_process(mode: str) -> None:
    host = subprocess.Popen(
        [sys.executable, "-c", HOST, mode], cwd=ROOT, stdout=subprocess.PIPE, text=True, env={"PYTHONPATH": str(ROOT)}
    )
    assert host.stdout is not None
    assert host.stdout.readline() == "ready\n"
    below = processes_below(host.pid)
    assert len(below) >= 3
    host.kill()
    host.wait()
    host.stdout.close()
    assert until(lambda: not any(map(running, below))), [pid for pid in below if running(pid)]


@pytest.mark.parametrize("mode", ["auto", "no_namespaces"])
def test_the_zygote_comes_back(mode: str) -> None:
    sandbox = Sandbox(mode=mode)
    program = body("return 1")
    episode = sandbox.reset(program, {})
    assert episode.call("act", {}).result == 1
    zygote = sandbox._pool.zygote
    assert zygote is not None
    below = processes_below(zygote.process.pid)
    for pid in [*below, zygote.process.pid]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert until(lambda: not any(map(running, below)))
    with pytest.raises(EpisodeLost):
        episode.call("act", {})
    errors = 0
    for _ in range(3):
        try:
            with sandbox.reset(program, {}) as again:
                assert again.call("act", {}).result == 1
        except InfrastructureError:
            errors += 1
    assert errors <= 1
    assert sandbox._pool.generation == 2
    sandbox.close()


def test_killing_only_the_zygote_takes_its_children(tmp_path: Path) -> None:
    sandbox = Sandbox(mode="no_namespaces")
    with sandbox.reset(body("return 1"), {}):  # one that nothing holds is closed at once
        zygote = sandbox._pool.zygote
        assert zygote is not None
        below = processes_below(zygote.process.pid)
        assert below
        zygote.process.kill()
        assert until(lambda: not any(map(running, below)))
    sandbox.close()


def test_a_check_whose_process_is_killed_is_not_a_failed_check() -> None:
    """Killed once from outside: the check is evaluated again."""
    sandbox = Sandbox(mode="no_namespaces")
    source = "def check_func(f):\n    for _ in range(3 * 10 ** 7): pass\n    return True"
    sandbox.report()
    zygote = sandbox._pool.zygote
    assert zygote is not None
    rows: list[bool] = []
    thread = threading.Thread(target=lambda: rows.append(sandbox.evaluate_checks([source], {}, {})[0].passed))
    thread.start()
    time.sleep(0.25)
    busiest = max(processes_below(zygote.process.pid), key=_processor_time)
    os.kill(busiest, signal.SIGKILL)
    thread.join()
    assert rows == [True]
    sandbox.close()


def _processor_time(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11])


@pytest.mark.parametrize("mode", ["auto", "no_namespaces"])
def test_a_zygote_killed_with_requests_under_way_is_noticed_by_the_next_call(mode: str) -> None:
    """Its answers will never come: whoever waits for them is told so instead of waiting with the pool's lock."""
    with contextlib.closing(Sandbox(mode=mode)) as sandbox:
        episode = sandbox.reset(body("while True: pass"), {})
        for pid in processes_below(os.getpid()):
            with contextlib.suppress(OSError):
                if "zygote.py" in Path(f"/proc/{pid}/cmdline").read_text():
                    os.kill(pid, signal.SIGKILL)
        ended: list[BaseException] = []

        def call() -> None:
            try:
                episode.call("act", {})
            except EpisodeLost as error:
                ended.append(error)

        caller = threading.Thread(target=call, daemon=True)
        caller.start()
        caller.join(20)
        assert not caller.is_alive()
        assert ended
        with contextlib.suppress(InfrastructureError):
            sandbox.reset(body("return 1"), {}).close()
        with sandbox.reset(body("return 1"), {}) as again:
            assert again.call("act", {}).result == 1


def test_the_zygote_outlives_many_children_that_end_at_once() -> None:
    """Past what it remembers of ended children, one ending may interrupt it while it forgets another."""
    with contextlib.closing(Sandbox()) as sandbox:
        checks = ["def check_func(f):\n    return True"] * 8

        def many() -> None:
            for _ in range(20):
                assert all(verdict.passed for verdict in sandbox.evaluate_checks(checks, {}, {}))

        with ThreadPoolExecutor(16) as threads:
            for done in [threads.submit(many) for _ in range(16)]:
                done.result()
        assert sandbox._pool.generation == 1

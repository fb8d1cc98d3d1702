"""Who ended an episode: the program, whatever it did it by, or something of ours."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from synthesis.contracts import Limits
from synthesis.errors import EpisodeLost, InfrastructureError, ProgramEnded, ProgramError, SandboxLost
from synthesis.runtime import Sandbox
from synthesis.runtime.episode import Episode
from tests.benchmarks.runtime import processes_below
from tests.runtime.programs import act, body

FIND = "import sys\nos, json = sys.modules['os'], sys.modules['json']\n"
FIND += (
    "def live(f):\n    try: os.lseek(f, 0, 1)\n    except OSError as e: return e.errno == 29\n"
    "def sock():\n    return next(f for f in range(3, 64) if live(f))\n"
)
REFUSED = "os.write(sock(), b'\\x01' + json.dumps({'id': %d, 'refused': '%s', 'message': 'x'}).encode())"


@pytest.fixture(scope="module")
def limited() -> Iterator[Sandbox]:
    made = Sandbox(limits=Limits(memory_mib=96, call_seconds=1.0, cpu_seconds=30))
    yield made
    made.close()


def kill(episode: Episode) -> None:
    """SIGKILL from outside, waited for."""
    child = episode._link.child
    signal.pidfd_send_signal(child.handle, signal.SIGKILL)
    assert child.wait_for_end(5.0)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("os._exit(0)", "died"),
        ("os._exit(137)", "died"),
        ("os.close(sock())", "died"),
        ("kept = []\n        while True: kept.append(bytearray(10 ** 6))", "memory"),
        ("while True: pass", "time"),
        ("os.write(sock(), b'\\x01not a frame')", "protocol"),
        ("os.write(sock(), b'\\x01' + b'{\"lost\":\"closed\"}')", "protocol"),
        ("os.write(sock(), b'\\x01' + b'{\"lost\":\"sandbox\"}')", "protocol"),
    ],
)
def test_a_program_that_ends_its_process_is_named_for_it(limited: Sandbox, line: str, reason: str) -> None:
    with limited.reset(body(line, head=FIND), {}) as episode, pytest.raises(ProgramEnded) as caught:
        episode.call("act", {})
    assert caught.value.reason == reason
    assert not isinstance(caught.value, InfrastructureError)


def test_a_program_cannot_pass_its_end_off_as_a_bad_state_of_ours(limited: Sandbox) -> None:
    with pytest.raises(ProgramError):
        limited.reset(body("return 1", head=FIND + REFUSED % (1, "input")), {"items": {}})


def test_a_child_killed_once_from_outside_costs_nothing(limited: Sandbox) -> None:
    counts = body("self.items[str(len(self.items))] = 1", "return len(self.items)")
    with limited.reset(counts, {}) as episode:
        assert [episode.call("act", {}).result for _ in range(3)] == [1, 2, 3]
        kill(episode)
        assert episode.call("act", {}).result == 4
        kill(episode)
        assert len(episode.state()["items"]) == 4
        assert episode.fork().call("act", {}).result == 5


def test_what_is_killed_again_at_the_same_call_is_the_programs_doing(limited: Sandbox) -> None:
    """What cannot be told apart, an OOM killer that takes what grows, say, is tried once more and then believed."""
    episode = limited.reset(body("while True: pass"), {})
    ended: list[EpisodeLost] = []

    def call() -> None:
        try:
            episode.call("act", {})
        except EpisodeLost as error:
            ended.append(error)

    caller = threading.Thread(target=call)
    caller.start()
    first = episode._link
    time.sleep(0.1)
    kill(episode)
    while episode._link is first and caller.is_alive():
        time.sleep(0.005)
    time.sleep(0.05)
    kill(episode)
    caller.join(10)
    assert [(type(error), error.reason) for error in ended] == [(ProgramEnded, "killed")]


def test_a_program_that_does_not_repeat_itself_cannot_hide_behind_a_kill(limited: Sandbox) -> None:
    with limited.reset(body("self.items['a'] = 1"), {}) as episode:
        episode.call("act", {})
        # As if the first process had seen another clock.
        episode._calls[0] = episode._calls[0]._replace(patch=[{"op": "add", "path": "/items/a", "value": 2}])
        kill(episode)
        with pytest.raises(ProgramEnded) as caught:
            episode.call("act", {})
    assert caught.value.reason == "killed"
    assert not episode.alive


@pytest.mark.kill
def test_a_zygote_that_is_killed_is_ours() -> None:
    with contextlib.closing(Sandbox(mode="no_namespaces")) as sandbox:
        episode = sandbox.reset(body("return 1"), {})
        for pid in processes_below(os.getpid()):
            with contextlib.suppress(OSError):
                if "zygote.py" in Path(f"/proc/{pid}/cmdline").read_text():
                    os.kill(pid, signal.SIGKILL)
        time.sleep(0.3)
        with pytest.raises(SandboxLost):
            episode.call("act", {})


FORGED = "os.write(sock(), b'\\x01' + json.dumps(%s).encode())"


@pytest.mark.parametrize(
    "line",
    [
        REFUSED % (0, "state"),
        FORGED % "{'id': 0, 'n': 7, 'v': [True, False, '']}",
        FORGED % "{'id': 3, 'n': 0, 'v': [True, False, '']}",
        FORGED % "{'id': 0, 'n': 0, 'v': [True, False, 'x' * 100000]}",
        "os.write(sock(), b'\\x01' + b'x' * 70000)",
        'os.write(sock(), b\'\\x01{"lost":"closed"}\')',
        "os._exit(0)",
        "os.close(sock())",
        "raise MemoryError",
    ],
)
def test_a_check_that_breaks_its_process_has_failed_and_the_others_are_judged(limited: Sandbox, line: str) -> None:
    good = "def check(initial_state, final_state):\n    return final_state['n'] == 1"
    source = f"{FIND}def check(initial_state, final_state):\n    {line}\n    return True"
    verdicts = limited.evaluate_checks([good, source, good], {"n": 0}, {"n": 1})
    assert [verdict.passed for verdict in verdicts] == [True, False, True]
    assert verdicts[1].error


def test_bytecode_is_kept_where_the_host_keeps_it_and_no_program_learns_of_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    box = Sandbox()
    try:
        told = act(box, "import sys", "return [sys.pycache_prefix, dict(sys._xoptions), sys.orig_argv]")
    finally:
        box.close()
    assert told.result == [None, {}, []]
    assert next(tmp_path.rglob("worker.*.pyc"), None), "the next zygote compiles nothing"

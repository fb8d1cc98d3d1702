"""The same calls give the same state: whatever the pauses between them, in another process and beside another load."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from synthesis.contracts import DEFAULT_NOW, Limits, Program
from synthesis.runtime import Sandbox
from tests.runtime.programs import program

CURIOUS = '''
import sys, threading, time, weakref
from datetime import datetime

class Node:
    """Something in a ring, which only the collector removes."""
    def __init__(self):
        self.me = self

class Curious:
    """Writes down whatever it can learn."""
    def __init__(self, init_config: dict):
        self.seen = []
        self._nodes = weakref.WeakValueDictionary()

    def look(self, n: int) -> list:
        """Look around."""
        sys_modules = sys.modules
        libc = sys_modules["ctypes"].CDLL(None, use_errno=True)
        words = (sys_modules["ctypes"].c_long * 64)()
        for name, arguments in (("sysinfo", (words,)), ("uname", (words,)), ("sched_getcpu", ())):
            self.seen.append(getattr(libc, name)(*arguments))
        for clock in range(12):
            libc.clock_gettime(clock, words)
        libc.getrandom(words, 16, 0)
        libc.getrusage(0, words)
        self.seen.append(list(words))
        self.seen += [libc.getpid(), libc.getuid(), sys_modules["_random"].Random().random()]
        self.seen += [id(self), id(words), hash(Node), hash(Node()), threading._time(), time.thread_time()]
        self.seen += [datetime.now().isoformat(), threading.Event().wait(2.5), time.time()]
        for number in range(n):
            self._nodes[n * 1000 + number] = Node()
        self.seen.append(len(self._nodes))
        return self.seen[-1:]

    def fail(self) -> None:
        """Raise with an object's address in the text."""
        raise ValueError(f"{Node()} and {self.look} do not fit")
'''
CALLS: tuple[tuple[str, dict[str, Any]], ...] = (("look", {"n": 300}), ("fail", {}), ("look", {"n": 500}))


@pytest.fixture(params=["auto", "no_namespaces"])
def own(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """A sandbox nobody used before: its first episode compiles the program, a later one reads it."""
    made = Sandbox(mode=request.param, limits=Limits(memory_mib=128, call_seconds=10.0))
    yield made
    made.close()


def run(sandbox: Sandbox, wanted: Program, pause: float = 0.0) -> tuple[Any, ...]:
    with sandbox.reset(wanted, {}) as episode:
        results = []
        for tool, arguments in CALLS:
            result = episode.call(tool, arguments)
            results.append(result.model_copy(update={"duration_us": 0}))
            time.sleep(pause)
        return results, episode.state(), episode.state_hash()


def test_pauses_processes_and_load_leave_no_trace(own: Sandbox, sandbox: Sandbox) -> None:
    curious = program(CURIOUS)
    first = run(own, curious)
    assert first[0][0].ok
    assert first[0][1].error.message.count(" at 0x0>") == 2, "addresses differ from process to process"
    assert run(own, curious, pause=0.4) == first, "after pauses, and without compiling"
    busy = threading.Event()
    spinner = threading.Thread(target=lambda: [None for _ in iter(busy.is_set, True)])
    spinner.start()
    try:
        assert run(sandbox, curious) == first, "in another sandbox, beside other work"
    finally:
        busy.set()
        spinner.join()


def test_the_program_s_time_is_not_the_host_s_measure(sandbox: Sandbox) -> None:
    """A call's duration is taken outside: what the program sends as one counts for nothing."""
    source = '''
class Env:
    def __init__(self, init_config=None):
        self.n = 0
    def act(self) -> int:
        """Count for a while."""
        for _ in range(300_000):
            self.n += 1
        return self.n
'''
    with sandbox.reset(program(source), {}) as episode:
        assert episode.call("act", {}).duration_us > 1_000


def test_an_episode_begun_ahead_is_one_begun_now(sandbox: Sandbox) -> None:
    """The zygote begins the usual seed and moment for all; a moment in another spelling is begun in the child."""
    source = '''
import random, time, uuid
class Env:
    def __init__(self, init_config=None):
        self.drawn = [random.random(), random.Random().random(), str(uuid.uuid4()), time.time(), id(object())]
    def act(self) -> list:
        """Draw again."""
        return [random.random(), str(uuid.uuid1()), time.time(), id(object())]
'''
    seen = []
    for now in (DEFAULT_NOW, DEFAULT_NOW.replace("+00:00", "Z")):
        with sandbox.reset(program(source), {}, now=now) as episode:
            seen.append((episode.state(), episode.call("act", {}).result))
    assert seen[0] == seen[1]

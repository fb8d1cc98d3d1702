"""Processes of a running installation by kind, for who kills them, and how long each kind was away."""

from __future__ import annotations

import os
import random
import re
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import psutil

from tests.fixtures.installation import Installation

SERVICES = {
    "worker-llm": "worker-llm",
    "worker-sandbox": "worker-sandbox",
    "worker-gpu": "worker-gpu",
    "web": "web",
    "beat": "beat",
    "valkey": "valkey",
    "postmaster": "postgres",
}
"""By kind, the name under which the supervisor knows a process."""
BELOW = ("job", "zygote", "sandboxed", "training-worker", "trainer", "backend")
KINDS = (*SERVICES, *BELOW)
TAKING_CALLS = ("worker-llm", "job", "postmaster", "backend")
"""Kinds with which LLM calls that are under way may go: who sends them, and where their replies are stored."""
_BACK = re.compile(r"^([\w-]+) is back after ([\d.]+) s$", re.MULTILINE)


def below(run: Installation, kind: str) -> list[psutil.Process]:
    """The processes of a kind that the supervisor did not start itself, at this moment."""
    if kind == "backend":
        return psutil.Process(run.child("postgres")).children()
    if kind == "job":
        parents = [run.child("worker-llm"), run.child("worker-sandbox")]
        return [child for pid in parents for child in psutil.Process(pid).children()]
    if kind in ("training-worker", "trainer"):
        workers = [one for one in _below(run.child("worker-gpu")) if "training.worker" in one.cmdline()]
        return workers if kind == "training-worker" else [one for worker in workers for one in worker.children()]
    assert run.running is not None
    zygotes = [one for one in _below(run.running.pid) if any(part.endswith("zygote.py") for part in one.cmdline())]
    # What a zygote forked has its command line: the one on top was started by somebody else.
    heads = [one for one in zygotes if one.ppid() not in {other.pid for other in zygotes}]
    return heads if kind == "zygote" else [one for head in heads for one in head.children(recursive=True)]


def _below(pid: int) -> list[psutil.Process]:
    found = []
    for one in psutil.Process(pid).children(recursive=True):
        with suppress(psutil.Error):
            if one.cmdline():
                found.append(one)
    return found


@dataclass
class Killer:
    """Kills a process of a random kind at a time, and remembers which. `in_flight` tells what a kill may cost;
    `exposed` adds that up."""

    run: Installation
    luck: random.Random
    kinds: Sequence[str]
    in_flight: Callable[[], int]
    kills: Counter[str] = field(default_factory=Counter)
    exposed: int = 0
    last: float = 0.0

    def kill_one(self) -> str:
        """The kind that lost a process; empty where none could be found."""
        for kind in self.luck.sample(list(self.kinds), len(self.kinds)):
            with suppress(OSError, IndexError, psutil.Error):
                pid = self._pid(kind)
                exposed = self.in_flight()
                os.kill(pid, signal.SIGKILL)
                self.exposed += exposed if kind in TAKING_CALLS else 0
                self.kills[kind] += 1
                self.last = time.monotonic()
                return kind
        return ""

    def _pid(self, kind: str) -> int:
        """Raises where there is none just now."""
        if kind not in SERVICES:
            return self.luck.choice(below(self.run, kind)).pid
        pid = self.run.child(SERVICES[kind])
        if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            raise psutil.NoSuchProcess(pid)
        return pid

    def away(self) -> dict[str, list[float]]:
        """By service, how long it was away each time, as the supervisor says."""
        kinds = {name: kind for kind, name in SERVICES.items()}
        found: dict[str, list[float]] = {}
        for name, seconds in _BACK.findall(self.run.text()):
            found.setdefault(kinds.get(name, name), []).append(float(seconds))
        return found

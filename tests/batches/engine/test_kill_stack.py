"""Every process of a running installation is killed amid a batch of the real pipeline; it comes to the same."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest

from tests.fixtures.installation import Installation
from tests.fixtures.processes import ROOT, wait_for
from webapp.stack.services import fetch_health
from webapp.stack.valkey import Valkey

pytestmark = pytest.mark.kill

EVERYTHING = "everything"
"""All at once, as a power cut does, the supervisor first; it is started again by hand."""
SERVICES = {"worker": "worker-llm", "postgres": "postgres", "valkey": "valkey", "web": "web", "beat": "beat"}
"""By victim, how the supervisor calls it: it starts these again."""
VICTIMS = ("worker", "child", "zygote", "sandboxed", "postgres", "backend", "valkey", "web", "beat", EVERYTHING)
SECONDS = 400
IN_FLIGHT = 2 * 4 * 8
"""Lanes, items at once, methods of an item that are asked for at once: more requests a kill cannot lose."""
HELD: dict[Installation, psycopg.Connection[Any]] = {}


class Hand:
    """What a person does, in a process of its own; the servers may be away for a moment."""

    def __init__(self, run: Installation) -> None:
        environment = {
            **run.environment(),
            "DJANGO_SETTINGS_MODULE": "webapp.settings",
            "DATABASE_URL": run.database(),
            "BROKER_URL": Valkey(run.home.valkey, run.home.sockets()).url(),
            "ENVARIUM_SECRET_KEY": run.home.secret("secret-key"),
        }
        command = [sys.executable, "-m", "tests.batches.engine.by_hand"]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, env=environment, cwd=ROOT, stdin=pipe, stdout=pipe, text=True)

    def __call__(self, *words: str) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(" ".join(words) + "\n")
        self.process.stdin.flush()
        told = self.process.stdout.readline()
        assert told, f"{words} failed"
        return json.loads(told)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Installation]:
    found = Installation(
        tmp_path, "tests.batches.engine.stack", ENVARIUM_JOB_LEASE_SECONDS="3", ENVARIUM_TRAINING="off"
    )
    found.start()
    yield found
    if run_connection := HELD.pop(found, None):
        run_connection.close()
    found.stop()


@pytest.fixture
def by_hand(run: Installation) -> Iterator[Hand]:
    hand = Hand(run)
    yield hand
    hand.process.communicate()


def ask(run: Installation, sql: str, *values: object) -> Any:
    """One value out of the database, which may be away. A connection is kept as long as it holds."""
    with suppress(psycopg.OperationalError):
        connection = HELD.pop(run, None) or psycopg.connect(run.database(), autocommit=True)
        found = connection.execute(sql, values).fetchone()  # type: ignore[call-overload]
        HELD[run] = connection
        return found[0] if found else None
    return None


def progress(run: Installation, batch: int) -> int | None:
    count = "select count(*) from batches_stagerun r join batches_batchitem i on i.id = r.item_id where i.batch_id = %s"
    found: int | None = ask(run, count, batch)
    return found


def ended(run: Installation, by_hand: Hand, batch: int) -> bool:
    """A batch whose workers were lost too often waits for a person, who is played here."""
    state = ask(run, "select state from batches_batch where id = %s", batch)
    if state == "failed":
        by_hand("resume", str(batch))
    return bool(state == "done")


def target(run: Installation, victim: str, luck: random.Random) -> int | None:
    """The process to kill, if there is one just now."""
    with suppress(OSError, IndexError, psutil.Error):
        if victim in SERVICES:
            return run.child(SERVICES[victim])
        if victim == "backend":
            return luck.choice(psutil.Process(run.child("postgres")).children()).pid
        lanes = psutil.Process(run.child("worker-llm")).children()
        if victim == "child":
            return luck.choice(lanes).pid
        zygotes = [one for lane in lanes for one in lane.children() if "zygote" in " ".join(one.cmdline())]
        if victim == "zygote":
            return luck.choice(zygotes).pid
        return luck.choice([one for zygote in zygotes for one in zygote.children(recursive=True)]).pid
    return None


def disturb(run: Installation, by_hand: Hand, batch: int, luck: random.Random) -> list[str]:
    """Kill one after the other, at random points of the batch's way."""
    killed: list[str] = []
    since = 0
    waiting = list(VICTIMS)
    luck.shuffle(waiting)
    aim = luck.randint(1, 5)
    until = time.monotonic() + SECONDS
    while waiting and not ended(run, by_hand, batch):
        assert time.monotonic() < until, f"after {killed} nothing goes on: {run.text()[-2_000:]}"
        time.sleep(luck.uniform(0.01, 0.1))
        found = progress(run, batch)
        if waiting[0] == EVERYTHING and (found or 0) >= aim:
            for number in range(50):
                run.execute("INSERT INTO kept VALUES (%s)", number)
            require_back(run, killed)
            run.kill_everything()
            run.start()
            since = len(killed)
            killed.append(waiting.pop(0))
            continue
        pid = target(run, waiting[0], luck) if found is not None and found >= aim else None
        if pid is None:
            continue
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            killed.append(waiting.pop(0))
        aim = (found or 0) + luck.randint(1, 6)
    require_back(run, killed[since:])
    return killed


def require_back(run: Installation, killed: list[str]) -> None:
    """Each service that was killed since the start is there again, and all is well."""
    for name in (SERVICES[victim] for victim in killed if victim in SERVICES):
        wait_for(lambda: f"{name} is back after" in run.text(), seconds=90, what=name)  # noqa: B023
    wait_for(lambda: fetch_health(run.port).body.get("status") == "ok", seconds=90, what="health")


def finish(run: Installation, by_hand: Hand, batch: int) -> Any:
    until = time.monotonic() + SECONDS
    while not ended(run, by_hand, batch):
        assert time.monotonic() < until, f"batch {batch} does not end: {run.text()[-2_000:]}"
        time.sleep(0.2)
    return by_hand("seen", str(batch))


def test_a_batch_comes_to_the_same_whichever_process_is_killed(run: Installation, by_hand: Hand) -> None:
    run.execute("CREATE TABLE kept (number int)")
    batch = by_hand("start")
    killed = disturb(run, by_hand, batch, random.Random(11))
    found = finish(run, by_hand, batch)
    assert set(killed) == set(VICTIMS), killed
    assert [row[0] for row in run.execute("SELECT number FROM kept ORDER BY number")] == list(range(50))
    assert found["items"] == found["paths"] >= 25
    assert found["products"] == found["kept"] >= 20
    undisturbed = finish(run, by_hand, by_hand("again", str(batch)))
    for mine, other in zip(found["content"], undisturbed["content"], strict=True):
        assert mine == other
    # Nothing was doubled: the second batch finds every row that the first one made, and makes no other.
    for what in ("rows", "counts", "keys", "kept", "calls"):
        assert found[what] == undisturbed[what], what
    # Each call was answered once; what was sent more often was in flight when something was killed.
    assert (undisturbed["requests"], undisturbed["lost"], undisturbed["open"]) == (undisturbed["calls"], 0, 0)
    assert found["requests"] == found["calls"] + found["lost"] + found["open"]
    assert found["requests"] <= undisturbed["requests"] + len(killed) * IN_FLIGHT
    assert found["batch"] == {"requests": found["requests"], "lost": found["lost"]}

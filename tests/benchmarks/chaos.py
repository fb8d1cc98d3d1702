"""Whether anything is lost or doubled while processes of a running installation are killed all the time.

    python -m tests.benchmarks.chaos --json [--minutes 5] [--interval 2] [--seed 0] [--only KIND,...] [--themes 6]
        [--attempts 12]

An installation as `make run` starts it, in a folder of its own, works in rounds: a batch of the bundled themes whose
LLM calls a scripted provider answers, rollouts at a task beside it (by a model over HTTP, a noisy reference, chance),
and a small training job. The first round is left alone. Then, for `--minutes`, a process of a random kind is killed
with SIGKILL every `--interval` seconds while rounds follow each other; the last ones may then end. Kinds: see `KINDS`
in `chaos_parts/victims.py`.

`kills` and `kills_by_kind`; `lost`: items, attempts, points and rows that are missing, jobs that failed or had to be
set going again by a person (which is done here, so that the next round can follow), work that did not end within
`--patience` seconds; `doubled`: what is there twice; `content_equal`: every round made what the first one made, by
content hashes, the weights of the trained model among them; `calls_repeated`: stored LLM calls that were sent again,
and `in_flight_at_kills`, how many were under way just before each kill of what sends or stores them; `recovered_s`:
from the last kill until all had ended; `away_s`: by kind, [median, most] seconds until the supervisor said that a
service was back; `answers`: by status, to requests for rollouts (0: there was none); `said`: the first things that
went wrong. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import random
import signal
import statistics
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

from tests.benchmarks.chaos_parts.victims import KINDS, Killer
from tests.fixtures.installation import Installation
from tests.fixtures.llm import Request, Scripted, llm_server
from webapp.stack.valkey import Valkey

if TYPE_CHECKING:
    from tests.benchmarks.chaos_parts.work import Findings, Stream

LEASE_S = 6
START_S = 600.0
"""In which the installation is ready, on a machine that others use too."""
LATENCY_S = 0.15
"""Of each reply to a stage of the batch."""
SAID = 20
IN_FLIGHT = """
SELECT count(*) FROM batches_llmcall c JOIN batches_batchitem i ON c.path = i.path JOIN jobs_job j ON i.job_id = j.id
WHERE c.state = 'sent' AND i.state = 'running' AND i.claim = j.attempt AND c.updated_at >= j.started_at
"""
"""Requests of lanes that hold their items: what an earlier kill left behind is not in flight any more."""


class InFlight:
    """How many LLM calls are under way; while the database is away, as many as there were before."""

    def __init__(self, run: Installation) -> None:
        self.run = run
        self.connection: psycopg.Connection[Any] | None = None
        self.known = 0

    def __call__(self) -> int:
        with suppress(psycopg.Error, OSError):
            if self.connection is None or self.connection.closed:
                self.connection = psycopg.connect(self.run.database(), autocommit=True, connect_timeout=1)
            row = self.connection.execute(IN_FLIGHT).fetchone()
            self.known = int(row[0]) if row else 0
        return self.known


class Rounds:
    """One stream's rounds: each is held against the first."""

    def __init__(self, stream: Stream) -> None:
        from tests.benchmarks.chaos_parts.work import Findings

        self.stream = stream
        self.number = 0
        self.calm: dict[str, Any] = {}
        self.findings: Findings = Findings()
        self.open = False

    def begin(self) -> None:
        from tests.benchmarks.chaos_parts.work import surely

        surely(self.stream.start, self.number)
        self.open = True

    def look(self) -> None:
        """Notice the end of the round under way."""
        from tests.benchmarks.chaos_parts.work import surely

        if not self.open or not surely(self.stream.ended, self.number, self.findings):
            return
        seen = surely(self.stream.seen, self.number)
        if self.number:
            self.stream.compare(self.calm, seen, self.findings)
        else:
            self.calm = seen
        self.number += 1
        self.open = False
        tell(f"{self.stream.name}: round {self.number} has ended")


def tell(words: str) -> None:
    print(time.strftime("%H:%M:%S"), words, file=sys.stderr, flush=True)


def connect_django(run: Installation) -> None:
    """Let this process work as one of the installation's own."""
    os.environ |= {
        **run.environment(),
        "DJANGO_SETTINGS_MODULE": "webapp.settings",
        "DATABASE_URL": run.database(),
        "BROKER_URL": Valkey(run.home.valkey, run.home.sockets()).url(),
        "ENVARIUM_SECRET_KEY": run.home.secret("secret-key"),
        "ENVARIUM_LOG_LEVEL": "ERROR",
    }
    import django

    django.setup()
    logging.getLogger("psycopg.pool").setLevel(logging.CRITICAL)  # its connections end all the time


def finish(rounds: list[Rounds], seconds: float) -> float:
    """Wait until the rounds under way have ended; what has not after so long is lost. Gives how long it took."""
    began = time.monotonic()
    while any(one.open for one in rounds) and time.monotonic() - began < seconds:
        for one in rounds:
            one.look()
        time.sleep(0.3)
    for one in rounds:
        if one.open:
            one.findings.lose(f"{one.stream.name}: round {one.number} did not end within {seconds:.0f} s")
    return time.monotonic() - began


def disturb(rounds: list[Rounds], killer: Killer, minutes: float, interval: float) -> None:
    """Kill, and keep the work coming, for so long."""
    over = threading.Event()

    def kill() -> None:
        while not over.wait(interval):
            tell(f"killed: {killer.kill_one() or 'nothing, there was none'}")

    thread = threading.Thread(target=kill, daemon=True)
    until = time.monotonic() + 60 * minutes
    thread.start()
    try:
        while time.monotonic() < until:
            for one in rounds:
                if not one.open:
                    one.begin()
                one.look()
            time.sleep(0.3)
    finally:
        over.set()
        thread.join()


def measure(run: Installation, given: argparse.Namespace, url: str) -> dict[str, Any]:
    from tests.benchmarks.chaos_parts.work import Making, Training

    making = Making(given.themes, given.attempts, url, f"http://127.0.0.1:{run.port}")
    streams: list[Stream] = [making, *([] if given.without_training else [Training()])]
    rounds = [Rounds(stream) for stream in streams]
    for one in rounds:
        one.begin()
    calm_s = finish(rounds, given.patience)
    if any(one.open for one in rounds):
        raise SystemExit(f"The calm round did not end, so nothing was measured: {run.text()[-2_000:]}")
    kinds = given.only.split(",") if given.only else KINDS
    killer = Killer(run, random.Random(given.seed), kinds, InFlight(run))
    disturb(rounds, killer, given.minutes, given.interval)
    finish(rounds, given.patience)
    recovered = time.monotonic() - killer.last
    away = killer.away()
    every = [seconds for found in away.values() for seconds in found]
    found = [one.findings for one in rounds]
    return {
        "seed": given.seed,
        "minutes": given.minutes,
        "interval_s": given.interval,
        "lease_s": LEASE_S,
        "calm_s": round(calm_s, 1),
        "rounds": {one.stream.name: one.number - 1 for one in rounds},
        "kills": killer.kills.total(),
        "kills_by_kind": dict(killer.kills.most_common()),
        "lost": sum(one.lost for one in found),
        "doubled": sum(one.doubled for one in found),
        "content_equal": all(one.equal for one in found),
        "calls_repeated": sum(one.repeated for one in found),
        "in_flight_at_kills": killer.exposed,
        "recovered_s": round(recovered, 1),
        "away_median_s": round(statistics.median(every), 1) if every else None,
        "away_max_s": round(max(every), 1) if every else None,
        "away_s": {kind: [round(statistics.median(one), 1), round(max(one), 1)] for kind, one in away.items()},
        "answers": dict(making.answers),
        "said": [words for one in found for words in one.said][:SAID],
    }


def solver(request: Request) -> Scripted:
    """A model that takes its time, so that there is something to interrupt."""
    from tests.rollouts_web.support import solver

    reply = solver(request)
    return Scripted(reply.body, reply.status, reply.headers, seconds=0.25)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print the figures as one JSON object (they always are)")
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--interval", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="kinds of processes, with commas between")
    parser.add_argument("--themes", type=int, default=6)
    parser.add_argument("--attempts", type=int, default=12, help="of each of the three policies of a round")
    parser.add_argument("--patience", type=float, default=300.0, help="seconds in which work that is left alone ends")
    parser.add_argument("--without-training", action="store_true")
    parser.add_argument("--keep", type=Path, help="keep the installation, with its logs, in this new folder")
    given = parser.parse_args()
    if unknown := set(filter(None, given.only.split(","))) - set(KINDS):
        parser.error(f"--only: there is no kind {', '.join(sorted(unknown))}; there are {', '.join(KINDS)}")
    with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
        place = given.keep or Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        run = Installation(
            place,
            "tests.batches.engine.stack",
            ENVARIUM_JOB_LEASE_SECONDS=str(LEASE_S),
            ENVARIUM_TRAINING_LEASE_SECONDS=str(2 * LEASE_S),
            ENVARIUM_TRAINING="off" if given.without_training else "on",
            ENVARIUM_ROLLOUTS_AT_ONCE="3",
            SCRIPTED_LATENCY_S=str(LATENCY_S),
            OMP_NUM_THREADS="1",
        )
        try:
            run.start(seconds=START_S)
            connect_django(run)
            with llm_server(solver) as server:
                print(json.dumps(measure(run, given, server.url)))
        finally:
            if run.running is not None:
                run.signal_and_wait(signal.SIGTERM)


if __name__ == "__main__":
    main()

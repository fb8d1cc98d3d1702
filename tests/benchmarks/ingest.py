"""What the web app takes of a trainer's record, and whether two kills of it leave a gap or a duplicate.

A database, broker and home of its own; the site under uvicorn; the worker's own sender (`training.worker.uploads`) with
a record as trainers write one. First a whole record is there at once, which says how many points a second arrive; then
a second one grows while the site is killed twice and started again. Part of `tests.benchmarks.training`; on its own:

    python -m tests.benchmarks.ingest --json [--steps 500] [--keys 40]
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.benchmarks.databases import own_database


@contextmanager
def site_settings(folder: Path, prefix: str = "bench_ingest") -> Iterator[None]:
    """Django set up on a database, a broker and a home of the benchmark's own."""
    from webapp.stack.brief import BriefServers
    from webapp.stack.home import Home

    home = Home(folder / "home")
    home.prepare()
    servers = BriefServers(home)
    with own_database(prefix) as url:
        os.environ |= {
            "DATABASE_URL": url,
            "BROKER_URL": servers.valkey(),
            "DJANGO_SETTINGS_MODULE": "webapp.settings",
            "ENVARIUM_HOME": str(folder / "home"),
            "ENVARIUM_LOG_LEVEL": "WARNING",
            # Nobody sends heartbeats here, and a killed site is away for a while.
            "ENVARIUM_TRAINING_LEASE_SECONDS": "3600",
        }
        import django

        django.setup()
        from django.core.management import call_command
        from django.db import connection, connections

        call_command("migrate", verbosity=0)
        try:
            yield
        finally:
            connections.close_all()
            connection.close_pool()
            servers.stop(at_once=True)


def write(record: Path, steps: int, keys: int, pause: float = 0.0) -> None:
    """A record as a trainer writes one: an event, then numbers a step."""
    from training.metrics import Writer

    with Writer(record) as writer:
        writer.event(0, "info", "Training begins.", device="cpu")
        for step in range(1, steps + 1):
            writer.values(step, {f"loss/part{key}": step + key / keys for key in range(keys)})
            time.sleep(pause)


class Sending:
    """The worker's sender at work on a job's record, in a thread, until `close`."""

    def __init__(self, url: str, token: str, assignment: Any, folder: Path) -> None:
        from training.worker.client import Client
        from training.worker.uploads import Sender, send_records

        self.over, self.error = threading.Event(), list[Exception]()
        self.client = Client(url, token)
        sender = Sender(self.client, assignment, folder, lambda: False, lambda line: None)

        def work() -> None:
            try:
                send_records(sender, self.over.is_set)
            except Exception as error:
                # Boundary of the thread: what stopped it is told by `close`.
                self.error.append(error)

        self.thread = threading.Thread(target=work, daemon=True)
        self.thread.start()

    def close(self) -> None:
        """Wait until everything that is in the record has been taken."""
        self.over.set()
        self.thread.join(timeout=600)
        self.client.close()
        if self.error or self.thread.is_alive():
            raise SystemExit(f"the sender did not come to its end: {self.error}")


def claimed(url: str, token: str, folder: Path) -> Any:
    """A queued job, claimed over HTTP; (its row, what the claim said)."""
    from tests.workers.worker_support import queued
    from training.worker.assignment import Assignment
    from training.worker.client import Client

    job = queued()
    client = Client(url, token)
    try:
        worker = (client.call("POST", "workers", {"name": folder.name}) or {})["id"]
        told = client.call("POST", f"workers/{worker}/claim", {}, wait_s=5, params={"wait_s": 5})
    finally:
        client.close()
    assignment = Assignment.model_validate(told)
    assert assignment.job == job.public_id
    folder.mkdir()
    return job, assignment


def stored(job: Any, steps: int, keys: int) -> dict[str, int]:
    """Points beside what was written: how many there are, twice there, and missing."""
    from webapp.runs.models import MetricPoint

    rows = MetricPoint.objects.filter(key__job=job, superseded=False).values_list("key__name", "step", "value")
    found = {(name, step): value for name, step, value in rows}
    wanted = {(f"loss/part{key}", n): n + key / keys for n in range(1, steps + 1) for key in range(keys)}
    return {
        "points": len(rows),
        "duplicates": len(rows) - len(found),
        "gaps": sum(found.get(point) != value for point, value in wanted.items()),
    }


def wait_for_points(job: Any, count: int, seconds: float = 300.0) -> None:
    from webapp.runs.models import MetricPoint

    end = time.monotonic() + seconds
    while MetricPoint.objects.filter(key__job=job).count() < count:
        if time.monotonic() > end:
            raise SystemExit(f"waited in vain for {count} points")
        time.sleep(0.05)


def measure(folder: Path, steps: int, keys: int, kills: int) -> dict[str, Any]:
    from tests.fixtures.api import token_of
    from tests.workers.training_support import Site
    from tests.workers.worker_support import operator

    site = Site(folder)
    token = token_of(operator(), "worker")
    try:
        job, assignment = claimed(site.url, token, folder / "whole")
        write(folder / "whole" / "record.jsonl", steps, keys)
        started = time.perf_counter()
        Sending(site.url, token, assignment, folder / "whole").close()
        seconds = time.perf_counter() - started
        undisturbed = stored(job, steps, keys)

        job, assignment = claimed(site.url, token, folder / "killed")
        growing = threading.Thread(target=write, args=(folder / "killed" / "record.jsonl", steps, keys, 0.02))
        growing.start()
        sending = Sending(site.url, token, assignment, folder / "killed")
        for kill in range(1, kills + 1):
            wait_for_points(job, kill * steps * keys // (kills + 2))
            site.kill()
            time.sleep(1)
            site.start()
        growing.join()
        sending.close()
        disturbed = stored(job, steps, keys)
    finally:
        site.kill()
    return {
        "ingest_points_per_s": round(undisturbed["points"] / seconds),
        "ingested_points": undisturbed["points"] + disturbed["points"],
        "duplicates": undisturbed["duplicates"] + disturbed["duplicates"],
        "gaps": undisturbed["gaps"] + disturbed["gaps"],
        "kills": kills,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--keys", type=int, default=40)
    parser.add_argument("--kills", type=int, default=2, help="of the site, while the second record grows")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ingest-") as name, site_settings(Path(name)):
        result = measure(Path(name), given.steps, given.keys, given.kills)
    print(json.dumps(result) if given.json else result)


if __name__ == "__main__":
    main()

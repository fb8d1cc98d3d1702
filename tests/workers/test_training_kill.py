"""SIGKILL of trainer, worker, site and broker while a job runs: the curve has neither gap nor duplicate."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

pytest.importorskip("torch")
pytest.importorskip("trl")

from tests.fixtures.processes import Running, wait_for
from tests.workers.training_support import Site, datasets, ended, reached, series, start_worker, supervised
from training.metrics import Position, Values, read_records
from webapp.accounts.models import Role, User
from webapp.runs.models import Checkpoint, MetricPoint, TrainingJob, TrainingState
from webapp.stack.brief import BriefServers
from webapp.stack.home import Home

pytestmark = [pytest.mark.kill, pytest.mark.django_db(transaction=True)]
STEPS = 60
"""So many that the trainer is not through when the site is back after a kill."""


@pytest.fixture
def operator(transactional_db: None) -> User:
    return User.objects.create_user("olga", password="a long password", role=Role.OPERATOR)


@pytest.fixture
def broker(tmp_path: Path, settings) -> Iterator[BriefServers]:
    """A broker of the site's own, which may die."""
    home = Home(tmp_path / "broker")
    home.prepare()
    servers = BriefServers(home)
    settings.BROKER_URL = servers.valkey()
    yield servers
    servers.stop(at_once=True)


class Copies:
    """Copies of the record files, made over and over: an attempt's folder goes when it has ended."""

    def __init__(self, attempts: Path, into: Path) -> None:
        self.attempts, self.into, self.over = attempts, into, threading.Event()
        into.mkdir()
        self.thread = threading.Thread(target=self._copy, daemon=True)
        self.thread.start()

    def _copy(self) -> None:
        while not self.over.wait(0.2):
            for record in self.attempts.glob("*/record.jsonl"):
                pending = self.into / "pending"
                try:
                    os.link(record, pending)
                except OSError:
                    continue
                # The file itself, under another name: it goes on growing, and stays when its folder goes.
                kept = self.into / record.parent.name
                if kept.exists() and kept.samefile(pending):
                    pending.unlink()
                else:
                    pending.replace(kept)

    def points(self, job: TrainingJob) -> dict[int, dict[tuple[str, int], float | None]]:
        """What each attempt's file says, by key and step."""
        self.over.set()
        self.thread.join()
        return {number: _points(self.into / f"{job.public_id}-{number}") for number in range(1, job.attempt + 1)}


def _points(record: Path) -> dict[tuple[str, int], float | None]:
    found: dict[tuple[str, int], float | None] = {}
    position = Position()
    while True:
        records, position = read_records(record, position)
        if not records:
            return found
        for one in records:
            if isinstance(one, Values):
                found.update({(key, one.step): value for key, value in one.values.items()})


def trainer_of(running: Running) -> psutil.Process:
    def found() -> list[psutil.Process]:
        trainers = []
        for one in psutil.Process(running.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):  # it ended between the two looks
                trainers += [one] if any("training." in part for part in one.cmdline()) else []
        return trainers

    return wait_for(found, seconds=60, what="a trainer")[0]


def at(job: TrainingJob, step: int, log: Path) -> None:
    """Wait for a step beyond what is there, with a checkpoint to go on from."""
    reached(job, step, log)
    wait_for(lambda: Checkpoint.objects.filter(job=job, state="ready").exists(), seconds=120, what="a checkpoint")


def test_kills_leave_neither_gap_nor_duplicate(
    operator: User, broker: BriefServers, tmp_path: Path, settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.TRAINING_LEASE_SECONDS = 15
    monkeypatch.setenv("ENVARIUM_TRAINING_LEASE_SECONDS", "15")
    lessons, tasks = datasets(operator)
    # 24 lessons in batches of 8: three steps an epoch.
    job = supervised(operator, lessons, tasks, epochs=STEPS / 3, limits={"checkpoint_every": 3})
    site = Site(tmp_path)
    copies = Copies(tmp_path / "w" / "attempts", tmp_path / "copies")
    running = start_worker(site.url, operator, tmp_path / "w")
    try:
        at(job, 4, running.log)
        trainer_of(running).send_signal(signal.SIGKILL)
        at(job, 10, running.log)
        trainer = trainer_of(running)
        os.kill(running.pid, signal.SIGKILL)
        running.process.wait()
        # The trainer's worker is gone: it ends too, and does not live on as a zombie.
        trainer.wait(30)
        running = start_worker(site.url, operator, tmp_path / "w")
        at(job, 16, running.log)
        site.kill()
        time.sleep(3)
        site.start()
        at(job, 22, running.log)
        for child in broker.children:
            os.kill(child.pid, signal.SIGKILL)
        assert ended(job, running.log) == TrainingState.SUCCEEDED, (job.error, running.log.read_text())
    finally:
        site.kill()
        running.kill()
    steps = [step for step, _ in series(job, "loss")]
    assert steps == list(range(1, STEPS + 1))
    assert job.attempt >= 3
    for number, found in copies.points(job).items():
        rows = MetricPoint.objects.filter(key__job=job, attempt=number).values_list("key__name", "step", "value")
        stored = {(key, step): value for key, step, value in rows}
        assert len(stored) == len(rows)
        assert stored == found, f"attempt {number}"

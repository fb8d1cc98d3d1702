"""A real worker process with real trainers on small frozen datasets of the demo's tasks."""

from __future__ import annotations

import os
import socket
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from synthesis.runtime import get_default_sandbox
from tests.fixtures.api import token_of
from tests.fixtures.processes import ROOT, Running, child_environment, launch, wait_for
from training.dataset import Row, Split, freeze_dataset_folder
from training.examples.datasets import build_task_row, make_demonstrations
from training.examples.tasks import draw_tasks
from webapp.accounts.models import User
from webapp.datasets.models import Dataset, DatasetState
from webapp.datasets.storage import store_folder
from webapp.runs.models import MetricPoint, TrainingJob, TrainingState
from webapp.runs.services import create_job
from webapp.runs.spec import AFTER, DEMO_MODEL, NewJob
from webapp.workers import claims

EACH = 6
"""Tasks of each of the four environments."""
EVALUATION = {"tasks": 4, "turns": 1}
SFT: dict[str, Any] = {"epochs": 1, "batch": 8, "evaluation": EVALUATION, "limits": {"checkpoint_every": 2}}
RL: dict[str, Any] = {
    "steps": 3, "evaluation": EVALUATION, "sampling": {"environments": 4, "tasks": 8, "rollouts": 2},
    "decoding": {"turn_tokens": 8}, "limits": {"checkpoint_every": 1},
}  # fmt: skip
ENDED = (TrainingState.SUCCEEDED, TrainingState.FAILED, TrainingState.CANCELLED, TrainingState.PAUSED)


def frozen(name: str, rows: Sequence[Row], kind: str, share: float, user: User) -> Dataset:
    """A dataset as the job that freezes one leaves it."""
    split = Split(unit="task", test_share=share, seed=0)
    stored = f"datasets/test-{os.urandom(6).hex()}"
    with tempfile.TemporaryDirectory() as made:
        manifest = freeze_dataset_folder(Path(made), rows, name=name, kind=kind, split=split)  # type: ignore[arg-type]
        store_folder(Path(made), stored)
    return Dataset.objects.create(
        name=name, kind=kind, split=split.model_dump(mode="json"), state=DatasetState.READY, stored=stored,
        sha256=manifest.sha256, manifest=manifest.model_dump(mode="json"), train_rows=manifest.train.rows,
        test_rows=manifest.test.rows, environments=manifest.train.environments,
        bytes=manifest.train.bytes + manifest.test.bytes, tokens={}, created_by=user,
    )  # fmt: skip


def datasets(user: User) -> tuple[Dataset, Dataset]:
    """(trajectories, tasks) of a few tasks in each of the demo's environments."""
    drawn = draw_tasks(0, EACH)
    lessons = frozen("Lessons", make_demonstrations(get_default_sandbox(), drawn, 0), "trajectories", 0, user)
    return lessons, frozen("Tasks", [build_task_row(task) for task in drawn], "tasks", 0.3, user)


def supervised(user: User, lessons: Dataset, tasks: Dataset, **changes: Any) -> TrainingJob:
    new = NewJob(
        method="supervised", model=DEMO_MODEL, dataset=lessons.public_id, evaluation=tasks.public_id,
        preset="demo-sft", changes=SFT | changes,
    )  # fmt: skip
    return create_job(new, user)


def reinforcement(user: User, tasks: Dataset, first: TrainingJob, **changes: Any) -> TrainingJob:
    new = NewJob(
        method="reinforcement", model=AFTER, after=first.public_id, dataset=tasks.public_id, preset="demo-rl",
        changes=RL | changes,
    )  # fmt: skip
    return create_job(new, user)


def start_worker(url: str, user: User, home: Path, *more: str) -> Running:
    """A worker process; it ends with this one."""
    found = {key: value for key, value in os.environ.items() if key not in ("DATABASE_URL", "BROKER_URL")}
    found |= {"ENVARIUM_WORKER_TOKEN": token_of(user, "worker"), "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "training.worker", "--url", url, "--home", str(home), "--threads", "1", *more]
    return launch(command, home.with_suffix(".log"), found, cwd=ROOT)


class Site:
    """The site under uvicorn, which can be killed and started again at the same address."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url, self.log = f"http://127.0.0.1:{self.port}", folder / "site.log"
        self.running = self._started()

    def _started(self) -> Running:
        command = [sys.executable, "-m", "uvicorn", "webapp.asgi:application", "--host", "127.0.0.1"]
        command += ["--port", str(self.port), "--lifespan", "off", "--timeout-graceful-shutdown", "1"]
        running = launch(command, self.log, child_environment())
        wait_for(self._answers, seconds=120, what=f"the site: {self.log.read_text()[-2000:]}")
        return running

    def _answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/healthz", timeout=5).status_code > 0
        except httpx.TransportError:
            return False

    def kill(self) -> None:
        self.running.kill()

    def start(self) -> None:
        self.running = self._started()


@contextmanager
def worker(url: str, user: User, home: Path, *more: str) -> Iterator[Running]:
    running = start_worker(url, user, home, *more)
    try:
        yield running
    finally:
        running.kill()


def fresh(job: TrainingJob) -> TrainingJob:
    """The job's row as it is now. The clock's part of the work is done first: no scheduler runs beside a test."""
    claims.reap_jobs()
    job.refresh_from_db()
    return job


def ended(job: TrainingJob, log: Path, seconds: float = 420.0) -> str:
    """The state in which the job came to rest."""

    def at_rest() -> bool:
        return fresh(job).state in ENDED

    try:
        wait_for(at_rest, seconds=seconds, what=f"the end of {job.public_id}")
    except AssertionError as error:
        raise AssertionError(f"{error}: {job.state} {job.error}\n{log.read_text()[-6000:]}") from error
    return str(job.state)


def reached(job: TrainingJob, step: int, log: Path, seconds: float = 240.0) -> None:
    """Wait until a step of the job was told."""

    def there() -> bool:
        assert fresh(job).state not in (TrainingState.FAILED, TrainingState.SUCCEEDED), (job.error, log.read_text())
        return job.step >= step

    wait_for(there, seconds=seconds, what=f"step {step} of {job.public_id}")


def series(job: TrainingJob, name: str) -> list[tuple[int, float | None]]:
    """(step, value) of what counts, in order; a step that is there twice shows twice."""
    points = MetricPoint.objects.filter(key__job=job, key__name=name, superseded=False)
    return list(points.order_by("step", "attempt").values_list("step", "value"))

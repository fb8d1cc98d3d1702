"""A worker's side in tests: jobs that wait, records as trainers write them, checkpoints, a step's attempts."""

from __future__ import annotations

import gzip
import hashlib
import json
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.db import connection
from django.utils import timezone
from pydantic import TypeAdapter

from tests.fixtures.api import BASE, Program, token_of
from training.config import Reinforcement
from training.dataset import Split, TrajectoryRow, freeze
from training.metrics import Record
from webapp.accounts.models import Role, User
from webapp.datasets.models import Dataset, DatasetState
from webapp.runs.models import TrainingJob, TrainingState
from webapp.workers import claims, ingest, registration
from webapp.workers.assignment import Assignment
from webapp.workers.checkpoint_uploads import AnnouncedFile
from webapp.workers.models import Worker

RECORDS: TypeAdapter[list[Record]] = TypeAdapter(list[Record])
API = "http://testserver/api/v1"


def operator(name: str = "an-operator") -> User:
    return User.objects.get_or_create(username=name, defaults={"role": Role.OPERATOR})[0]


def row(number: int) -> TrajectoryRow:
    messages = [{"role": "user", "content": f"Say {number}"}, {"role": "assistant", "content": str(number)}]
    return TrajectoryRow.model_validate({"id": f"row-{number}", "environment": f"e{number % 4}", "messages": messages})


def frozen(rows: int = 8, source: str = "selection") -> Dataset:
    """A dataset whose files lie in the store, as freezing leaves it."""
    with tempfile.TemporaryDirectory() as folder:
        manifest = freeze(
            Path(folder), map(row, range(rows)), name="few", kind="trajectories", split=Split(test_share=0)
        )
        stored = f"datasets/{manifest.sha256}"
        for path in Path(folder).iterdir():
            if not default_storage.exists(f"{stored}/{path.name}"):
                default_storage.save(f"{stored}/{path.name}", ContentFile(path.read_bytes()))
    return Dataset.objects.create(
        name="few",
        kind="trajectories",
        source=source,
        state=DatasetState.READY,
        stored=stored,
        sha256=manifest.sha256,
        manifest=manifest.model_dump(mode="json"),
        train_rows=rows,
    )


def queued(**fields: Any) -> TrainingJob:
    return TrainingJob.objects.create(
        **{
            "method": "reinforcement",
            "model": "envarium-demo",
            "dataset": fields.pop("dataset", None) or frozen(),
            "config": Reinforcement(seed=7).model_dump(mode="json"),
            "state": TrainingState.QUEUED,
            **fields,
        }
    )


def a_worker(name: str = "w1", user: User | None = None, **fields: Any) -> Worker:
    return registration.register(registration.Introduction(name=name, **fields), user or operator())


def claimed(job: TrainingJob | None = None, **fields: Any) -> tuple[TrainingJob, Assignment, Worker]:
    """A job that a worker holds; one that rests has rested."""
    job = job or queued(**fields)
    TrainingJob.objects.filter(pk=job.pk).update(lease_until=None)
    worker = a_worker(f"w-{job.pk}-{job.attempt}")
    told = claims.claim(worker, API)
    assert told is not None
    assert told.job == job.public_id
    job.refresh_from_db()
    return job, told, worker


def values(seq: int, step: int, **numbers: float | None) -> dict[str, Any]:
    named = {name.replace("__", "/"): value for name, value in numbers.items()}
    return {"kind": "values", "seq": seq, "time": timezone.now().timestamp(), "step": step, "values": named}


def event(seq: int, step: int = 0, message: str = "Something.", level: str = "info", **data: Any) -> dict[str, Any]:
    at = timezone.now().timestamp()
    return {"kind": "event", "seq": seq, "time": at, "step": step, "level": level, "message": message, "data": data}


def course(first: int, last: int, *, steps_from: int = 1, offset: float = 0.0) -> list[dict[str, Any]]:
    """Records with a reward a step."""
    return [values(seq, steps_from + seq - first, reward=offset + seq) for seq in range(first, last + 1)]


def take(job: TrainingJob, records: Sequence[dict[str, Any]], number: int | None = None) -> int:
    return ingest.take_records(job.public_id, number or job.attempt, RECORDS.validate_python(list(records)))


def weights(text: bytes = b"\x00" * 64) -> bytes:
    """The smallest file of safetensors."""
    header = json.dumps({"w": {"dtype": "F32", "shape": [len(text) // 4], "data_offsets": [0, len(text)]}}).encode()
    return len(header).to_bytes(8, "little") + header + text


def announced(files: dict[str, bytes]) -> list[AnnouncedFile]:
    return [AnnouncedFile(path, len(content), hashlib.sha256(content).hexdigest()) for path, content in files.items()]


def checkpoint_files(step: int) -> dict[str, bytes]:
    return {
        "model.safetensors": weights(step.to_bytes(4, "little") * 16),
        "trainer_state.json": json.dumps({"global_step": step}).encode(),
        "optimizer.pt": b"PK-not-read-here",
    }


FINAL = {"model.safetensors": weights(), "config.json": b"{}", "tokenizer.json": b"{}"}


def attempt(**more: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": "Do it."}, {"role": "assistant", "content": "Done."}]
    told = {"policy": "model", "ending": "answered", "outcome": "solved", "messages": messages, "answer": "Done."}
    return told | more


def line(ordinal: int = 0, row: str = "revision:1", **more: Any) -> dict[str, Any]:
    told = {"row": row, "environment": "e0", "setting": "task", "verifier": "0" * 64, "ordinal": ordinal, "tokens": 9}
    return told | {"reward": 0.5, "advantage": 0.1, "policy_step": 3, "horizon": 8, "attempt": attempt()} | more


def blob(lines: Sequence[Any]) -> bytes:
    texts = [one if isinstance(one, bytes) else json.dumps(one).encode() for one in lines]
    return gzip.compress(b"".join(text + b"\n" for text in texts))


class WorkerProgram(Program):
    """A worker's client: JSON and bytes."""

    def __init__(self, user: User | None = None) -> None:
        super().__init__(token_of(user or operator(), "worker"))

    def put(self, path: str, content: bytes, **headers: str) -> Any:
        return self.raw("PUT", path, content, **headers)

    def raw(self, method: str, path: str, content: bytes, **headers: str) -> Any:
        how = {"content_type": "application/octet-stream", "headers": {**self.headers, **headers}}
        return self.client.generic(method, BASE + path, content, **how)


def at_once(*acts: Callable[[], Any]) -> list[Any]:
    """What each act gave, or the exception that it raised; all begun together, each with a connection of its own."""
    gate = threading.Barrier(len(acts))
    found: list[Any] = [None] * len(acts)

    def run(place: int, act: Callable[[], Any]) -> None:
        try:
            gate.wait(timeout=30)
            found[place] = act()
        except Exception as error:
            found[place] = error
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(place, act)) for place, act in enumerate(acts)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert not any(thread.is_alive() for thread in threads)
    return found

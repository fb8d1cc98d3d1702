"""A worker's side in tests: jobs that wait, records as trainers write them, checkpoints, a step's attempts."""

from __future__ import annotations

import gzip
import hashlib
import json
import math
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

from synthesis.contracts import CheckRecord, ChecksVerifier, Tool
from synthesis.contracts import Program as ProgramRecord
from synthesis.rollout import RolloutTask
from tests.fixtures.api import BASE, Program, token_of
from training.config import Reinforcement
from training.dataset import Split, TaskRow, freeze_dataset_folder
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


PROGRAM = ProgramRecord(source="class A: pass", class_name="A", tools=(Tool(name="look"),))
VERIFIER = ChecksVerifier(checks=(CheckRecord(source="True"),))
TASK = RolloutTask(key="", program=PROGRAM, initial={}, instruction="Look.", verifier=VERIFIER)
ROLLOUTS = 2
"""Attempts at each task of a step."""
HORIZON = 8


def row(number: int, name: str = "") -> TaskRow:
    told = {"id": name or f"row-{number}", "environment": f"e{number % 4}"}
    return TaskRow.model_validate({**told, "rollout": TASK.model_copy(update={"key": told["id"]})})


def learning(tasks: int = 2, **changes: Any) -> dict[str, Any]:
    """The configuration of a job whose steps are so many tasks, with two attempts at each."""
    sampling = {"environments": 1, "tasks": tasks, "rollouts": ROLLOUTS}
    limits = {"infra_error_share": 0.5}
    told = {"type": "reinforcement", "seed": 7, "sampling": sampling, "horizon": {"kind": "constant", "turns": HORIZON}}
    return Reinforcement.model_validate(told | {"limits": limits} | changes).model_dump(mode="json")


def frozen(rows: int = 8, source: str = "selection", names: Sequence[str] = ()) -> Dataset:
    """A dataset of tasks whose files lie in the store, as freezing leaves it; the first rows have these names."""
    made = [row(number, names[number] if number < len(names) else "") for number in range(rows)]
    with tempfile.TemporaryDirectory() as folder:
        manifest = freeze_dataset_folder(Path(folder), made, name="few", kind="tasks", split=Split(test_share=0))
        stored = f"datasets/{manifest.sha256}"
        for path in Path(folder).iterdir():
            if not default_storage.exists(f"{stored}/{path.name}"):
                default_storage.save(f"{stored}/{path.name}", ContentFile(path.read_bytes()))
    return Dataset.objects.create(
        name="few",
        kind="tasks",
        source=source,
        state=DatasetState.READY,
        stored=stored,
        sha256=manifest.sha256,
        manifest=manifest.model_dump(mode="json"),
        train_rows=rows,
    )


def queued(tasks: int = 2, **fields: Any) -> TrainingJob:
    return TrainingJob.objects.create(
        **{
            "method": "reinforcement",
            "model": "envarium-demo",
            "dataset": fields.pop("dataset", None) or frozen(max(8, tasks)),
            "config": learning(tasks),
            "state": TrainingState.QUEUED,
            **fields,
        }
    )


def a_worker(name: str = "w1", user: User | None = None, **fields: Any) -> Worker:
    return registration.register_worker(registration.Introduction(name=name, **fields), user or operator())


def claimed(job: TrainingJob | None = None, **fields: Any) -> tuple[TrainingJob, Assignment, Worker]:
    """A job that a worker holds; one that rests has rested."""
    job = job or queued(**fields)
    TrainingJob.objects.filter(pk=job.pk).update(lease_until=None)
    worker = a_worker(f"w-{job.pk}-{job.attempt}")
    told = claims.claim_job(worker, API)
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


WIDTH, LAYERS, WORDS = 128, 4, 700
CONFIG = json.dumps({"hidden_size": WIDTH, "num_hidden_layers": LAYERS, "vocab_size": WORDS}).encode()


def demo_shapes() -> dict[str, list[int]]:
    """Tensors of the demo's model (`training.demo.model`)."""
    layer = {
        "self_attn.q_proj": [128, 128], "self_attn.k_proj": [64, 128], "self_attn.v_proj": [64, 128],
        "self_attn.o_proj": [128, 128], "mlp.gate_proj": [384, 128], "mlp.up_proj": [384, 128],
        "mlp.down_proj": [128, 384], "input_layernorm": [128],
    }  # fmt: skip
    inner = {f"model.layers.{n}.{name}.weight": shape for n in range(LAYERS) for name, shape in layer.items()}
    return {"model.embed_tokens.weight": [WORDS, WIDTH]} | inner


def safetensors(shapes: dict[str, list[int]], fill: bytes = b"\x00") -> bytes:
    """A file of these tensors, whose numbers (bfloat16) are all alike."""
    header, end = {}, 0
    for name, shape in shapes.items():
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [end, end := end + 2 * math.prod(shape)]}
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + (fill * (end // len(fill) + 1))[:end]


def weights(fill: bytes = b"\x00") -> bytes:
    """Weights of the demo's model."""
    return safetensors(demo_shapes(), fill)


def announced(files: dict[str, bytes]) -> list[AnnouncedFile]:
    return [AnnouncedFile(path, len(content), hashlib.sha256(content).hexdigest()) for path, content in files.items()]


def checkpoint_files(step: int) -> dict[str, bytes]:
    return {
        "model.safetensors": weights(step.to_bytes(4, "little")),
        "trainer_state.json": json.dumps({"global_step": step}).encode(),
        "optimizer.pt": b"PK-not-read-here",
    }


FINAL = {"model.safetensors": weights(), "config.json": CONFIG, "tokenizer.json": b"{}"}


def attempt(reward: float | None = 1.0, **more: Any) -> dict[str, Any]:
    """An attempt that its verifier gave this reward; None: it was lost."""
    messages = [{"role": "user", "content": "Do it."}, {"role": "assistant", "content": "Done."}]
    outcome = "infra_error" if reward is None else "solved" if reward == 1 else "failed"
    told: dict[str, Any] = {"policy": "model", "ending": "answered", "outcome": outcome, "messages": messages}
    if reward is not None:
        told["reward"] = {"reward": reward, "passed": 0, "total": 1, "verdicts": [], "rule": "goals"}
    return told | {"answer": "Done."} | more


def line(place: int = 0, reward: float | None = 1.0, *, number: int | None = None, **more: Any) -> dict[str, Any]:
    """A line of a step's file, as a trainer writes it: an attempt at the row of this `number`."""
    number = place // ROLLOUTS if number is None else number
    told = {"row": f"row-{number}", "environment": f"e{number % 4}", "setting": "task", "ordinal": place % ROLLOUTS}
    told |= {"verifier": TASK.verifier_hash, "reward": reward, "masked": "infra_error" if reward is None else ""}
    told |= {"tokens": 9, "advantage": 0.1, "policy_step": 0, "horizon": HORIZON, "attempt": attempt(reward)}
    return told | more


def step_lines(*rewards: float | None) -> list[dict[str, Any]]:
    """The attempts of a step, each of which earned one of these."""
    return [line(place, reward) for place, reward in enumerate(rewards or (1.0, 0.5, 1.0, 0.0))]


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

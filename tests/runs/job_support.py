"""Frozen datasets in the file store, made row by row, and jobs that ask for them."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from synthesis.contracts import CheckRecord, ChecksVerifier, Program, Tool
from synthesis.rollout import RolloutTask
from training.dataset import Row, Split, TaskRow, TrajectoryRow, freeze_dataset_folder
from webapp.common.public_ids import new_id
from webapp.datasets.models import Dataset, DatasetState
from webapp.datasets.storage import store_folder
from webapp.runs.models import Checkpoint, CheckpointState, TrainingJob, TrainingState
from webapp.runs.spec import DEMO_MODEL, NewJob

CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": {"at": 1}}}
LESSON: dict[str, Any] = {
    "messages": [
        {"role": "user", "content": "Look."},
        {"role": "assistant", "content": "", "tool_calls": [CALL]},
        {"role": "tool", "content": "a cup", "tool_call_id": "c1"},
        {"role": "assistant", "content": "A cup."},
    ],
    "tools": [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}],
}


VERIFIER = ChecksVerifier(checks=(CheckRecord(source="True"),))


def task(number: int, environment: str, setting: str = "task") -> TaskRow:
    program = Program(source="class A: pass", class_name="A", tools=(Tool(name="look"),))
    rollout = RolloutTask(key=f"t{number}", program=program, initial={}, instruction="Look.", verifier=VERIFIER)
    return TaskRow.model_validate(
        {"id": f"t{number}", "environment": environment, "task": f"t{number}", "setting": setting, "rollout": rollout}
    )


def tasks(environments: int = 4, each: int = 4, setting: str = "task") -> list[TaskRow]:
    return [task(e * each + n, f"e{e}", setting) for e in range(environments) for n in range(each)]


def lesson(number: int, environment: str = "e0", **more: Any) -> TrajectoryRow:
    return TrajectoryRow.model_validate({**LESSON, "id": f"l{number}", "environment": environment, **more})


def lessons(count: int = 10) -> list[TrajectoryRow]:
    return [lesson(number, f"e{number % 2}") for number in range(count)]


def jsonl(rows: Sequence[Any]) -> bytes:
    return b"".join(json.dumps(row if isinstance(row, dict) else row.trl()).encode() + b"\n" for row in rows)


def frozen(rows: Sequence[Row], test_share: float = 0.0) -> Dataset:
    """As the job that freezes leaves one: files in the store, a manifest in the row."""
    kind: Any = "tasks" if isinstance(rows[0], TaskRow) else "trajectories"
    public_id = new_id("ds")
    split = Split(unit="task" if kind == "tasks" else "environment", test_share=test_share)
    with tempfile.TemporaryDirectory() as folder:
        manifest = freeze_dataset_folder(Path(folder), rows, name="Rows", kind=kind, split=split)
        store_folder(Path(folder), f"datasets/{public_id}")
    return Dataset.objects.create(
        public_id=public_id,
        name="Rows",
        kind=kind,
        state=DatasetState.READY,
        stored=f"datasets/{public_id}",
        sha256=manifest.sha256,
        manifest=manifest.model_dump(mode="json"),
        split=split.model_dump(mode="json"),
        train_rows=manifest.train.rows,
        test_rows=manifest.test.rows,
        environments=manifest.train.environments,
        bytes=manifest.train.bytes + manifest.test.bytes,
    )


def taught() -> str:
    """The name of the demo's model as a job that has ended taught it."""
    lessons_of, _ = Dataset.objects.get_or_create(public_id="ds-taught", defaults={"state": DatasetState.READY})
    defaults = {"method": "supervised", "model": DEMO_MODEL, "dataset": lessons_of, "state": TrainingState.SUCCEEDED}
    row, _ = TrainingJob.objects.get_or_create(public_id="ftjob-taught", defaults=defaults)
    Checkpoint.objects.get_or_create(job=row, attempt=1, step=1, final=True, state=CheckpointState.READY)
    return f"ft:{row.public_id}"


def asks(dataset: Dataset | str, method: str = "reinforcement", **more: Any) -> NewJob:
    """The demo's model on a dataset; it was taught already where it shall learn by trying."""
    ident = dataset if isinstance(dataset, str) else dataset.public_id
    if method == "reinforcement" and "model" not in more:
        more["model"] = taught()
    return NewJob.model_validate({"method": method, "model": DEMO_MODEL, "dataset": ident, **more})

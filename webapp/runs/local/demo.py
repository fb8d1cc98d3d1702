"""Training demo: SFT on what teachers did, most of them careless, then RL after it.

The model copies the habit of acting without looking, and RL is to undo it. A second run creates only new jobs.
"""

from __future__ import annotations

import hashlib
from typing import Any

from django.db import connection, transaction

from training.dataset import Split
from webapp.datasets.models import Dataset, DatasetState
from webapp.datasets.selection import DatasetSelection
from webapp.jobs.services import enqueue_job
from webapp.runs.local.demo_rows import KIND, Demo, build_demo
from webapp.runs.models import TrainingJob
from webapp.runs.services import create_job
from webapp.runs.spec import AFTER, DEMO_MODEL, NewJob

ABOUT = (
    "What it shows: a tiny model copies the habit of a careless teacher, who acts without looking, and RL undoes it. "
    "What it does not show: that RL improves a model that learnt from good teachers alone."
)
LOCK = int.from_bytes(hashlib.sha256(b"train the demo").digest()[:8], signed=True)


@transaction.atomic
def train_demo(user: Any, seed: int = 0) -> tuple[TrainingJob, TrainingJob]:
    """Start the demo; return the SFT job and the RL job that follows it. `user` is None for a command.

    They wait while a job imports what they learn from, if that is not here already.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK])
    tasks, lessons = _find_or_create_datasets(build_demo(seed), user)
    sft = NewJob(
        name=f"Demo, seed {seed}: copy a careless teacher",
        method="supervised",
        model=DEMO_MODEL,
        dataset=lessons.public_id,
        evaluation=tasks.public_id,
        preset="demo-sft",
        seed=seed,
    )
    first = create_job(sft, user)
    rl = NewJob(
        name=f"Demo, seed {seed}: unlearn the habit",
        method="reinforcement",
        model=AFTER,
        after=first.public_id,
        dataset=tasks.public_id,
        preset="demo-rl",
        seed=seed,
    )
    return first, create_job(rl, user)


def _find_or_create_datasets(demo: Demo, user: Any) -> tuple[Dataset, Dataset]:
    """Return the demo's two datasets, tasks first: existing or pending ones, else new rows and the job that fills
    them."""
    seed = demo.seed
    tasks, lessons = demo.choices
    datasets = [
        _find_or_create_dataset(f"Demo tasks, seed {seed}", tasks, demo.split, user),
        _find_or_create_dataset(
            f"Demo lessons of a careless teacher, seed {seed}", lessons, Split(unit="task", test_share=0), user
        ),
    ]
    waiting = [row for row in datasets if row.state == DatasetState.FREEZING and row.job_id is None]
    if waiting:
        payload = {"seed": seed, "datasets": [row.pk for row in waiting]}
        title, subject = f"Bring in the training demo, seed {seed}", f"dataset:{waiting[0].pk}"
        job = enqueue_job(KIND, title, payload, user, subject=subject)
        for row in waiting:
            row.job = job
            row.save(update_fields=["job"])
    return datasets[0], datasets[1]


def _find_or_create_dataset(name: str, choice: DatasetSelection, split: Split, user: Any) -> Dataset:
    """Return the newest dataset of this name with the same choice, which names the content, and the same split; else a
    new one."""
    rows = Dataset.objects.filter(kind=choice.kind, name=name, archived=False).exclude(state=DatasetState.FAILED)
    same = (row for row in rows.order_by("-pk") if _get_choice(row) == (choice, split))
    return next(same, None) or _create_dataset(name, choice, split, user)


def _get_choice(row: Dataset) -> tuple[DatasetSelection, Split]:
    return DatasetSelection.model_validate(row.selection), Split.model_validate(row.split)


def _create_dataset(name: str, choice: DatasetSelection, split: Split, user: Any) -> Dataset:
    return Dataset.objects.create(
        name=name,
        kind=choice.kind,
        selection=choice.model_dump(mode="json"),
        split=split.model_dump(mode="json"),
        created_by=user,
    )

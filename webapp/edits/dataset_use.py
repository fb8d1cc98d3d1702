"""Frozen datasets, and the training jobs on them, that hold tasks or attempts which an edit touches."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from synthesis.errors import InputError
from webapp.datasets.models import Dataset, DatasetState
from webapp.datasets.storage import open_file
from webapp.runs.models import TrainingJob
from webapp.scenarios.models import TaskRevision
from webapp.trajectories.models import Trajectory

MOST_DATASETS = 200
MOST_BYTES = 1 << 30
"""So many bytes of dataset files are looked through; what was not looked at is counted."""
MOST_JOBS = 20
HEAD = 400
_ID = re.compile(rb'"id": "(revision|trajectory):(\d{1,18})[":]')


def datasets_on(tasks: Collection[int]) -> dict[str, Any]:
    """`{found, not_looked_at}`: each dataset with its rows of these tasks, and its training jobs, newest first.

    A dataset that was uploaded holds rows of its uploader, and stands on nothing here.
    """
    revisions = set(TaskRevision.objects.filter(task__in=tasks).values_list("pk", flat=True))
    runs = set(Trajectory.objects.filter(task__in=tasks).values_list("pk", flat=True))
    rows = Dataset.objects.filter(state=DatasetState.READY, source="selection").order_by("-id")
    found, left, room = [], 0, MOST_BYTES
    for number, dataset in enumerate(rows.defer("selection", "tokens").iterator(chunk_size=50)):
        if number >= MOST_DATASETS or dataset.bytes > room:
            left += 1
            continue
        room -= dataset.bytes
        touched = _touched(dataset, revisions, runs)
        if touched is None:
            left += 1
        elif touched:
            found.append(_line(dataset, touched))
    return {"found": found, "not_looked_at": left}


def _touched(dataset: Dataset, revisions: set[int], runs: set[int]) -> int | None:
    """How many rows are of these; None where the files cannot be read."""
    count = 0
    try:
        for side in ("train.jsonl", "test.jsonl"):
            with open_file(dataset, side) as file:
                for line in file:
                    head = _ID.search(line[:HEAD]) or _ID.search(line)
                    if head is not None:
                        count += int(head[2]) in (revisions if head[1] == b"revision" else runs)
    except (InputError, OSError):
        return None
    return count


def _line(dataset: Dataset, touched: int) -> dict[str, Any]:
    jobs = TrainingJob.objects.filter(dataset=dataset).order_by("-id").values("public_id", "name", "state")
    return {
        "id": dataset.public_id,
        "name": dataset.name,
        "kind": dataset.kind,
        "touched": touched,
        "rows": dataset.train_rows + dataset.test_rows,
        "jobs": list(jobs[:MOST_JOBS]),
        "job_count": TrainingJob.objects.filter(dataset=dataset).count(),
    }

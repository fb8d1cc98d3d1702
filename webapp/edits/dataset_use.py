"""Frozen datasets, and training jobs on them, with tasks or attempts that an edit affects."""

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
"""Number of bytes of dataset files that are read; the rest is counted."""
MOST_JOBS = 20
HEAD = 400
_ID = re.compile(rb'"id": "(revision|trajectory):(\d{1,18})[":]')


def find_affected_datasets(tasks: Collection[int]) -> dict[str, Any]:
    """Return `{found, not_looked_at}`: each dataset with its number of rows of these tasks, and its training jobs,
    newest first.

    An uploaded dataset holds rows of its uploader, and depends on no task here.
    """
    revisions = set(TaskRevision.objects.filter(task__in=tasks).values_list("pk", flat=True))
    runs = set(Trajectory.objects.filter(task__in=tasks).values_list("pk", flat=True))
    rows = Dataset.objects.filter(state=DatasetState.READY, source="selection").order_by("-id")
    using_datasets, not_looked_at, room = [], 0, MOST_BYTES
    for number, dataset in enumerate(rows.defer("selection", "tokens").iterator(chunk_size=50)):
        if number >= MOST_DATASETS or dataset.bytes > room:
            not_looked_at += 1
            continue
        room -= dataset.bytes
        touched = _count_touched_rows(dataset, revisions, runs)
        if touched is None:
            not_looked_at += 1
        elif touched:
            using_datasets.append(_describe_dataset(dataset, touched))
    return {"found": using_datasets, "not_looked_at": not_looked_at}


def _count_touched_rows(dataset: Dataset, revisions: set[int], runs: set[int]) -> int | None:
    """Count the rows that are of these revisions or attempts; None if the files cannot be read."""
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


def _describe_dataset(dataset: Dataset, touched: int) -> dict[str, Any]:
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

"""Arms of a comparison: jobs that differ by their seed alone."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from webapp.runs.models import TrainingJob
from webapp.runs.spec import AFTER

MOST_JOBS = 10
_SEED = re.compile(r"[\s,;:_-]*\bseed[\s=:_-]*\d+\b", re.IGNORECASE)


@dataclass(frozen=True)
class Arm:
    """Jobs that are the same but for their seed, in the order that they were named."""

    jobs: tuple[TrainingJob, ...]

    @property
    def name(self) -> str:
        """Name of the first job, without its seed if there are several jobs."""
        name = str(self.jobs[0])
        return (_SEED.sub("", name).strip(" ,") or name) if len(self.jobs) > 1 else name

    @property
    def label(self) -> str:
        """Name as a legend shows it."""
        return f"{self.name}, {len(self.jobs)} seeds" if len(self.jobs) > 1 else self.name

    @property
    def first(self) -> TrainingJob:
        return self.jobs[0]


def get_seed(job: TrainingJob) -> int:
    seed = (job.config or {}).get("seed", 0)
    return seed if type(seed) is int else 0


def get_first_model(job: TrainingJob) -> str:
    """Return the model that a job begins with; of one that waited for another job, the one that this made."""
    return f"ft:{job.after.public_id}" if job.model == AFTER and job.after is not None else job.model


def get_settings(job: TrainingJob) -> dict[str, Any]:
    """Return the settings of a job, without its seed and its place in the queue."""
    return {
        "method": job.method,
        "model": get_first_model(job),
        "dataset": job.dataset_id,
        "evaluation": job.evaluation_id,
        "engine": job.engine,
        "config": {name: value for name, value in (job.config or {}).items() if name != "seed"},
    }


def find_named_jobs(wanted: Iterable[str]) -> tuple[list[TrainingJob], list[str]]:
    """Return (jobs of these ids, ids that name none), each once and `MOST_JOBS` at most."""
    ids = list(dict.fromkeys(wanted))[:MOST_JOBS]
    rows = TrainingJob.objects.select_related("dataset", "evaluation", "after")
    rows = rows.defer("estimate", "result", "dataset__manifest")
    jobs_by_id = {job.public_id: job for job in rows.filter(public_id__in=ids)}
    return [jobs_by_id[name] for name in ids if name in jobs_by_id], [name for name in ids if name not in jobs_by_id]


def group_into_arms(jobs: Sequence[TrainingJob]) -> list[Arm]:
    """Group jobs by their settings. Two jobs with the same seed are in two arms: they are no further seed."""
    arms: dict[str, list[TrainingJob]] = {}
    for job in jobs:
        settings_key = json.dumps(get_settings(job), sort_keys=True)
        same_seed_count = sum(get_seed(job) == get_seed(other) for other in arms.get(settings_key, []))
        arms.setdefault(settings_key if not same_seed_count else f"{settings_key} {job.pk}", []).append(job)
    return [Arm(tuple(members)) for members in arms.values()]

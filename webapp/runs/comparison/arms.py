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
        """The first job's name, without its seed where there are several."""
        name = str(self.jobs[0])
        return (_SEED.sub("", name).strip(" ,") or name) if len(self.jobs) > 1 else name

    @property
    def label(self) -> str:
        """The name as a legend has it."""
        return f"{self.name}, {len(self.jobs)} seeds" if len(self.jobs) > 1 else self.name

    @property
    def first(self) -> TrainingJob:
        return self.jobs[0]


def seed_of(job: TrainingJob) -> int:
    seed = (job.config or {}).get("seed", 0)
    return seed if type(seed) is int else 0


def model_of(job: TrainingJob) -> str:
    """The model that a job begins with; of one that waited for another job, the one that this made."""
    return f"ft:{job.after.public_id}" if job.model == AFTER and job.after is not None else job.model


def settings_of(job: TrainingJob) -> dict[str, Any]:
    """What a job was told, its seed and its place in the queue left out."""
    return {
        "method": job.method,
        "model": model_of(job),
        "dataset": job.dataset_id,
        "evaluation": job.evaluation_id,
        "engine": job.engine,
        "config": {name: value for name, value in (job.config or {}).items() if name != "seed"},
    }


def named(wanted: Iterable[str]) -> tuple[list[TrainingJob], list[str]]:
    """(jobs of these ids, ids that name none), each once and `MOST_JOBS` at most."""
    ids = list(dict.fromkeys(wanted))[:MOST_JOBS]
    rows = TrainingJob.objects.select_related("dataset", "evaluation", "after")
    rows = rows.defer("estimate", "result", "dataset__manifest")
    known = {job.public_id: job for job in rows.filter(public_id__in=ids)}
    return [known[name] for name in ids if name in known], [name for name in ids if name not in known]


def arms_of(jobs: Sequence[TrainingJob]) -> list[Arm]:
    """The jobs by what they were told. Two jobs with the same seed stand in two arms: they are no further seed."""
    arms: dict[str, list[TrainingJob]] = {}
    for job in jobs:
        told = json.dumps(settings_of(job), sort_keys=True)
        again = sum(seed_of(job) == seed_of(other) for other in arms.get(told, []))
        arms.setdefault(told if not again else f"{told} {job.pk}", []).append(job)
    return [Arm(tuple(members)) for members in arms.values()]

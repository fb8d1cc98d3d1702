"""Workers that are killed, and what they are given to do: batches, clones and imports."""

from __future__ import annotations

import random
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from synthesis.stages import StageSettings
from tests.edits.seed import CHECKS, PROGRAM, environment_record, scenario_record
from tests.fixtures.processes import Running, start_celery_worker, wait_for
from tests.human_work.people import Person
from webapp.batches.models import Batch
from webapp.batches.spec import ROLES, SCRIPTED
from webapp.jobs import services
from webapp.jobs.models import OPEN_STATES, Job

THEME = "plant-nursery"
STAGES = StageSettings(
    scenarios=1, tasks=2, teacher_runs=1, conversational=False, assessment_calls=12, solver_runs=1, repairs=1,
    duplicate_pairs=0,
)  # fmt: skip
SETTINGS = {"models": dict.fromkeys(ROLES, SCRIPTED), "stages": STAGES.model_dump(mode="json")}
QUEUES = ("llm", "sandbox")
LEASE_S = "2"


@dataclass
class Workers:
    """A worker process for each queue; one that is killed is started again at once."""

    folder: Path
    running: dict[str, Running] = field(default_factory=dict)
    kills: int = 0

    def start(self, queue: str) -> None:
        name = f"{queue}-{self.kills}"
        self.running[queue] = start_celery_worker(
            self.folder, name, queue, ENVARIUM_JOB_LEASE_SECONDS=LEASE_S, OMP_NUM_THREADS="1"
        )

    def kill(self, luck: random.Random) -> str:
        queue = luck.choice(QUEUES)
        self.running[queue].kill()
        self.kills += 1
        self.start(queue)
        return queue

    def __enter__(self) -> Workers:
        for queue in QUEUES:
            self.start(queue)
        return self

    def __exit__(self, *_: object) -> None:
        with ExitStack() as stack:
            for one in self.running.values():
                stack.callback(one.kill)


def wait_for_job(pk: int, seconds: float = 60.0) -> str:
    """Wait until a job has ended, whichever workers are lost meanwhile."""

    def ended() -> str:
        services.reap_jobs()
        return Job.objects.filter(pk=pk).exclude(state__in=OPEN_STATES).values_list("state", flat=True).first() or ""

    return wait_for(ended, seconds=seconds, what=f"job {pk}")


def wait_for_batches(people: list[Person], seconds: float = 90.0) -> None:
    """Wait until every batch has ended; one that lost its workers too often is resumed, as a person would."""

    def ended() -> bool:
        services.reap_jobs()
        for batch in Batch.objects.filter(state__in=("failed", "paused")):
            people[0].ask("POST", f"/batches/{batch.pk}/resume", {})
        is_open = Batch.objects.exclude(state__in=("done", "cancelled")).exists()
        return not is_open and not Job.objects.filter(state__in=OPEN_STATES).exists()

    wait_for(ended, seconds=seconds, what=f"batches {list(Batch.objects.values_list('pk', 'state', 'note'))}")


def seed_files(changed: str = "") -> dict[str, Any]:
    """The seed library's files: as they came first, or with another program, or with other instructions."""
    program = PROGRAM.replace("All lots.", f"All lots. {changed}") if changed.startswith("program") else PROGRAM
    scenarios = [scenario_record(name) for name in CHECKS]
    if changed.startswith("tasks"):
        scenarios = [{**one, "task": f"{one['task']} {changed}"} for one in scenarios]
    return {"environments": [environment_record(program)], "scenarios": scenarios}

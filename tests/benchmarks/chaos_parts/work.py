"""Work that is done while processes are killed, round by round: started once, looked at until it ended, compared.

A round's start may be cut short by the database's end at any point, and is begun again: it is one transaction, and
finds what it made before. Django is set up before this is imported.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import httpx
import psycopg
from django.db import Error, close_old_connections, connection, connections, transaction

from synthesis.pipeline import ENVSCALER
from synthesis.scripted import list_bundled_themes
from tests.batches.engine import by_hand
from tests.fixtures.api import token_of
from tests.rollouts_web.support import endpoint_at, make_task
from tests.workers.training_support import SFT, datasets, series
from webapp.accounts.models import Role, User
from webapp.batches.models import Batch, BatchState
from webapp.batches.services import build_theme_spec, create_batch, resume_batch
from webapp.batches.spec import ROLES, SCRIPTED, BatchSettings
from webapp.jobs.models import OPEN_STATES, Job, JobState
from webapp.jobs.services import retry_job
from webapp.runs.control import resume_job
from webapp.runs.local.worker_process import ensure_token
from webapp.runs.models import CheckpointFile, TrainingJob, TrainingState
from webapp.runs.services import create_job
from webapp.runs.spec import DEMO_MODEL, NewJob
from webapp.scenarios.models import Task
from webapp.trajectories.models import Rollout

ANSWER_SECONDS = 300.0
STEPS = 24
T = TypeVar("T")
WIPE = "TRUNCATE environments_environment, batches_batch, batches_llmcall, batches_body CASCADE"


def surely(work: Callable[..., T], *given: Any, seconds: float = 300.0) -> T:
    """Do it again until the database is there for it."""
    until = time.monotonic() + seconds
    while True:
        try:
            return work(*given)
        except (Error, psycopg.Error):
            if time.monotonic() > until:
                raise
            close_old_connections()
            connections.close_all()
            time.sleep(0.3)


@dataclass
class Findings:
    """What a disturbed round came to beside the calm one. `said` are the first things that were wrong."""

    lost: int = 0
    doubled: int = 0
    equal: bool = True
    repeated: int = 0
    said: list[str] = field(default_factory=list)

    def lose(self, words: str, count: int = 1) -> None:
        self.lost += count
        self.said.append(f"lost: {words}"[:500])

    def double(self, words: str, count: int = 1) -> None:
        self.doubled += count
        self.said.append(f"doubled: {words}"[:500])

    def differ(self, words: str) -> None:
        self.equal = False
        self.said.append(f"differs: {words}"[:500])


class Stream(Protocol):
    """One kind of work; its rounds follow each other. `ended` plays the person who puts right what stands still, and
    notes it as lost; `compare` holds a round against the calm one."""

    name: str

    def start(self, number: int) -> None: ...
    def ended(self, number: int, findings: Findings) -> bool: ...
    def seen(self, number: int) -> dict[str, Any]: ...
    def compare(self, calm: dict[str, Any], seen: dict[str, Any], findings: Findings) -> None: ...


class Making:
    """A batch of scripted themes and rollouts at a task beside it: by a model over HTTP, a noisy reference, chance.

    The rollouts are asked for over the API, each again with its key until there is an answer.
    """

    name = "making"

    def __init__(self, count: int, attempts: int, model: str, site: str) -> None:
        self.count = count
        self.site = f"{site}/api/v1"
        self.answers: Counter[int] = Counter()
        model = f"{endpoint_at(model, max_concurrency=8, timeout_s=30).pk}/scripted-1"
        self.asked: list[dict[str, Any]] = [
            {"policy": "model", "model": model, "attempts": attempts},
            {"policy": "noisy", "noise": 0.4, "attempts": attempts, "seed": 1},
            {"policy": "random", "attempts": attempts, "seed": 1},
        ]
        self.token = token_of(User.objects.create_user("asker", role=Role.OPERATOR), "read", "synthesise")

    def start(self, number: int) -> None:
        self._begin(number)
        task = Task.objects.get(key=f"round-{number}")
        for place, body in enumerate(self.asked):
            headers = {"Authorization": f"Bearer {self.token}", "Idempotency-Key": f"{number}-{place}"}
            until = time.monotonic() + ANSWER_SECONDS
            while (status := self._post(f"/tasks/{task.pk}/rollouts", body, headers)) != 202:
                if time.monotonic() > until or (400 <= status < 500 and status != 409):
                    raise AssertionError(f"A rollout was answered with {status}, for the last time.")
                time.sleep(0.5)

    def _post(self, path: str, body: dict[str, Any], headers: dict[str, str]) -> int:
        """The status; 0 where there was no answer."""
        try:
            status = httpx.post(f"{self.site}{path}", json=body, headers=headers, timeout=20).status_code
        except httpx.TransportError:
            status = 0
        self.answers[status] += 1
        return status

    def _begin(self, number: int) -> None:
        with transaction.atomic():
            if Batch.objects.filter(name=f"Round {number}").exists():
                return
            with connection.cursor() as cursor:
                cursor.execute(WIPE)
            make_task(key=f"round-{number}")
            settings = BatchSettings(models=dict.fromkeys(ROLES, SCRIPTED), stages=by_hand.STAGES, lanes=2, at_once=4)
            specs = [build_theme_spec(draft) for draft in list_bundled_themes()[: self.count]]
            create_batch(None, f"Round {number}", specs, settings, ENVSCALER)

    def ended(self, number: int, findings: Findings) -> bool:
        batch = Batch.objects.get(name=f"Round {number}")
        if batch.state in (BatchState.FAILED, BatchState.PAUSED):
            findings.lose(f"round {number}: the batch stands still: {batch.note}")
            resume_batch(None, batch.pk)
            return False
        jobs = Job.objects.filter(rollout__isnull=False)
        for job in jobs.filter(state=JobState.FAILED):
            findings.lose(f"round {number}: {job.title}: {job.error}")
            retry_job(job.pk)
        return batch.state == BatchState.DONE and not Job.objects.filter(state__in=OPEN_STATES).exists()

    def seen(self, number: int) -> dict[str, Any]:
        found = by_hand.seen(Batch.objects.get(name=f"Round {number}").pk)
        found["rows"]["Rollout"] = Rollout.objects.count()
        found["attempts"] = [line for rollout in Rollout.objects.order_by("pk") for line in self._attempts(rollout)]
        return found

    def _attempts(self, rollout: Rollout) -> list[tuple[Any, ...]]:
        fields = ("outcome", "reward", "final_hash", "step_count", "live")
        wanted = ("ordinal", "state", *(f"trajectory__{name}" for name in fields))
        return [(rollout.policy, *line) for line in rollout.attempts.order_by("ordinal").values_list(*wanted)]

    def compare(self, calm: dict[str, Any], seen: dict[str, Any], findings: Findings) -> None:
        findings.repeated += (seen["requests"] or 0) - seen["calls"]
        if seen["items"] != seen["paths"]:
            findings.double("items of a path", seen["items"] - seen["paths"])
        for name, count in calm["rows"].items():
            if (more := seen["rows"][name] - count) > 0:
                findings.double(f"rows of {name}", more)
            elif more < 0:
                findings.lose(f"rows of {name}", -more)
        for name in ("content", "attempts"):
            mine, theirs = Counter(map(repr, seen[name])), Counter(map(repr, calm[name]))
            if mine != theirs:
                findings.differ(f"{name}: {list(mine - theirs)[:2]} for {list(theirs - mine)[:2]}")
        for line in seen["attempts"]:
            if line[2] != "done":
                findings.lose(f"attempt {line}")
        for name in ("counts", "keys", "kept", "products"):
            if seen[name] != calm[name]:
                findings.differ(f"{name} of the batch")


class Training:
    """A small SFT job by the worker beside the site."""

    name = "training"

    def __init__(self) -> None:
        ensure_token()
        self.user = User.objects.create_user("chaos", password="a long password", role=Role.OPERATOR)
        self.lessons, self.tasks = datasets(self.user)

    def start(self, number: int) -> None:
        if TrainingJob.objects.filter(name=f"Round {number}").exists():
            return
        # 24 lessons in batches of 8: three steps an epoch.
        changes = SFT | {"epochs": STEPS / 3, "limits": {"checkpoint_every": 2}}
        new = NewJob(
            name=f"Round {number}", method="supervised", model=DEMO_MODEL, dataset=self.lessons.public_id,
            evaluation=self.tasks.public_id, preset="demo-sft", changes=changes,
        )  # fmt: skip
        create_job(new, self.user)

    def ended(self, number: int, findings: Findings) -> bool:
        job = TrainingJob.objects.get(name=f"Round {number}")
        if job.state == TrainingState.PAUSED:
            findings.lose(f"round {number}: the training job stands still: {job.reason}")
            resume_job(job, self.user)
        return job.state in (TrainingState.SUCCEEDED, TrainingState.FAILED, TrainingState.CANCELLED)

    def seen(self, number: int) -> dict[str, Any]:
        job = TrainingJob.objects.get(name=f"Round {number}")
        files = CheckpointFile.objects.filter(checkpoint__job=job, checkpoint__final=True, checkpoint__state="ready")
        return {
            "state": job.state,
            "error": job.error,
            "attempts": job.attempt,
            "curve": series(job, "loss"),
            "model": sorted(files.filter(path__endswith=".safetensors").values_list("path", "sha256")),
        }

    def compare(self, calm: dict[str, Any], seen: dict[str, Any], findings: Findings) -> None:
        if seen["state"] != TrainingState.SUCCEEDED:
            findings.lose(f"the training job {seen['state']} at attempt {seen['attempts']}: {seen['error']}")
            return
        mine, theirs = Counter(step for step, _ in seen["curve"]), Counter(step for step, _ in calm["curve"])
        if more := (mine - theirs).total():
            findings.double("points of the loss", more)
        if fewer := (theirs - mine).total():
            findings.lose("points of the loss", fewer)
        for name in ("curve", "model"):
            if seen[name] != calm[name]:
                findings.differ(f"{name}: {seen[name]} for {calm[name]}")

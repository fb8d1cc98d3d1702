"""Checkpoints that can be served, and a worker that serves them, without processes."""

from __future__ import annotations

from typing import Any

from django.core.files.base import ContentFile
from django.core.files.storage import default_storage

from tests.workers.worker_support import FINAL, WorkerProgram, operator, queued
from webapp.accounts.models import User
from webapp.endpoints.key_encryption import decrypt_key
from webapp.endpoints.served_models import find_served_endpoint
from webapp.runs.models import Checkpoint, CheckpointState, TrainingJob, TrainingState
from webapp.workers.models import Deployment
from webapp.workers.serving import deployments

ADAPTERS = {"adapter_model.safetensors": b"w", "adapter_config.json": b"{}"}


def checkpoint(job: TrainingJob, step: int, files: dict[str, bytes] = FINAL, *, final: bool = False) -> Checkpoint:
    """A whole checkpoint of a job, its files in the store."""
    row = Checkpoint.objects.create(job=job, attempt=1, step=step, final=final, state=CheckpointState.READY)
    for path, content in files.items():
        stored = default_storage.save(f"checkpoints/{row.public_id}/{path}", ContentFile(content))
        row.files.create(path=path, bytes=len(content), sha256="0" * 64, received=len(content), stored=stored)
    return row


def trained(**files: Any) -> TrainingJob:
    """A job that is done, with a checkpoint of step 2 and a finished model."""
    job = queued(state=TrainingState.SUCCEEDED)
    checkpoint(job, 2, **files)
    checkpoint(job, 3, final=True)
    return job


class ServingProgram(WorkerProgram):
    """A worker that serves, as the API hears it."""

    def __init__(self, name: str = "server-1", user: User | None = None) -> None:
        super().__init__(user or operator())
        self.name = name
        self.told: dict[str, Any] = {}

    def claim(self) -> dict[str, Any]:
        """Register and claim; {} where nothing waits."""
        id = self.post("/training/workers", {"name": self.name, "host": "box", "pid": 7, "serves": 1}).json()["id"]
        answer = self.post(f"/training/workers/{id}/deployments/claim")
        assert answer.status_code in (200, 204), answer.content
        self.id = id
        self.told = answer.json() if answer.status_code == 200 else {}
        return self.told

    def at(self, rest: str) -> str:
        return f"/training/deployments/{self.told['deployment']}/attempts/{self.told['attempt']}/{rest}"

    def beat(self, **said: Any) -> Any:
        return self.post(self.at("beat"), {"ready": True, "engine": "transformers 5", **said})

    def take(self, wait_s: float = 0.0) -> list[dict[str, Any]]:
        answer = self.post(self.at(f"requests?wait_s={wait_s}&most=4"))
        assert answer.status_code == 200, answer.content
        requests: list[dict[str, Any]] = answer.json()["requests"]
        return requests


def served(job: TrainingJob, step: int | None = None, *, by: ServingProgram | None = None) -> tuple[Deployment, Any]:
    """A deployment that is ready, and its worker."""
    name = f"ft:{job.public_id}" + (f":step-{step}" if step else "")
    row = deployments.start_deployment(operator(), name, deployments.ServeWish())
    worker = by or ServingProgram()
    worker.claim()
    assert worker.beat().status_code == 204
    row.refresh_from_db()
    return row, worker


def own_key() -> str:
    row = find_served_endpoint()
    assert row is not None
    return decrypt_key(row.sealed_key)

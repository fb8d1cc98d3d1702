"""Train, serve, roll out, freeze, train again, with real workers; and the serving one is killed with a request under
way, which is answered that it may be asked again, while another worker takes the model over."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from django.conf import LazySettings
from django.test import Client

pytest.importorskip("torch")
pytest.importorskip("trl")

from synthesis.runtime import get_default_sandbox
from tests.datasets.dataset_support import carry_out
from tests.fixtures.processes import Running, wait_for
from tests.rollouts_web.test_jobs import run
from tests.workers.serving_support import own_key
from tests.workers.training_support import Site, ended, start_worker
from training.dataset import Split
from webapp.accounts.models import Role, User
from webapp.datasets.models import Dataset
from webapp.datasets.selection import DatasetSelection
from webapp.datasets.services import create_dataset
from webapp.endpoints.queries import list_model_choices
from webapp.jobs.context import JobContext
from webapp.jobs.models import Job
from webapp.jobs.services import claim_job
from webapp.runs import control
from webapp.runs.local import demo_rows
from webapp.runs.local.demo import train_demo
from webapp.runs.models import TrainingJob, TrainingState
from webapp.runs.services import create_job
from webapp.runs.spec import NewJob
from webapp.scenarios.models import Task
from webapp.trajectories.models import Rollout, Trajectory
from webapp.trajectories.rollouts.attempt_writer import SOURCE
from webapp.workers.models import Deployment
from webapp.workers.serving import deployment_claims

pytestmark = [pytest.mark.kill, pytest.mark.django_db(transaction=True)]
LEASE_S = 20
EPOCHS = 60


@pytest.fixture
def operator(transactional_db: None) -> User:
    return User.objects.create_user("olga", password="a long password", role=Role.OPERATOR)


def taught(operator: User) -> TrainingJob:
    """The demo's SFT job on few tasks, whose rows are here, for so long that it knows its lessons by heart."""
    sft, rl = train_demo(operator, seed=0)
    held = claim_job(Job.objects.filter(kind=demo_rows.KIND).latest("pk").pk, "test")
    assert held is not None
    demo_rows.prepare_demo(JobContext.of(held), get_default_sandbox())
    rl.refresh_from_db()
    control.cancel_job(rl, operator)
    job = TrainingJob.objects.get(pk=sft.pk)
    TrainingJob.objects.filter(pk=job.pk).update(config=job.config | {"epochs": EPOCHS})
    return job


def train(job: TrainingJob, site: Site, operator: User, home: Path) -> None:
    running = start_worker(site.url, operator, home, "--once", "--name", "trainer")
    try:
        assert ended(job, running.log) == TrainingState.SUCCEEDED, (job.error, running.log.read_text())
    finally:
        running.kill()


def state_of(deployment: Deployment) -> str:
    deployment_claims.reap_deployments()
    deployment.refresh_from_db()
    return str(deployment.state)


def ready(deployment: Deployment, running: Running) -> Deployment:
    def is_ready() -> bool:
        assert state_of(deployment) != "failed", (deployment.reason, deployment.log)
        return deployment.state == "ready"

    wait_for(is_ready, seconds=300, what=f"a served model: {running.log.read_text()[-1500:]}")
    return deployment


def server_of(running: Running) -> psutil.Process:
    below = psutil.Process(running.pid).children(recursive=True)
    return next(one for one in below if one.cmdline()[1:3] == ["-m", "training.chat_server"])


def rolled_out(client: Client, task: Task, value: str) -> list[Trajectory]:
    """An attempt of a served model, started on the task's page."""
    form = {"who": f"model:{value}", "attempts": "1", "temperature": "0"}
    answer = client.post(f"/trajectories/run/{task.pk}/start/", form)
    assert answer.status_code == 302, answer.content.decode()[:3000]
    rollout = Rollout.objects.latest("pk")
    run(rollout)
    return list(Trajectory.objects.filter(pk__in=rollout.attempts.values("trajectory")))


def asked(site: Site, model: str, answers: list[httpx.Response]) -> threading.Thread:
    def ask() -> None:
        body = {"model": model, "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 5}
        headers = {"Authorization": f"Bearer {key}"}
        answers.append(
            httpx.post(f"{site.url}/api/v1/serving/v1/chat/completions", json=body, headers=headers, timeout=300)
        )

    key = own_key()
    thread = threading.Thread(target=ask)
    thread.start()
    return thread


def test_train_serve_roll_out_freeze_and_train_again_with_a_kill(
    operator: User, tmp_path: Path, settings: LazySettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo_rows, "EACH", 3)
    settings.TRAINING_LEASE_SECONDS = LEASE_S
    monkeypatch.setenv("ENVARIUM_TRAINING_LEASE_SECONDS", str(LEASE_S))
    site, client = Site(tmp_path), Client()
    settings.SITE_URL = site.url
    client.force_login(operator)
    servers: list[Running] = []
    try:
        first = taught(operator)
        train(first, site, operator, tmp_path / "trainer")
        page = client.get(f"/training/served/of-job/{first.public_id}/").content.decode()
        assert "No worker serves models now" in page
        form = {"model": f"ft:{first.public_id}", "at_once": "4", "context": "0", "memory_share": "0.5"}
        assert client.post(f"/training/served/of-job/{first.public_id}/start/", form).status_code == 302
        row = Deployment.objects.get()
        servers.append(start_worker(site.url, operator, tmp_path / "s1", "--serve", "--name", "anna"))
        ready(row, servers[0])
        [choice] = list_model_choices()
        assert choice.model == row.model
        lessons = Trajectory.objects.exclude(source=SOURCE).values("task")
        shown = list(Task.objects.filter(pk__in=lessons).order_by("pk")[:5])
        made = [one for task in shown[:4] for one in rolled_out(client, task, choice.value)]
        assert len(made) == 4
        lost_with_its_worker(site, row, servers[0])
        servers.append(start_worker(site.url, operator, tmp_path / "s2", "--serve", "--name", "bela"))
        assert (ready(row, servers[1]).attempt, row.worker_name) == (2, "bela")
        made += rolled_out(client, shown[4], choice.value)
        assert all(one.outcome and one.outcome != "infra_error" for one in made), [one.outcome for one in made]
        assert client.post(f"/training/served/{row.public_id}/stop/").status_code == 302
        server = server_of(servers[1])
        server.wait(120)
        assert list_model_choices() == []
        train(again(first, operator, len(made)), site, operator, tmp_path / "trainer")
    finally:
        for running in servers:
            running.kill()
        site.kill()


def lost_with_its_worker(site: Site, row: Deployment, running: Running) -> None:
    """A request waits at a server that stands still when its worker is killed: it is answered, and the server ends."""
    server = server_of(running)
    os.kill(server.pid, signal.SIGSTOP)
    answers: list[httpx.Response] = []
    thread = asked(site, row.model, answers)
    failures = row.failures
    wait_for(lambda: is_held(row), seconds=60, what="a request under way")
    os.kill(running.pid, signal.SIGKILL)
    running.process.wait()
    server.wait(120)
    wait_for(lambda: state_of(row) == "starting", seconds=120, what="a lease that is over")
    assert row.shown_state == "away"
    thread.join(60)
    [answer] = answers
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "model_away")
    assert answer.headers["Retry-After"]
    row.refresh_from_db()
    assert row.failures == failures + 1


def is_held(row: Deployment) -> bool:
    from django.conf import settings

    from webapp.common.broker import make_client

    with make_client(settings.BROKER_URL) as broker:
        return any(True for _ in broker.scan_iter(match=f"envarium:serving:{row.public_id}:*:held"))


def again(first: TrainingJob, operator: User, count: int) -> TrainingJob:
    """SFT of the served model on what it did itself."""
    choice = DatasetSelection(kind="trajectories", source=SOURCE, least_reward=0)
    dataset: Dataset = carry_out(create_dataset(operator, choice, Split(unit="task", test_share=0, seed=0)))
    assert 1 <= dataset.train_rows <= count
    changes: dict[str, Any] = {"epochs": 1, "batch": 2, "evaluation": {"tasks": 2, "turns": 1}}
    new = NewJob(
        method="supervised",
        model=f"ft:{first.public_id}",
        dataset=dataset.public_id,
        preset="demo-sft",
        changes=changes,
    )
    job = create_job(new, operator)
    assert job.state == TrainingState.QUEUED, job.reason
    return job

"""The worker for training beside the site: its account and token, its process, its place in a run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest
from django.core.management import call_command
from django.utils import timezone

from tests.fixtures.processes import ROOT, Running, celery_worker, child_environment, wait_for
from webapp.accounts.models import ApiToken, User
from webapp.accounts.tokens import find_token, list_granted_scopes, revoke_token
from webapp.celery import QUEUES, REQUIRED_QUEUES, app
from webapp.datasets.models import Dataset, DatasetState
from webapp.runs.local import installation, worker_process
from webapp.runs.models import TrainingJob, TrainingState
from webapp.stack import config, services
from webapp.stack.errors import StackError
from webapp.stack.home import Home
from webapp.stack.process import Service
from webapp.stack.supervisor import Supervisor

OBEDIENT = """
import signal, sys, time
def end(number, frame):
    open(sys.argv[1], "a").write("asked\\n")
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
open(sys.argv[1], "w").write("up\\n")
while True:
    time.sleep(0.1)
"""


@pytest.fixture
def home(tmp_path: Path, settings: Any) -> Path:
    settings.ENVARIUM_HOME = tmp_path
    (tmp_path / "run").mkdir()
    return tmp_path


@pytest.mark.django_db
def test_the_worker_has_an_account_that_nobody_logs_in_with_and_a_token_for_work_alone(home: Path) -> None:
    assert worker_process.ensure_token()
    user = User.objects.get(username=worker_process.USERNAME)
    assert not user.has_usable_password()
    token = find_token((home / "worker-token").read_text().strip())
    assert isinstance(token, ApiToken)
    assert list_granted_scopes(token) == {"worker"}
    assert (home / "worker-token").stat().st_mode & 0o777 == 0o600
    assert not worker_process.ensure_token()
    assert ApiToken.objects.count() == 1


@pytest.mark.django_db
def test_a_token_that_is_worth_nothing_soon_is_replaced(home: Path) -> None:
    worker_process.ensure_token()
    first = ApiToken.objects.get()
    ApiToken.objects.update(expires_at=timezone.now() + timedelta(days=1))
    assert worker_process.ensure_token()
    second = ApiToken.objects.exclude(pk=first.pk).get()
    revoke_token(second, second.user)
    assert worker_process.ensure_token()
    (home / "worker-token").write_text("rubbish")
    assert worker_process.ensure_token()
    assert isinstance(find_token((home / "worker-token").read_text().strip()), ApiToken)


@pytest.mark.django_db
def test_an_account_that_was_shut_stays_shut(home: Path) -> None:
    worker_process.ensure_token()
    User.objects.filter(username=worker_process.USERNAME).update(is_active=False)
    (home / "worker-token").unlink()
    assert not worker_process.ensure_token()
    assert not (home / "worker-token").exists()


@pytest.mark.django_db
def test_training_that_is_off_gets_no_token_and_installs_nothing(home: Path, settings: Any) -> None:
    settings.TRAINING = False
    call_command("prepare_training")
    assert not (home / "worker-token").exists()
    assert not User.objects.filter(username=worker_process.USERNAME).exists()


@pytest.mark.django_db
def test_a_first_start_in_a_process_of_its_own_can_queue_the_installation() -> None:
    """Only a fresh process shows that the command itself knows the kind of job which it creates."""
    code = (
        "import django; django.setup()\n"
        "from django.core.management import load_command_class\n"
        "load_command_class('webapp.runs', 'prepare_training')\n"
        "from webapp.jobs.registry import KINDS\n"
        "assert 'install_training' in KINDS, sorted(KINDS)"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], env=child_environment(), cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stderr[-2000:]


def test_the_switch_is_on_unless_a_person_says_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ENVARIUM_TRAINING", raising=False)
    assert config.read_config().training
    monkeypatch.setenv("ENVARIUM_TRAINING", "off")
    found = config.read_config()
    assert not found.training
    children = config.build_child_environment(found, "postgresql:///x", "redis://", "s" * 40)
    assert (children["ENVARIUM_TRAINING"], children["ENVARIUM_URL"]) == ("off", found.url)
    monkeypatch.setenv("ENVARIUM_TRAINING", "perhaps")
    with pytest.raises(StackError, match="use on or off"):
        config.read_config()


def test_the_queue_of_training_is_nobodys_condition_for_being_well() -> None:
    assert services.GPU in QUEUES
    assert services.GPU not in REQUIRED_QUEUES
    assert services.GPU not in services.WORKERS


def test_services_for_later_come_up_by_themselves_and_are_stopped_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = Home(tmp_path)
    found.prepare()
    first, later = (Service(name, ["/bin/sleep", "60"], lambda: True) for name in ("first", "later"))
    supervisor = Supervisor(found)
    supervisor.start([first], "first")
    supervisor.later([later])
    assert not (found.records / "later.json").exists()
    supervisor.tend()
    assert (found.records / "later.json").exists()
    supervisor.stop()
    said = capsys.readouterr().out
    assert 0 < said.index("later stopped") < said.index("first stopped")


@pytest.fixture
def obedient(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A process in the worker's place that says how it ended."""
    mark = home / "mark"
    monkeypatch.setattr(worker_process, "build_command", lambda serves=0: [sys.executable, "-c", OBEDIENT, str(mark)])
    return mark


@pytest.mark.django_db
def test_what_interrupts_the_wait_asks_the_worker_to_end(obedient: Path, home: Path) -> None:
    """As a time limit or a stop does, wherever it falls."""

    def interrupt(number: int, frame: object) -> None:
        if obedient.exists() and obedient.read_text():
            assert (home / "run" / "training-worker.json").exists()
            raise TimeoutError

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.2, 0.2)
    try:
        with pytest.raises(TimeoutError):
            worker_process.run_worker()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert obedient.read_text() == "up\nasked\n"
    assert not (home / "run" / "training-worker.json").exists()


def test_the_worker_is_told_its_token_by_a_file_and_knows_no_secret_of_the_site(home: Path) -> None:
    given = worker_process.build_command()
    assert given[given.index("--token-file") + 1] == str(home / "worker-token")
    assert not {"DATABASE_URL", "BROKER_URL", "ENVARIUM_SECRET_KEY"} & set(worker_process.build_environment())


@pytest.fixture
def waiting_job(transactional_db: None) -> TrainingJob:
    dataset = Dataset.objects.create(name="d", kind="tasks", state=DatasetState.READY)
    return TrainingJob.objects.create(
        method="reinforcement", model="envarium-demo", dataset=dataset, state=TrainingState.QUEUED
    )


@pytest.fixture
def busy(waiting_job: TrainingJob, tmp_path: Path) -> Iterator[tuple[Running, psutil.Process]]:
    """A real Celery worker whose training worker waits for a site that is away, and that training worker."""
    pytest.importorskip("torch")
    if installation.list_missing_requirements():
        pytest.skip(f"training is not installed: {installation.list_missing_requirements()}")
    (tmp_path / "worker-token").write_text("envr_0000_0000\n")
    more = {"ENVARIUM_HOME": str(tmp_path), "ENVARIUM_URL": "http://127.0.0.1:9"}
    with celery_worker(tmp_path, "gpu", "gpu", **more) as running:
        app.send_task("runs.work", queue="gpu")
        yield running, wait_for(lambda: _below(running.pid), seconds=60, what="the training worker")


def _below(pid: int) -> psutil.Process | None:
    for child in psutil.Process(pid).children(recursive=True):
        try:
            if worker_process.MODULE in child.cmdline():
                return child
        except psutil.Error:
            continue
    return None


def _gone(process: psutil.Process) -> bool:
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


@pytest.mark.kill
def test_a_stop_of_the_queue_ends_the_training_worker_and_waits_for_it(busy: tuple[Running, psutil.Process]) -> None:
    running, worker = busy
    assert os.getpgid(worker.pid) == worker.pid
    running.process.send_signal(signal.SIGTERM)
    wait_for(lambda: running.process.poll() is not None, seconds=60, what="the queue's end")
    assert _gone(worker)


@pytest.mark.kill
def test_the_training_worker_does_not_outlive_a_killed_queue(busy: tuple[Running, psutil.Process]) -> None:
    running, worker = busy
    running.kill()
    wait_for(lambda: _gone(worker), seconds=60, what="the training worker's end")

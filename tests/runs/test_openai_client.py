"""The stock `openai` client against the site under uvicorn: all it does with files and fine-tuning jobs."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import openai
import pytest
from django.utils import timezone

from tests.fixtures import pages_seed
from tests.fixtures.api import token_of
from tests.fixtures.processes import ROOT
from tests.runs.job_support import LESSON, frozen, jsonl, lessons, tasks, taught
from webapp.runs.models import (
    Checkpoint,
    CheckpointState,
    MetricKey,
    MetricPoint,
    TrainingEvent,
    TrainingJob,
    TrainingState,
)

pytestmark = pytest.mark.django_db(transaction=True)
SFT: Any = {"type": "supervised", "supervised": {"hyperparameters": {"n_epochs": 2, "batch_size": 4}}}


@pytest.fixture
def address(transactional_db: None, site_process: str) -> str:
    return f"{site_process}/api/v1"


@pytest.fixture
def client(address: str) -> openai.OpenAI:
    token = token_of(pages_seed.person("researcher"), "read", "train")
    return openai.OpenAI(base_url=address, api_key=token, max_retries=0)


def create(client: openai.OpenAI, data: str, **more: Any) -> Any:
    return client.fine_tuning.jobs.create(**{"model": "envarium-demo", "training_file": data, "method": SFT, **more})


def test_a_jobs_whole_life(client: openai.OpenAI) -> None:
    data = frozen(lessons())
    job = create(client, data.public_id, suffix="first", seed=7, metadata={"run": "a"})
    assert (job.object, job.status, job.seed, job.metadata) == ("fine_tuning.job", "queued", 7, {"run": "a"})
    assert job.training_file == data.public_id
    assert job.method is not None
    assert job.method.supervised is not None
    assert job.method.supervised.hyperparameters is not None
    assert job.method.supervised.hyperparameters.n_epochs == 2
    assert job.fine_tuned_model is job.finished_at is job.error is None
    assert job.to_dict()["envarium"]["total_steps"] == 5
    assert client.fine_tuning.jobs.retrieve(job.id) == job
    assert client.fine_tuning.jobs.pause(job.id).to_dict()["status"] == "paused"
    assert client.fine_tuning.jobs.resume(job.id).status == "queued"
    cancelled = client.fine_tuning.jobs.cancel(job.id)
    assert cancelled.status == "cancelled"
    assert cancelled.finished_at is not None
    told = client.fine_tuning.jobs.list_events(job.id).data
    assert told[-1].message == f"Created fine-tuning job: {job.id}"
    assert told[0].object == "fine_tuning.job.event"
    assert {event.type for event in told} == {"message"}


def test_lists_are_paged_by_the_client_itself(client: openai.OpenAI) -> None:
    data = frozen(lessons()).public_id
    made = [create(client, data, metadata={"n": str(number % 2)}).id for number in range(5)]
    assert [job.id for job in client.fine_tuning.jobs.list(limit=2)] == made[::-1]
    first = client.fine_tuning.jobs.list(limit=5)
    assert (len(first.data), first.has_more) == (5, False)
    even = client.fine_tuning.jobs.list(limit=1, metadata={"n": "0"})
    assert [job.id for job in even] == [made[4], made[2], made[0]]
    row = TrainingJob.objects.get(public_id=made[0])
    for number in range(7):
        TrainingEvent.objects.create(job=row, message=f"event {number}", at=timezone.now())
    told = [event.message for event in client.fine_tuning.jobs.list_events(made[0], limit=3)]
    assert told[:7] == [f"event {number}" for number in reversed(range(7))]
    assert len(told) == TrainingEvent.objects.filter(job=row).count()


def test_checkpoints_carry_the_numbers_of_their_step(client: openai.OpenAI) -> None:
    job = create(client, frozen(lessons()).public_id)
    row = TrainingJob.objects.get(public_id=job.id)
    key = MetricKey.objects.create(job=row, name="loss", last_step=4)
    for step, final, gone in ((2, False, False), (3, False, True), (4, False, False), (4, True, False)):
        Checkpoint.objects.create(
            job=row, attempt=1, step=step, final=final, superseded=gone, state=CheckpointState.READY
        )
        MetricPoint.objects.get_or_create(key=key, attempt=1, step=step, defaults={"value": step / 10})
    found = list(client.fine_tuning.jobs.checkpoints.list(job.id, limit=1))
    assert [one.step_number for one in found] == [4, 4, 2]
    assert [one.fine_tuned_model_checkpoint for one in found] == [
        f"ft:{job.id}", f"ft:{job.id}:step-4", f"ft:{job.id}:step-2"
    ]  # fmt: skip
    assert found[2].metrics.train_loss == 0.2
    assert found[2].metrics.step == 2


def test_a_job_that_failed_says_why(client: openai.OpenAI) -> None:
    job = create(client, frozen(lessons()).public_id)
    said = {"error": "Out of memory", "error_code": "memory", "error_param": "optimiser.micro_batch"}
    TrainingJob.objects.filter(public_id=job.id).update(
        state=TrainingState.FAILED, finished_at=timezone.now() + timedelta(seconds=1), **said
    )
    found = client.fine_tuning.jobs.retrieve(job.id)
    assert found.status == "failed"
    assert found.error is not None
    assert (found.error.code, found.error.message, found.error.param) == tuple(
        said[name] for name in ("error_code", "error", "error_param")
    )


def test_files(client: openai.OpenAI, tmp_path: Path) -> None:
    content = jsonl(lessons(3))
    path = tmp_path / "train.jsonl"
    path.write_bytes(content)
    file = client.files.create(file=path, purpose="fine-tune")
    assert (file.object, file.filename, file.bytes, file.status) == ("file", "train.jsonl", len(content), "processed")
    others = [client.files.create(file=(f"{n}.jsonl", content), purpose="fine-tune").id for n in range(3)]
    assert [one.id for one in client.files.list(limit=2)] == [*others[::-1], file.id]
    assert [one.id for one in client.files.list(limit=2, order="asc")] == [file.id, *others]
    assert client.files.retrieve(file.id) == file
    assert client.files.content(file.id).read() == content
    job = create(client, file.id)
    assert job.status == "validating_files"
    assert job.training_file.startswith("ds-")
    with pytest.raises(openai.ConflictError, match="dataset"):
        client.files.delete(file.id)
    assert client.files.delete(others[0]).deleted
    with pytest.raises(openai.NotFoundError):
        client.files.content(others[0])


def test_a_wrong_key_and_a_key_without_the_right(address: str, client: openai.OpenAI) -> None:
    wrong = openai.OpenAI(base_url=address, api_key="envr_no_such", max_retries=0)
    with pytest.raises(openai.AuthenticationError, match="token"):
        wrong.fine_tuning.jobs.list()
    reader = openai.OpenAI(base_url=address, api_key=token_of(pages_seed.person("viewer"), "read"), max_retries=0)
    assert reader.fine_tuning.jobs.list().data == []
    with pytest.raises(openai.PermissionDeniedError, match="train"):
        create(reader, "ds-none")


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"model": "gpt-none"}, "model"),
        ({"training_file": "ds-none"}, "training_file"),
        ({"training_file": "file-none"}, "training_file"),
        ({"validation_file": "ds-none"}, "validation_file"),
        (
            {"method": {"type": "supervised", "supervised": {"hyperparameters": {"n_epochs": 0}}}},
            "method.supervised.hyperparameters.n_epochs",
        ),
        (
            {"method": {"type": "supervised", "supervised": {"hyperparameters": {"batch_size": "big"}}}},
            "method.supervised.hyperparameters.batch_size",
        ),
        ({"method": {"type": "supervised", "supervised": {"preset": "none"}}}, "method.supervised.preset"),
        (
            {"method": {"type": "supervised", "supervised": {"changes": {"optimiser": {"learning_rate": -1}}}}},
            "method.supervised.changes.optimiser.learning_rate",
        ),
        ({"method": {"type": "dpo"}}, "method.type"),
        ({"method": {"type": "reinforcement", "reinforcement": {"grader": {}}}}, "method.reinforcement.grader"),
        ({"extra_body": {"after": "ftjob-none"}}, "after"),
        ({"integrations": []}, "integrations"),
    ],
)
def test_what_is_wrong_is_said_with_its_param(client: openai.OpenAI, more: dict[str, Any], param: str) -> None:
    with pytest.raises(openai.UnprocessableEntityError) as refusal:
        create(client, **{"data": frozen(lessons()).public_id, **more})
    error = refusal.value
    assert error.param == param
    assert error.type == "invalid_request_error"
    assert isinstance(error.body, dict)
    assert len(error.body["message"]) > 10
    assert error.body["message"] in str(error)


def test_what_is_not_there_and_what_cannot_be_done(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="ftjob-none"):
        client.fine_tuning.jobs.retrieve("ftjob-none")
    with pytest.raises(openai.BadRequestError, match="after"):
        client.fine_tuning.jobs.list(after="ftjob-none")
    job = create(client, frozen(lessons()).public_id)
    client.fine_tuning.jobs.cancel(job.id)
    with pytest.raises(openai.ConflictError, match="was cancelled"):
        client.fine_tuning.jobs.cancel(job.id)


def test_a_dry_run_stores_nothing_and_repeats_do_it_once(client: openai.OpenAI) -> None:
    data = frozen(tasks(), test_share=0.3).public_id
    method = {"type": "reinforcement", "reinforcement": {"hyperparameters": {"eval_interval": 5}}}
    asked = {"method": method, "model": taught()}
    before = TrainingJob.objects.count()
    for how in ({"extra_body": {"dry_run": True}}, {"extra_query": {"dry_run": "true"}}):
        found = create(client, data, **asked, **how).to_dict()
        assert (found["object"], found["ok"], found["steps"]) == ("fine_tuning.preflight", True, 40)
        assert found["config"]["evaluation"]["every"] == 5
    assert TrainingJob.objects.count() == before
    once = {"extra_headers": {"Idempotency-Key": "one"}}
    assert create(client, data, **asked, **once).id == create(client, data, **asked, **once).id
    assert TrainingJob.objects.count() == before + 1


def test_rates_are_multiplied_and_nothing_is_said_twice(client: openai.OpenAI) -> None:
    data = frozen(lessons()).public_id
    plain = create(client, data, extra_body={"dry_run": True}).to_dict()["config"]["optimiser"]["learning_rate"]
    twice = {
        "type": "supervised",
        "supervised": {"hyperparameters": {"learning_rate_multiplier": 2, "n_epochs": "auto"}},
    }
    found = create(client, data, method=twice, extra_body={"dry_run": True}).to_dict()
    assert found["config"]["optimiser"]["learning_rate"] == pytest.approx(2 * plain)
    old = create(client, data, method=None, hyperparameters={"n_epochs": 3}, extra_body={"dry_run": True}).to_dict()
    assert old["config"]["epochs"] == 3
    both = {"hyperparameters": {"n_epochs": 3}, "changes": {"epochs": 4.0}}
    with pytest.raises(openai.UnprocessableEntityError, match="keep one"):
        create(client, data, method={"type": "supervised", "supervised": both})


def test_the_script_of_the_readme_runs_as_it_is(address: str, tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    path.write_bytes(jsonl([LESSON] * 20))
    token = token_of(pages_seed.person("researcher"), "read", "train")
    environment = {**os.environ, "OPENAI_BASE_URL": address, "OPENAI_API_KEY": token}
    command = [sys.executable, str(ROOT / "docs" / "train_with_openai_client.py"), str(path), "--cancel"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    job = TrainingJob.objects.get()
    assert (job.state, job.name) == (TrainingState.CANCELLED, "from a script")
    assert f"{job.public_id}: cancelled" in done.stdout
    assert "The job was cancelled." in done.stdout
    assert "Dry run: 3 steps, 20 trajectories of an uploaded file" in done.stdout

"""Jobs over REST with a real worker, a real trainer and the real site: to the end, cancelled, paused and resumed."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("trl")

from tests.workers.training_support import (
    datasets,
    ended,
    fresh,
    reached,
    reinforcement,
    series,
    supervised,
    worker,
)
from webapp.accounts.models import Role, User
from webapp.runs import control
from webapp.runs.models import (
    Checkpoint,
    MetricPoint,
    RolloutFile,
    RunRollout,
    TrainingEvent,
    TrainingJob,
    TrainingState,
)
from webapp.workers.models import Worker

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def operator(transactional_db: None) -> User:
    return User.objects.create_user("olga", password="a long password", role=Role.OPERATOR)


@pytest.fixture
def site(transactional_db: None, site_process: str) -> str:
    return site_process


def test_what_cannot_be_trained_fails_in_words_and_the_worker_goes_on_with_sft_then_rl_to_the_end(
    site: str, operator: User, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (tmp_path / "models/org/torn").mkdir(parents=True)
    (tmp_path / "models/org/torn/config.json").write_text('{"model_type": "no-such-kind"}')
    lessons, tasks = datasets(operator)
    waits, unknown, torn, broken = (supervised(operator, lessons, tasks) for _ in range(4))
    # The form refuses what is sure to fail; a job that was queued by an earlier version still has to end in words.
    TrainingJob.objects.filter(pk=broken.pk).update(config=broken.config | {"max_length": 32})
    for job, name in ((waits, "org/elsewhere"), (unknown, "nobody/knows"), (torn, "org/torn")):
        TrainingJob.objects.filter(pk=job.pk).update(model=name)
    first = supervised(operator, lessons, tasks)
    second = reinforcement(operator, tasks, first)
    assert (first.state, second.state) == (TrainingState.QUEUED, TrainingState.VALIDATING)
    more = ("--hub", "nobody/knows", "--models", str(tmp_path / "models"))
    with worker(site, operator, tmp_path / "w", "--until-idle", "--name", "anna", *more) as running:
        for job, words in ((unknown, "cannot be fetched from Hugging Face"), (torn, "cannot be loaded")):
            assert ended(job, running.log) == TrainingState.FAILED
            assert words in job.error
            assert (job.error_code, job.error_param) == ("input", "model")
        assert ended(broken, running.log) == TrainingState.FAILED
        assert "max_length" in broken.error
        assert broken.error_code == "input"
        assert ended(first, running.log) == TrainingState.SUCCEEDED, (first.error, running.log.read_text())
        assert fresh(waits).state == TrainingState.QUEUED
        assert "can load org/elsewhere: start one" in waits.reason
        assert ended(second, running.log) == TrainingState.SUCCEEDED, (second.error, running.log.read_text())
        assert running.process.wait(60) == 0
    losses = series(first, "loss")
    assert [step for step, _ in losses] == list(range(1, len(losses) + 1))
    assert [step for step, _ in series(second, "loss")] == [1, 2, 3]
    assert [step for step, _ in series(second, "evaluation/success")] == [0, 3]
    assert series(second, "outcome/infra_error") == []
    assert second.result["ended"] == "done"
    final = Checkpoint.objects.get(job=second, final=True)
    assert final.state == "ready"
    assert {file.path for file in final.files.all()} >= {"model.safetensors", "tokenizer.json", "config.json"}
    assert list(RolloutFile.objects.filter(job=second).order_by("step").values_list("step", "count")) == [
        (1, 16), (2, 16), (3, 16)
    ]  # fmt: skip
    assert RunRollout.objects.filter(file__job=second).count() == 48
    # What an honest trainer posts is what its rollouts give, in the whole and in each part.
    assert second.doubt == ""
    means = RolloutFile.objects.get(job=second, step=2).means
    posted = dict(MetricPoint.objects.filter(key__job=second, step=2).values_list("key__name", "value"))
    assert set(means) <= set(posted)
    assert {key: posted[key] for key in means} == pytest.approx(means)
    assert any(key.startswith("environment/") for key in means)
    assert any(key.startswith("check/") for key in second.keys.values_list("name", flat=True))
    known = Worker.objects.get()
    assert (known.name, known.stopped_at is not None) == ("anna", True)
    # Nothing is kept of attempts that have ended, and what they were made of is kept once.
    assert not list((tmp_path / "w" / "attempts").iterdir())
    assert list((tmp_path / "w" / "cache").iterdir())


def test_handed_on_paused_resumed_and_cancelled_without_losing_a_step(
    site: str, operator: User, tmp_path: Path
) -> None:
    lessons, tasks = datasets(operator)
    # So long that it cannot come to its end before it hears of anything.
    job = supervised(operator, lessons, tasks, epochs=200, limits={"checkpoint_every": 100})
    with worker(site, operator, tmp_path / "w1", "--name", "anna") as running:
        reached(job, 2, running.log)
        running.process.terminate()
        assert running.process.wait(120) == 0, running.log.read_text()
    assert fresh(job).state == TrainingState.QUEUED
    assert Worker.objects.get().stopped_at is not None
    handed_on = Checkpoint.objects.get(job=job, state="ready").step
    with worker(site, operator, tmp_path / "w2", "--name", "bela") as running:
        reached(job, handed_on + 2, running.log)
        control.pause_job(fresh(job), operator)
        assert ended(job, running.log) == TrainingState.PAUSED
        paused = Checkpoint.objects.filter(job=job).latest("step").step
        assert paused == series(job, "loss")[-1][0]
        control.resume_job(fresh(job), operator)
        reached(job, paused + 2, running.log)
        control.cancel_job(fresh(job), operator)
        assert ended(job, running.log) == TrainingState.CANCELLED, (job.error, running.log.read_text())
        running.process.terminate()
        assert running.process.wait(60) == 0
    last = Checkpoint.objects.filter(job=job).latest("step")
    assert (last.state, last.final) == ("ready", False)
    losses = [number for number, _ in series(job, "loss")]
    assert losses == list(range(1, len(losses) + 1))
    assert last.step == losses[-1]
    assert handed_on < 100, "made because it was told to end, not by the count of steps"
    # A starved machine may lose a lease, and begin at the checkpoint once more.
    begun = dict.fromkeys(job.attempts.order_by("number").values_list("from_step", "worker_name"))
    assert list(begun) == [(0, "anna"), (handed_on, "bela"), (paused, "bela")]
    resumed = {event.data.get("resumed") for event in TrainingEvent.objects.filter(job=job)}
    assert {handed_on, paused} <= resumed

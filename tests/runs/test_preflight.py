"""What a preflight finds: problems by field, exact steps, and nothing where nothing can be known."""

from __future__ import annotations

import hashlib
import math
import random
from datetime import timedelta
from typing import Any

import pytest
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.utils import timezone

from synthesis.contracts import Criterion, RubricVerifier
from tests.fixtures import pages_seed
from tests.runs.job_support import asks, frozen, jsonl, lesson, lessons, task, tasks
from training.config import Supervised
from training.dataset import TrajectoryRow
from training.sampler import Prompt, draw_epoch_rows
from webapp.common.public_ids import new_id
from webapp.datasets.models import Dataset, FileState, StoredFile
from webapp.endpoints.models import Endpoint, RoleModel
from webapp.jobs.models import Job
from webapp.runs.models import (
    Checkpoint,
    CheckpointState,
    TrainingAttempt,
    TrainingEvent,
    TrainingJob,
    TrainingState,
)
from webapp.runs.preflight.job_checks import Preflight, run_preflight
from webapp.runs.preflight.remarks import RefusedJob
from webapp.runs.services import create_job
from webapp.workers.models import Worker

pytestmark = pytest.mark.django_db
SMALL = {"sampling": {"environments": 2, "tasks": 4, "rollouts": 2}}


def problems(found: Preflight) -> dict[str, str]:
    return {one.param: one.code for one in found.problems}


def warnings(found: Preflight) -> set[str]:
    return {one.code for one in found.warnings}


def worker(**fields: Any) -> Worker:
    return Worker.objects.create(**{"name": "w", "seen_at": timezone.now(), "engines": ["transformers"], **fields})


def test_a_sound_job_has_no_problems_and_writes_nothing() -> None:
    row = frozen(tasks(), test_share=0.3)
    asked = asks(row, changes=SMALL)
    before = (Dataset.objects.count(), TrainingJob.objects.count(), TrainingEvent.objects.count(), Job.objects.count())
    found = run_preflight(asked)
    assert found.ok, found.problems
    assert found.steps == 40
    assert "held out; split by task" in found.sentence
    assert found.preset == "demo-rl"
    assert {one.path for one in found.changed} == {f"sampling.{name}" for name in SMALL["sampling"]}
    assert before == (
        Dataset.objects.count(),
        TrainingJob.objects.count(),
        TrainingEvent.objects.count(),
        Job.objects.count(),
    )


@pytest.mark.parametrize(
    ("more", "field", "code"),
    [
        ({"dataset": "ds-none"}, "training_file", "dataset_not_found"),
        ({"dataset": "file-none"}, "training_file", "file_not_found"),
        ({"dataset": "none"}, "training_file", "invalid_id"),
        ({"evaluation": "ds-none"}, "validation_file", "dataset_not_found"),
        ({"model": "gpt-none"}, "model", "model_not_found"),
        ({"model": "ft:ftjob-none"}, "model", "model_not_found"),
        ({"model": "after"}, "after", "missing"),
        ({"after": "ftjob-none"}, "after", "job_not_found"),
        ({"preset": "none"}, "preset", "preset_not_found"),
        ({"preset": "demo-sft"}, "preset", "wrong_method"),
        ({"changes": {"steps": 0}}, "changes.steps", "invalid_value"),
        ({"changes": {"optimiser": {"learning_rate": "much"}}}, "changes.optimiser.learning_rate", "invalid_value"),
        ({"changes": {"decoding": {"temperature": 0}}}, "changes", "invalid_value"),
        ({"changes": {"no_such": 1}}, "changes.no_such", "invalid_value"),
        ({"user_model": "7/none"}, "user_model", "model_not_found"),
        ({"changes": {"sampling": {"environments": 9, "tasks": 18}}}, "changes.sampling.environments",
         "too_few_environments"),
        ({"changes": {"sampling": {"environments": 2, "tasks": 40}}}, "changes.sampling.tasks", "too_few_tasks"),
        ({"changes": {"sampling": {"draw": "tasks", "tasks": 4_000}, "advantage": {"kind": "group"}}},
         "changes.sampling.tasks", "too_few_tasks"),
        ({"method": "supervised"}, "training_file", "wrong_kind"),
    ],
)  # fmt: skip
def test_each_fault_is_named_with_its_field(more: dict[str, Any], field: str, code: str) -> None:
    found = run_preflight(asks(frozen(tasks())).model_copy(update=more))
    assert problems(found).get(field) == code, found.problems
    assert all(one.message for one in found.problems)


def test_a_fault_stops_the_job_and_says_all_of_them() -> None:
    with pytest.raises(RefusedJob) as refusal:
        create_job(asks("ds-none", model="gpt-none"), pages_seed.person("researcher"))
    assert {one.param for one in refusal.value.remarks} == {"training_file", "model"}
    assert not TrainingJob.objects.exists()


def test_weights_of_nothing_do_not_count_as_environments() -> None:
    row = frozen(tasks(environments=4))
    off = {"mixture": {"environments": {"e0": 0.0}}}
    found = run_preflight(asks(row, changes=off))
    assert problems(found) == {"changes.sampling.environments": "too_few_environments"}
    assert "It has 1 more" in found.problems[0].message


def test_a_weight_of_an_unknown_environment_is_warned_of_and_an_untaught_model_refused() -> None:
    row = frozen(lessons())
    found = run_preflight(asks(row, "supervised", changes={"mixture": {"environments": {"e0": 2, "e00": 2}}}))
    assert found.ok
    assert "unknown_environment" in warnings(found)
    assert "'e00'" in next(one.message for one in found.warnings if one.code == "unknown_environment")
    assert "unknown_environment" not in warnings(run_preflight(asks(row, "supervised")))
    assert problems(run_preflight(asks(frozen(tasks()), model="envarium-demo"))) == {"model": "untrained"}
    assert problems(run_preflight(asks(row, "supervised"))) == {}


def test_a_dataset_that_is_not_usable() -> None:
    row = frozen(tasks())
    Dataset.objects.filter(pk=row.pk).update(state="failed", error="no rows")
    assert problems(run_preflight(asks(row))) == {"training_file": "dataset_failed"}
    Dataset.objects.filter(pk=row.pk).update(state="freezing", error="")
    waiting = run_preflight(asks(row))
    assert waiting.ok
    assert "dataset_freezing" in warnings(waiting)
    Dataset.objects.filter(pk=row.pk).update(state="ready", archived=True)
    assert problems(run_preflight(asks(row))) == {"training_file": "dataset_archived"}


def test_a_file_with_errors_says_the_line() -> None:
    report = {"problems": [{"line": 3, "place": "messages.0", "message": "is wrong"}], "problem_count": 1}
    file = StoredFile.objects.create(filename="a.jsonl", bytes=9, state=FileState.ERROR, report=report)
    found = run_preflight(asks(file.public_id, "supervised"))
    assert problems(found) == {"training_file": "file_has_errors"}
    assert "line 3, messages.0: is wrong" in found.problems[0].message


def conversations() -> list[Any]:
    return [task(number, f"e{number % 4}", "conversation" if number // 4 % 2 else "task") for number in range(32)]


def test_conversations_want_somebody_who_plays_the_user() -> None:
    row = frozen(conversations())
    talking = {"mixture": {"settings": {"task": 1.0, "conversation": 1.0}}}
    nobody = {"user_model": "missing", "judge_model": "missing"}
    assert problems(run_preflight(asks(row, changes=talking))) == nobody
    assert problems(run_preflight(asks(row))) == {}, "the demo's preset leaves conversations out"
    endpoint = Endpoint.objects.create(name="e", base_url="http://127.0.0.1:9/v1", model_names=["m"])
    unmasked = talking | {"masking": {"meu": False}}
    assert run_preflight(asks(row, changes=unmasked, user_model=f"{endpoint.pk}/m")).ok
    RoleModel.objects.create(role="user", endpoint=endpoint, model="m")
    assert run_preflight(asks(row, changes=unmasked)).ok
    for changes in (talking | {"masking": {"meu": True}}, unmasked | {"attempts": {"judges_user": True}}):
        found = run_preflight(asks(row, changes=changes))
        assert problems(found) == {"judge_model": "missing"}, "or no fault of a user would ever be found"
        assert run_preflight(asks(row, changes=changes, judge_model=f"{endpoint.pk}/m")).ok


def test_an_evaluation_of_conversations_wants_somebody_who_plays_the_user() -> None:
    asked = asks(frozen(lessons()), "supervised", evaluation=frozen(conversations()).public_id)
    assert problems(run_preflight(asked)) == {"user_model": "missing"}
    endpoint = Endpoint.objects.create(name="e", base_url="http://127.0.0.1:9/v1", model_names=["m"])
    RoleModel.objects.create(role="user", endpoint=endpoint, model="m")
    job = create_job(asked, pages_seed.person("researcher"))
    assert (job.user_endpoint, job.user_model) == (endpoint, "m")


def test_the_default_user_is_written_to_the_job() -> None:
    endpoint = Endpoint.objects.create(name="e", base_url="http://127.0.0.1:9/v1", model_names=["m"])
    RoleModel.objects.create(role="user", endpoint=endpoint, model="m")
    job = create_job(asks(frozen(conversations())), pages_seed.person("researcher"))
    assert (job.user_endpoint, job.user_model) == (endpoint, "m")


def test_rubrics_are_refused_if_nobody_judges() -> None:
    rows = tasks()
    rubric = RubricVerifier(criteria=(Criterion(text="It is done."),))
    rollout = rows[3].rollout.model_copy(update={"verifier": rubric})
    row = frozen([*rows[:3], rows[3].model_copy(update={"rollout": rollout}), *rows[4:]])
    found = run_preflight(asks(row))
    assert problems(found) == {"judge_model": "missing"}
    assert "1 task is judged by a rubric, and there is no judge" in found.problems[0].message
    evaluated = run_preflight(asks(frozen(lessons()), "supervised", evaluation=row.public_id))
    assert problems(evaluated) == {"judge_model": "missing"}
    endpoint = Endpoint.objects.create(name="e", base_url="http://127.0.0.1:9/v1", model_names=["m"])
    RoleModel.objects.create(role="judge", endpoint=endpoint, model="m")
    assert not problems(run_preflight(asks(row)))
    job = create_job(asks(row), pages_seed.person("researcher"))
    assert (job.judge_endpoint, job.judge_model) == (endpoint, "m")
    assert problems(run_preflight(asks(row, judge_model="7/none"))) == {"judge_model": "model_not_found"}


def turns(number: int, count: int) -> Any:
    said = [{"role": "user", "content": "Go on."}, {"role": "assistant", "content": "Yes."}]
    return lesson(number, f"e{number % 3}", messages=said * count)


@pytest.mark.parametrize("seed", range(6))
def test_steps_of_sft_are_those_of_the_trainers_own_order(seed: int) -> None:
    """As `training.sft.order_samples` goes through samples, written out anew."""
    dice = random.Random(seed)
    counts = [dice.randint(1, 5) for _ in range(dice.randint(3, 30))]
    changes = {
        "epochs": dice.choice([1.0, 2.0, 2.5]),
        "batch": dice.randint(1, 8),
        "samples": dice.choice(["whole", "mask_history"]),
        "mixture": {"environments": dice.choice([{}, {"e0": 2.0}, {"e1": 0.5, "e2": 0.0}])},
    }
    found = run_preflight(asks(frozen([turns(n, c) for n, c in enumerate(counts)]), "supervised", changes=changes))
    config = Supervised.model_validate({**(found.config or {})})
    prompts = [Prompt(row=n, environment=f"e{n % 3}") for n in range(len(counts))]
    samples = 0
    for epoch in range(math.ceil(config.epochs)):
        rows = draw_epoch_rows(prompts, config.mixture, epoch, config.seed)
        places = [place for row in rows for place in range(counts[row] if config.samples == "mask_history" else 1)]
        samples += round(len(places) * min(1.0, config.epochs - epoch))
    assert found.steps == math.ceil(samples / config.batch)


def test_what_cannot_be_known_is_not_guessed() -> None:
    row = frozen(lessons())
    found = run_preflight(asks(row, "supervised", model="somebody/a-model"))
    assert found.memory is None
    assert "does not say its size" in found.memory_note
    assert found.time is None
    assert "no job of this model" in found.time_note
    Dataset.objects.filter(pk=row.pk).update(state="freezing")
    assert run_preflight(asks(row, "supervised", model="somebody/a-model")).steps is None


def test_time_is_what_earlier_jobs_of_the_model_and_preset_took() -> None:
    row = frozen(tasks())
    now = timezone.now()
    past = {
        "method": "reinforcement",
        "dataset": row,
        "state": TrainingState.SUCCEEDED,
        "preset": "demo-rl",
        "step": 10,
    }
    job = TrainingJob.objects.create(**past, model="envarium-demo", started_at=now - timedelta(days=2), finished_at=now)
    for number, begun in ((1, timedelta(days=2)), (2, timedelta(seconds=8))):
        attempt = TrainingAttempt.objects.create(job=job, number=number, state="done", ended_at=now)
        ended = now - begun + timedelta(seconds=12) if number == 1 else now  # paused for two days in between
        TrainingAttempt.objects.filter(pk=attempt.pk).update(started_at=now - begun, ended_at=ended)
    TrainingJob.objects.create(**past, model="other", started_at=now - timedelta(hours=20), finished_at=now)
    found = run_preflight(asks(row))
    assert found.time is not None
    assert (found.time.jobs, found.time.seconds_a_step) == (1, pytest.approx(2.0))
    assert found.time.seconds == pytest.approx(80.0)


def test_long_rows_are_warned_of_with_what_to_raise() -> None:
    row = frozen(
        [lesson(1, messages=[{"role": "user", "content": "x" * 9_000}, {"role": "assistant", "content": "y"}])]
    )
    found = run_preflight(asks(row, "supervised", model="a/b-1B", changes={"max_length": 1_000, "too_long": "refuse"}))
    assert found.tokens is not None
    assert found.tokens.most > 2_000
    assert ("changes.max_length", "too_long") in {(one.param, one.code) for one in found.warnings}


def stored(rows: list[Any], **fields: Any) -> StoredFile:
    content = jsonl(rows)
    return StoredFile.objects.create(
        public_id=new_id("file"),
        filename="mine.jsonl",
        kind=fields.pop("kind", "trajectories"),
        state=FileState.PROCESSED,
        bytes=fields.pop("bytes", len(content)),
        sha256=hashlib.sha256(content).hexdigest(),
        stored=default_storage.save("training-files/mine.jsonl", ContentFile(content)),
        report={"rows": len(rows)},
        **fields,
    )


def talk(words: int) -> TrajectoryRow:
    said = [{"role": "system", "content": "w " * 5_000}, {"role": "user", "content": "w " * words}]
    return lesson(words, messages=[*said, {"role": "assistant", "content": "y"}], tools=[])


def test_an_uploaded_file_with_rows_too_long_for_the_demo_is_foreseen() -> None:
    """Its tokenizer joins no two words, and what every agent is told is one token."""
    found = run_preflight(asks(stored([talk(20), talk(300), talk(400)]).public_id, "supervised"))
    assert found.tokens is not None
    assert (found.tokens.most, found.tokens.long, found.tokens.limit) == (801, 2, 512)
    (one,) = found.problems
    assert (one.param, one.code) == ("changes.max_length", "too_long")
    assert "2 of 3 rows have more than 512 tokens (max_length) by any tokenizer" in one.message
    assert "fail before its first step. Raise changes.max_length, take too_long = drop" in one.message
    short = run_preflight(asks(stored([talk(20)]).public_id, "supervised"))
    assert "too_long" not in warnings(short)
    dropped = run_preflight(asks(stored([talk(20), talk(300)]).public_id, "supervised", changes={"too_long": "drop"}))
    assert dropped.ok
    assert any("What is longer is left out" in one.message for one in dropped.warnings)
    nothing = run_preflight(asks(stored([talk(300)]).public_id, "supervised", changes={"too_long": "drop"}))
    assert "nothing is left to learn from" in nothing.problems[0].message


@pytest.mark.parametrize("model", ["envarium-demo", "a/b-1B"])
def test_tasks_of_an_uploaded_evaluation_that_leave_no_room_are_foreseen(model: str) -> None:
    short = task(1, "e0")
    long = short.model_copy(update={"rollout": short.rollout.model_copy(update={"instruction": "w " * 9_000})})
    row, changes = frozen(tasks()), SMALL | {"decoding": {"turn_tokens": 64, "trajectory_tokens": 2_000}}
    for told, wanted in (([short, long], ["1 of its tasks has more than 2000 tokens"]), ([short], [])):
        file = stored(told, kind="tasks")
        found = run_preflight(asks(row, evaluation=file.public_id, model=model, preset="demo-rl", changes=changes))
        heard = [one.message for one in found.warnings if (one.param, one.code) == ("validation_file", "too_long")]
        assert [message.partition(" before")[0] for message in heard] == wanted


def test_a_file_too_large_to_look_through_is_said_to_be_so() -> None:
    found = run_preflight(asks(stored([talk(20)], bytes=1 << 30).public_id, "supervised"))
    assert found.tokens is None
    assert ("changes.max_length", "not_looked_at") in {(one.param, one.code) for one in found.warnings}


def test_models_of_workers_and_of_jobs_are_known() -> None:
    row = frozen(tasks())
    asked = asks(row, model="mine-7B", preset="demo-rl")
    assert problems(run_preflight(asked)) == {"model": "model_not_found"}
    seen = worker(model_names=["mine-7B"])
    assert run_preflight(asked).ok
    assert run_preflight(asked).queue.able == ("w",)
    elsewhere = asks(row, model="org/mine-7B", preset="demo-rl")
    unseen = run_preflight(elsewhere)
    assert (unseen.queue.able, problems(unseen)) == ((), {"model": "model_unseen"})
    assert any("--hub org/mine-7B" in one.message for one in unseen.problems)
    worker(name="fetches", model_names=["*"])
    found = run_preflight(elsewhere)
    assert (found.queue.able, "model_unseen" in warnings(found)) == (("fetches",), True)
    assert any("looks for it on Hugging Face" in one.message for one in found.warnings)
    Worker.objects.filter(pk=seen.pk).update(seen_at=timezone.now() - timedelta(days=1))
    assert problems(run_preflight(asked)) == {"model": "model_not_found"}
    for name in ("a/b/c", "../etc", "org/", "*", "org/with space"):
        assert problems(run_preflight(asks(row, model=name, preset="demo-rl"))) == {"model": "model_not_found"}, name


def test_a_jobs_model_can_be_named_once_it_is_there() -> None:
    row, user = frozen(tasks()), pages_seed.person("researcher")
    first = create_job(asks(row), user)
    named = f"ft:{first.public_id}"
    assert problems(run_preflight(asks(row, model=named))) == {"model": "model_not_ready"}
    assert problems(run_preflight(asks(row, model=f"{named}:step-5"))) == {"model": "checkpoint_not_found"}
    for final, step in ((False, 5), (True, 9)):
        Checkpoint.objects.create(job=first, attempt=1, step=step, final=final, state=CheckpointState.READY)
    assert run_preflight(asks(row, model=named)).preset == "demo-rl", "it goes back to the demo's model"
    assert run_preflight(asks(row, model=f"{named}:step-5")).ok


def test_a_job_after_another_waits_and_says_so() -> None:
    row, user = frozen(tasks()), pages_seed.person("researcher")
    first = create_job(asks(row), user)
    assert first.state == TrainingState.QUEUED
    second = create_job(asks(row, model="after", after=first.public_id), user)
    assert second.state == TrainingState.VALIDATING
    assert second.preset == "demo-rl"
    TrainingJob.objects.filter(pk=first.pk).update(state=TrainingState.FAILED)
    found = run_preflight(asks(row, model="after", after=first.public_id))
    assert problems(found) == {"after": "job_ended"}


def test_the_queue_and_the_workers_are_counted() -> None:
    row, user = frozen(tasks()), pages_seed.person("researcher")
    assert "no_worker" in warnings(run_preflight(asks(row)))
    busy, _ = worker(), worker(name="v")
    create_job(asks(row), user)
    running = create_job(asks(row), user)
    TrainingJob.objects.filter(pk=running.pk).update(state=TrainingState.RUNNING, worker=busy.public_id)
    assert run_preflight(asks(row)).queue.model_dump() == {
        "ahead": 1, "running": 1, "workers": 2, "idle": 1, "able": ("v", "w"), "untold": ()
    }  # fmt: skip
    assert "no_worker" in warnings(run_preflight(asks(row, engine="vllm")))


def test_what_a_job_was_asked_is_written_to_it() -> None:
    asked = asks(frozen(tasks()), name="A try", seed=7, metadata={"run": "a"}, changes=SMALL, calls_allowed=9)
    job = create_job(asked, pages_seed.person("researcher"))
    job.refresh_from_db()
    assert (job.name, job.metadata, job.calls_allowed, job.total_steps) == ("A try", {"run": "a"}, 9, 40)
    assert job.config["seed"] == 7
    assert job.config["sampling"]["tasks"] == 4
    assert job.changes == {**SMALL, "seed": 7}
    assert TrainingEvent.objects.filter(job=job, message__contains=job.public_id).exists()

"""What a preflight says of a loss without a bound, of a model's window, and of a model that is a step of adapters."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, get_args

import pytest
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.utils import timezone

from tests.fixtures import pages_seed
from tests.runs.job_support import asks, frozen, lesson, lessons, task, tasks
from tests.runs.test_preflight import SMALL, problems, talk, warnings, worker
from training import presets
from training.config import ReportTo
from training.job import OPTIONAL_PACKAGES
from webapp.runs.models import Checkpoint, CheckpointFile, CheckpointState, TrainingJob
from webapp.runs.preflight.job_checks import run_preflight
from webapp.runs.preflight.packages import list_packages
from webapp.runs.services import create_job
from webapp.workers.models import Worker

pytestmark = pytest.mark.django_db


def test_a_whole_attempts_ratio_without_a_dual_clip_is_warned_of() -> None:
    """Of the papers' presets AutoForge's alone; one more setting takes the warning away, and stands among what
    differs."""
    row = frozen(tasks())
    paper = run_preflight(asks(row, preset="autoforge-erpo"))
    assert "no_dual_clip" in warnings(paper)
    assert next(one.param for one in paper.warnings if one.code == "no_dual_clip") == "changes.loss.dual_clip"
    for preset in ("envscaler-rl", "agent-world-grpo", "agentgym-rl", "demo-rl"):
        assert "no_dual_clip" not in warnings(run_preflight(asks(row, preset=preset)))
    bounded = run_preflight(asks(row, preset="autoforge-erpo", changes={"loss": {"dual_clip": 3}}))
    assert "no_dual_clip" not in warnings(bounded)
    assert [(one.path, one.preset, one.chosen) for one in bounded.changed] == [("loss.dual_clip", 0.0, 3.0)]


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"loss": {"form": "dr_grpo"}}, "deviation_in_dr_grpo"),
        ({"loss": {"form": "dr_grpo"}, "advantage": {"kind": "mean"}}, ""),
        ({"loss": {"form": "gspo", "clip_high": 0.2}}, "clip_off"),
        ({"loss": {"form": "gspo", "clip_low": 3e-4, "clip_high": 4e-4}}, ""),
        ({"loss": {"form": "cispo", "clip_high": 0.2}}, "clip_off"),
        ({"loss": {"form": "cispo", "clip_high": 50}}, "clip_off"),
        ({"loss": {"form": "cispo", "clip_high": 4}}, ""),
        ({"loss": {"form": "dapo", "clip_high": 0.2}}, "clip_higher_off"),
        ({"loss": {"form": "dapo", "clip_high": 0.28}}, ""),
        ({"optimiser": {"learning_rate": 1e-3}}, "rate_too_high"),
        ({"optimiser": {"learning_rate": 1e-3}, "tuning": {"kind": "lora"}}, "rate_too_high"),
        ({"optimiser": {"learning_rate": 1e-4}, "tuning": {"kind": "lora"}}, ""),
        ({"optimiser": {"learning_rate": 1e-12}}, "rate_too_low"),
        ({"steps": 100_000}, "too_many_steps"),
        ({"steps": 50, "optimiser": {"warmup_steps": 50}}, "warmup_too_long"),
    ],
)
def test_what_an_objective_does_not_do_is_warned_of(changes: dict[str, Any], code: str) -> None:
    small = {"sampling": {"environments": 2, "tasks": 4, "rollouts": 2}} | changes
    found = run_preflight(asks(frozen(tasks()), model="a/b-1B", preset="agent-world-grpo", changes=small))
    told = {"deviation_in_dr_grpo", "clip_off", "clip_higher_off", "rate_too_high", "rate_too_low", "too_many_steps"}
    assert {one.code for one in found.warnings} & (told | {"warmup_too_long"}) == ({code} if code else set())


def test_no_preset_warns_of_its_own_values_but_for_what_its_paper_leaves_open() -> None:
    rows = {"supervised": frozen(lessons()), "reinforcement": frozen(tasks())}
    for name in presets.list_presets():
        method = presets.load_preset(name).config.type
        if method in rows and not name.startswith("demo"):
            found = run_preflight(asks(rows[method], method, model="a/b-1B", preset=name))
            codes = {one.code for one in found.warnings if one.param.startswith(("changes.loss", "changes.opt"))}
            assert codes == ({"no_dual_clip"} if name == "autoforge-erpo" else set()), name


def test_a_job_whose_rows_are_longer_by_any_tokenizer_is_refused_with_their_true_number() -> None:
    """What an estimate by characters alone says is a warning: 9,000 letters may be one token."""
    rows = [talk(1_100 + number) for number in range(796)] + [talk(20)]
    found = run_preflight(asks(frozen(rows), "supervised", model="a/b-1B", changes={"max_length": 1_000}))
    (one,) = found.problems
    assert one.message.startswith("796 of 797 rows have more than 1,000 tokens (max_length)")
    thoughts = "<think>" + "w " * 5_000 + "</think>"
    short = lesson(1, messages=[{"role": "user", "content": "Go."}, {"role": "assistant", "content": f"{thoughts}y"}])
    assert run_preflight(asks(frozen([short]), "supervised", model="a/b-1B", changes={"max_length": 1_000})).ok
    told = task(99, "e0")
    long = told.model_copy(update={"rollout": told.rollout.model_copy(update={"instruction": "w " * 3_000})})
    changes = SMALL | {"decoding": {"turn_tokens": 64, "trajectory_tokens": 2_000}}
    refused = run_preflight(asks(frozen([*tasks(), long]), model="a/b-1B", preset="demo-rl", changes=changes))
    assert "1 of 17 rows has more than 2,000 tokens" in refused.problems[0].message


def test_lengths_beyond_the_window_of_a_known_model_are_problems() -> None:
    """The demo's model reads 1,024 tokens; of one that nobody here made its worker alone knows."""
    long = {"decoding": {"trajectory_tokens": 1_025}}
    rows, talks = frozen(tasks()), frozen(lessons())
    rl = run_preflight(asks(rows, changes=long))
    assert problems(rl)["changes.decoding.trajectory_tokens"] == "above_window"
    assert "1,025 tokens are more than the window of ft:ftjob-taught, which is 1,024" in rl.problems[-1].message
    assert not {"above_window"} & set(problems(run_preflight(asks(rows))).values()), "the demo's own values fit"
    sft = {limit: run_preflight(asks(talks, "supervised", changes={"max_length": limit})) for limit in (1_024, 9_000)}
    assert problems(sft[1_024]) == {}
    assert problems(sft[9_000]) == {"changes.max_length": "above_window"}
    assert problems(run_preflight(asks(talks, "supervised", model="a/b-1B", changes={"max_length": 9_000}))) == {}
    turns = run_preflight(asks(rows, model="a/b-1B", preset="demo-rl", changes={"decoding": {"turn_tokens": 1_025}}))
    assert problems(turns)["changes.decoding.turn_tokens"] == "above_attempt"


def test_the_window_of_an_earlier_jobs_model_is_read_from_its_files() -> None:
    """Its `config.json`, also below adapters and for a job that comes after; one that cannot be read tells nothing."""
    row, user = frozen(tasks()), pages_seed.person("researcher")
    first = create_job(asks(row), user)
    TrainingJob.objects.filter(pk=first.pk).update(model="mine/a-7B", state="succeeded")
    named, over = f"ft:{first.public_id}", {"decoding": {"trajectory_tokens": 600, "turn_tokens": 64}}

    def said(model: str, **more: str) -> str | None:
        return problems(run_preflight(asks(row, model=model, preset="demo-rl", changes=over, **more))).get(
            "changes.decoding.trajectory_tokens"
        )

    final = Checkpoint.objects.create(job=first, attempt=1, step=9, final=True, state=CheckpointState.READY)
    config = CheckpointFile.objects.create(checkpoint=final, path="config.json", bytes=9, sha256="1" * 64)
    for sha256, text in (("1" * 64, b"{"), ("2" * 64, b'{"max_position_embeddings": "many"}')):
        stored = default_storage.save("checkpoints/config", ContentFile(text))
        CheckpointFile.objects.filter(pk=config.pk).update(stored=stored, sha256=sha256)
        assert said(named) is None
    stored = default_storage.save("checkpoints/config", ContentFile(b'{"max_position_embeddings": 512}'))
    CheckpointFile.objects.filter(pk=config.pk).update(stored=stored, sha256="3" * 64)
    assert said(named) == "above_window"
    assert said("after", after=first.public_id) == "above_window"
    adapters = Checkpoint.objects.create(job=first, attempt=1, step=5, state=CheckpointState.READY)
    CheckpointFile.objects.create(checkpoint=adapters, path="adapter_config.json", bytes=1, sha256="0" * 64)
    assert said(f"{named}:step-5") == "above_window"
    second = create_job(
        asks(row, model=named, preset="demo-rl", changes={"decoding": {"trajectory_tokens": 512}}), user
    )
    assert said("after", after=second.public_id) == "above_window", "its model is not made yet, and reads no more"
    assert said("mine/a-7B") is None


def test_a_tracker_that_workers_lack_is_warned_of() -> None:
    row, changes = frozen(tasks()), {"report_to": "wandb"}

    def said() -> list[str]:
        return [
            one.message for one in run_preflight(asks(row, changes=changes)).warnings if one.code == "package_missing"
        ]

    def able() -> tuple[str, ...]:
        return run_preflight(asks(row, changes=changes)).queue.able

    worker(name="untold")
    worker(name="bare", software={"torch": "2"})
    assert (said(), able()) == ([], ("untold",)), "one that tells nothing is given it"
    Worker.objects.filter(name="untold").update(software={"torch": "2"})
    assert "The package wandb, which its numbers are reported to, is not installed at bare, untold" in said()[0]
    assert "`pip install wandb`" in said()[0]
    assert able() == ()
    Worker.objects.update(software={"wandb": "0.26"})
    assert (said(), able()) == ([], ("bare", "untold"))


@pytest.mark.parametrize(
    ("hardware", "package"),
    [({"optimiser_state": "adamw_8bit"}, "torchao"), ({"attention": "flash_attention_2"}, "flash-attn")],
)
def test_a_package_that_a_setting_needs_is_waited_for(hardware: dict[str, str], package: str) -> None:
    asked = asks(frozen(tasks()), changes={"hardware": hardware})
    lacking = worker(software={"torch": "2"})
    [found] = [one for one in run_preflight(asked).warnings if one.code == "package_missing"]
    assert (found.param, run_preflight(asked).queue.able) == (f"changes.hardware.{next(iter(hardware))}", ())
    assert f"`pip install {package}`" in found.message
    lacking.software = {package: "1"}
    lacking.save()
    assert run_preflight(asked).queue.able == (lacking.name,)


def test_a_step_of_adapters_is_begun_from_where_its_base_can_be_had() -> None:
    """Adapters of the demo's model, which is kept nowhere, are refused at once; of a model that workers have they are
    for those workers."""
    row, user = frozen(tasks()), pages_seed.person("researcher")
    first = create_job(asks(frozen(lessons()), "supervised"), user)
    kept = Checkpoint.objects.create(job=first, attempt=1, step=5, state=CheckpointState.READY)
    for path in ("adapter_config.json", "adapter_model.safetensors"):
        CheckpointFile.objects.create(checkpoint=kept, path=path, bytes=1, sha256="0" * 64)
    step = f"ft:{first.public_id}:step-5"
    refused = run_preflight(asks(row, model=step))
    assert problems(refused) == {"model": "not_whole"}
    assert f"Begin with the model that it ends with (ft:{first.public_id})" in refused.problems[0].message
    TrainingJob.objects.filter(pk=first.pk).update(model="mine-7B")
    worker(name="other", model_names=["another-7B"])
    unseen = run_preflight(asks(row, model=step, preset="demo-rl"))
    assert (problems(unseen), unseen.queue.able) == ({"model": "model_unseen"}, ())
    assert any("can load mine-7B" in one.message for one in unseen.problems)
    worker(name="has it", model_names=["mine-7B"])
    assert run_preflight(asks(row, model=step, preset="demo-rl")).queue.able == ("has it",)


@pytest.mark.parametrize(("minutes", "ended"), [(30, False), (5, True)], ids=["lost", "begins again"])
def test_a_worker_that_is_away_for_a_while_keeps_a_job_from_being_refused(minutes: int, ended: bool) -> None:
    asked, now = asks(frozen(tasks()), model="mine-7B", preset="demo-rl"), timezone.now()
    worker(name="other", model_names=["another-7B"])
    away = worker(name="restarts", model_names=["mine-7B"])
    stopped = now if ended else None
    Worker.objects.filter(pk=away.pk).update(seen_at=now - timedelta(minutes=minutes), stopped_at=stopped)
    found = run_preflight(asked)
    assert (problems(found), found.queue.able) == ({}, ())
    assert any("The job waits for restarts, which can and was here" in one.message for one in found.warnings)
    job = create_job(asked, pages_seed.person("researcher"))
    assert (job.state, "The job waits for restarts" in job.reason) == ("queued", True)
    Worker.objects.filter(pk=away.pk).update(seen_at=now - timedelta(days=2))
    assert problems(run_preflight(asked)) == {"model": "model_not_found"}


@pytest.mark.parametrize("tracker", sorted({*get_args(get_args(ReportTo)[0])} - {"none"}))
def test_workers_tell_of_every_tracker_that_a_job_may_name(tracker: str) -> None:
    """Of one that they do not tell, its job would wait for ever."""
    [package] = list_packages({"report_to": tracker})
    assert package.name in OPTIONAL_PACKAGES


def test_tasks_drawn_one_by_one_need_no_number_of_environments() -> None:
    one = {"sampling": {"draw": "tasks", "environments": 9, "tasks": 5, "rollouts": 2}, "advantage": {"kind": "group"}}
    found = run_preflight(asks(frozen(tasks()), changes=one))
    assert found.ok, found.problems

"""A training job's page: what is shown is what is recorded, by address, with and without a script."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.db import connection
from django.http import QueryDict
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from tests.fixtures import pages_seed, runs_seed
from tests.fixtures.markup import markup
from tests.rollouts_web.support import make_task
from training import presets
from webapp.accounts.models import Role
from webapp.datasets.models import Dataset, DatasetState
from webapp.jobs.models import Job, JobState
from webapp.runs.curves import chart_points, charts, overview
from webapp.runs.models import (
    Checkpoint,
    CheckpointFile,
    MetricKey,
    MetricPoint,
    TrainingAttempt,
    TrainingEvent,
    TrainingJob,
    TrainingState,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def client(db: None) -> Client:
    made = Client()
    made.force_login(pages_seed.person(Role.RESEARCHER))
    return made


def page(client: Client, job: TrainingJob, name: str = "runs:job", query: str = "", *more: Any) -> str:
    answer = client.get(reverse(name, args=[job.public_id, *more]) + query)
    assert answer.status_code == 200, answer.content[:500]
    return markup(answer)


def points(client: Client, job: TrainingJob, query: str = "") -> dict[str, Any]:
    told: dict[str, Any] = json.loads(page(client, job, "runs:job_curves", query))
    return told


def test_the_head_says_what_runs_where_and_how_far(client: Client) -> None:
    job = runs_seed.training_job(steps=40)
    text = re.sub(r"<[^>]+>", "", page(client, job))
    assert "step 40 of 200" in text
    assert "40 tasks to learn from, 12 held out; split by environment: 4 and 2" in text
    assert "Qwen/Qwen3-4B" in text
    assert "2 fields changed" in text
    first, last = (
        MetricPoint.objects.get(key__job=job, key__name="evaluation/success", step=step).value for step in (1, 40)
    )
    assert first is not None
    assert last is not None
    assert f"{first:.1%}".replace("%", " %") in text
    assert f"{last:.1%}".replace("%", " %") in text


def test_the_points_are_those_that_were_recorded(client: Client) -> None:
    job = runs_seed.training_job(steps=40, environments=2)
    line = points(client, job, "?chart=loss")["charts"]["loss"][0]
    known = MetricPoint.objects.filter(key__job=job, key__name="loss").order_by("step")
    assert line["x"] == [point.step for point in known]
    assert line["y"] == pytest.approx([point.value for point in known], rel=1e-5)
    assert "low" not in line
    assert "spread" in points(client, job, "?chart=reward")["charts"]["reward"][0]


def test_a_gap_is_a_gap_and_no_zero(client: Client) -> None:
    job = runs_seed.training_job(steps=20, environments=0)
    line = points(client, job, "?chart=kl")["charts"]["kl"][0]
    assert line["y"][line["x"].index(7)] is None


def test_many_steps_come_in_buckets_and_a_zoom_gives_each_step(client: Client) -> None:
    job = runs_seed.training_job(steps=1_000, environments=0)
    whole = points(client, job, "?chart=loss")["charts"]["loss"][0]
    assert len(whole["x"]) <= chart_points.RESOLUTION
    assert all(low <= mean <= high for low, mean, high in zip(whole["low"], whole["y"], whole["high"], strict=True))
    values = [point.value for point in MetricPoint.objects.filter(key__job=job, key__name="loss")]
    assert min(whole["low"]) == pytest.approx(min(v for v in values if v is not None), rel=1e-5)
    near = points(client, job, "?chart=loss&from=500&to=600")["charts"]["loss"][0]
    assert near["x"] == list(range(500, 601))
    assert "low" not in near


def test_shares_of_outcomes_add_up_to_one_where_a_step_names_only_some(client: Client) -> None:
    job = runs_seed.training_job(steps=0, environments=0)
    TrainingJob.objects.filter(pk=job.pk).update(step=1_000)
    steps = {"solved": {step: 0.5 if step % 10 else 1.0 for step in range(1, 1_001)}}
    steps["failed"] = {step: 0.5 for step in range(1, 1_001) if step % 10}
    for name, values in steps.items():
        key = MetricKey.objects.create(
            job=job, name=f"outcome/{name}", last_step=max(values), last_value=values[max(values)]
        )
        MetricPoint.objects.bulk_create(
            MetricPoint(key=key, attempt=1, step=step, value=value) for step, value in values.items()
        )
    solved, failed = points(client, job, "?chart=outcome")["charts"]["outcome"]
    assert solved["x"] == failed["x"]
    assert all(sum(pair) == pytest.approx(1, abs=1e-5) for pair in zip(solved["y"], failed["y"], strict=True))
    assert (solved["last"], failed["last"]) == (1, 0)
    near = points(client, job, "?chart=outcome&from=19&to=21")["charts"]["outcome"]
    assert [line["y"] for line in near] == [[0.5, 1, 0.5], [0.5, 0, 0.5]]
    assert 'failed</dt><dd title="step 1000"><b>0</b>' in page(client, job)


def test_no_key_reaches_a_drawing_with_markup_of_its_own(client: Client) -> None:
    """Plotly makes a link of what looks like one: a key named by a worker was clickable, and led elsewhere."""
    link = '<a href="https://elsewhere.example/">look</a> &lt;b&gt;'
    job = runs_seed.training_job(steps=0, environments=0)
    TrainingJob.objects.filter(pk=job.pk).update(step=2)
    forms = "outcome/{} environment/{}/reward node/{}/reward check/{}/success {} evaluation/environment/{}/success"
    for form in forms.split():
        key = MetricKey.objects.create(job=job, name=form.format(link), last_step=2, last_value=0.5)
        MetricPoint.objects.bulk_create(MetricPoint(key=key, attempt=1, step=step, value=0.5) for step in (1, 2))
    groups = charts.build_groups(list(MetricKey.objects.filter(job=job)), charts.parse_choice(QueryDict("")))
    shown = [chart for group in groups for chart in group.charts]
    drawn = chart_points.build_drawing(job, shown, charts.parse_choice(QueryDict("")))["charts"]
    labels = [line["label"] for lines in drawn.values() for line in lines]
    assert len(labels) == 6
    for label in labels:
        assert "<" not in label.replace("<br>", "")
        assert "&lt;" not in label, "plotly would read it as a bracket"
        assert "look" in label


def test_what_programs_ended_has_a_curve_of_the_whole_and_by_environment_and_a_number(client: Client) -> None:
    job = runs_seed.training_job(steps=0, environments=0)
    TrainingJob.objects.filter(pk=job.pk).update(step=3, program_errors=5)
    for name in ("program_errors", "environment/lamps/program_errors", "outcome/program_error"):
        key = MetricKey.objects.create(job=job, name=name, last_step=3, last_value=0.25)
        MetricPoint.objects.bulk_create(
            MetricPoint(key=key, attempt=1, step=step, value=step / 12) for step in range(1, 4)
        )
    (whole,) = points(client, job, "?chart=program_errors")["charts"]["program_errors"]
    assert whole["y"] == pytest.approx([1 / 12, 2 / 12, 3 / 12], rel=1e-5)
    (part,) = points(client, job, "?chart=by-environment&measure=program_errors")["charts"]["by-environment"]
    assert (part["label"], part["last"]) == ("lamps", 0.25)
    assert points(client, job, "?chart=outcome")["charts"]["outcome"][0]["label"] == "program error"
    text = re.sub(r"<[^>]+>", " ", page(client, job))
    assert re.search(r"Program errors\s+5", text)
    assert "Ended by programs" in text


def test_what_differs_is_told_beside_what_the_preset_has(client: Client) -> None:
    preset = presets.load_preset("demo-rl")
    config = presets.change_preset(preset, {"steps": 60, "seed": preset.config.seed}).config.model_dump(mode="json")
    job = runs_seed.training_job(
        steps=1, environments=0, preset="demo-rl", config=config, changes={"steps": 60, "seed": preset.config.seed}
    )
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page(client, job, query="?tab=settings")))
    assert "1 field changed" in text
    assert "Steps 40 ours: about three minutes" in text


def test_held_out_success_by_environment_has_its_chart(client: Client) -> None:
    job = runs_seed.training_job(steps=2, environments=2)
    key = MetricKey.objects.create(job=job, name="evaluation/environment/shop/success", last_step=2, last_value=0.5)
    MetricPoint.objects.create(key=key, attempt=1, step=2, value=0.5)
    [line] = points(client, job, "?show=parts")["charts"]["held-out-by-environment"]
    assert (line["label"], line["y"]) == ("shop", [0.5])
    assert "Other</h2>" not in page(client, job, query="?show=all")


def test_the_horizons_checkpoints_and_attempts_are_marked(client: Client) -> None:
    job = runs_seed.training_job(steps=200, environments=0)
    TrainingAttempt.objects.create(job=job, number=2, from_step=100)
    told = [(mark["step"], mark["words"]) for mark in points(client, job, "?chart=loss")["marks"]]
    assert (67, "Horizon 15 turns from here") in told
    assert (133, "Horizon 30 turns from here") in told
    assert (100, "Attempt 2 goes on from here") in told
    assert (100, "Checkpoint") in told
    rows = page(client, job, "runs:job_numbers", "?chart=reward&before=135")
    assert "Horizon 30 turns from here" in rows


def test_the_table_has_every_step_and_pages_by_step(client: Client) -> None:
    job = runs_seed.training_job(steps=120, environments=0)
    seen: list[int] = []
    query = "?chart=reward"
    while query:
        text = page(client, job, "runs:job_numbers", query)
        seen += [int(found) for found in re.findall(r'<th scope="row" class="num"><a [^>]*>([0-9]+)</a>', text)]
        more = re.search(r'rel="next" href="[^"]*(\?[^"]*)"', text)
        query = more.group(1).replace("&amp;", "&") if more else ""
    assert seen == list(range(120, 0, -1))


def test_what_is_shown_stands_in_the_address(client: Client) -> None:
    job = runs_seed.training_job(steps=20, environments=9)
    text = page(client, job, query="?show=machine")
    assert 'data-chart="time"' in text
    assert 'data-chart="success"' not in text
    assert text.index('data-chart="reward"') < text.index('data-small="success"') < text.index('data-chart="time"')
    assert 'data-chart="time"' not in page(client, job)
    assert text.count("data-small=") == 12
    text = page(client, job, query="?measure=success&environment=environment-7&environment=environment-2")
    assert "Success by environment" in text
    chosen = "measure=success&environment=environment-7&environment=environment-2"
    told = points(client, job, f"?chart=by-environment&{chosen}")
    assert [line["label"] for line in told["charts"]["by-environment"]] == ["environment-2", "environment-7"]


def test_an_sft_job_begins_with_its_loss(client: Client) -> None:
    """Its only reward is that of its held-out tasks; no alert looks at how large a loss is."""
    job = runs_seed.training_job(steps=40, environments=0, method="supervised")
    MetricKey.objects.create(job=job, name="evaluation/reward", last_step=40, last_value=0.5)
    text = page(client, job)
    assert 'data-chart="loss"' in text
    assert 'data-chart="reward"' not in text
    assert "loss" not in overview.LIMITS


def test_without_a_choice_the_lowest_environments_are_drawn(client: Client) -> None:
    job = runs_seed.training_job(steps=5, environments=0)
    for number in range(60):
        key = MetricKey.objects.create(
            job=job, name=f"environment/e{number:02}/reward", last_step=5, last_value=number / 60
        )
        MetricPoint.objects.create(key=key, attempt=1, step=5, value=number / 60)
    told = points(client, job, "?chart=by-environment")["charts"]["by-environment"]
    assert [line["label"] for line in told] == [f"e{number:02}" for number in range(charts.SHOWN_PARTS)]
    assert "6 of 60 drawn" in page(client, job, query="?show=parts")


def test_a_check_has_its_words_where_its_task_is_here(client: Client) -> None:
    task = make_task()
    assert task.current is not None
    job = runs_seed.training_job(steps=2, environments=0)
    runs_seed.real_rollouts(job, 2, [task.current], each=1)
    for part in (f"{task.current.verifier_hash[:8]}.1", "ffffffff.3"):
        key = MetricKey.objects.create(job=job, name=f"check/{part}/success", last_step=2, last_value=0.5)
        MetricPoint.objects.create(key=key, attempt=1, step=2, value=0.5)
    labels = [line["label"] for line in points(client, job, "?chart=by-check")["charts"]["by-check"]]
    assert f"Ada's is open ({task.current.verifier_hash[:8]}.1)" in labels
    assert "ffffffff.3" in labels


def test_sft_shows_what_there_is_and_no_empty_chart(client: Client) -> None:
    job = runs_seed.training_job(steps=20, method="supervised")
    text = page(client, job, query="?show=all")
    assert 'data-chart="token_accuracy"' in text
    assert 'data-chart="reward"' not in text
    assert "loss now" in text
    step = page(client, job, "runs:step", "", 5)
    assert "SFT makes no attempts" in step


def test_markup_in_an_environments_name_stays_text(client: Client) -> None:
    evil = "<img src=x onerror=alert(1)><b>bold</b>"
    job = runs_seed.training_job(steps=5, environments=[evil])
    text = page(client, job)
    assert evil not in text
    label = points(client, job, "?chart=by-environment")["charts"]["by-environment"][0]["label"]
    assert "<" not in label
    assert "onerror" not in label


@pytest.mark.parametrize("steps", [0, 1])
def test_a_job_at_its_beginning_says_what_it_waits_for(client: Client, steps: int) -> None:
    job = runs_seed.training_job(steps=steps, environments=2, state=TrainingState.QUEUED if not steps else "running")
    text = page(client, job)
    assert ("No numbers yet" in text) == (steps == 0)


def test_a_job_whose_data_is_being_made_shows_how_far_that_is(client: Client) -> None:
    job = runs_seed.training_job(steps=0, state=TrainingState.VALIDATING)
    made = Job.objects.create(kind="prepare_demo", queue="sandbox", title="Bring in", state=JobState.RUNNING)
    Job.objects.filter(pk=made.pk).update(done=32, total=1_920, note="Bringing in tasks")
    Dataset.objects.filter(pk=job.dataset_id).update(state=DatasetState.FREEZING, job=made)
    text = page(client, job)
    assert "32 of 1,920" in re.sub(r"<[^>]+>", "", text)
    assert "Bringing in tasks" in text
    assert f'href="{reverse("jobs:detail", args=[made.pk])}"' in text
    Dataset.objects.filter(pk=job.dataset_id).update(state=DatasetState.READY)
    assert "Bringing in tasks" not in page(client, job)


def test_a_failed_job_says_why(client: Client) -> None:
    job = runs_seed.training_job(steps=3, state=TrainingState.FAILED, error="Out of <b>memory</b>", error_code="memory")
    text = page(client, job)
    assert "Out of &lt;b&gt;memory&lt;/b&gt;" in text
    assert "memory" in text
    assert "data-live=" not in text


def test_events_are_filtered_by_level_and_newest_first(client: Client) -> None:
    job = runs_seed.training_job(steps=100, environments=0)
    TrainingEvent.objects.filter(job=job, level="info").first()
    text = page(client, job, query="?tab=events")
    assert text.index("Step 100 is done") < text.index("Step 90 is done")
    warned = page(client, job, query="?tab=events&level=warn")
    assert "3 of 64 attempts were lost" in warned
    assert "Step 100 is done" not in warned
    assert "step 2" in text, "the end of what the process printed"


def test_checkpoints_have_sizes_and_files(client: Client) -> None:
    job = runs_seed.training_job(steps=100, environments=0)
    text = page(client, job, query="?tab=checkpoints")
    assert "model.safetensors" in text
    assert "7.5" in text


def test_weights_are_handed_out_and_what_a_pickle_may_hide_in_is_not(client: Client) -> None:
    job = runs_seed.training_job(steps=50, environments=0)
    saved = Checkpoint.objects.get(job=job)
    known = {}
    for name in ("model.safetensors", "optimizer.pt"):
        stored = default_storage.save(f"training/{name}", ContentFile(b"bytes"))
        fields = {"bytes": 5, "received": 5, "sha256": "0" * 64, "stored": stored}
        known[name], _ = CheckpointFile.objects.update_or_create(checkpoint=saved, path=name, defaults=fields)
    text = page(client, job, query="?tab=checkpoints")
    urls = {name: reverse("runs:checkpoint_file", args=[job.public_id, row.pk]) for name, row in known.items()}
    answer = client.get(urls["model.safetensors"])
    assert answer.content == b"bytes"
    assert client.get(urls["model.safetensors"], headers={"Range": "bytes=1-2"}).content == b"yt"
    beyond = client.get(urls["model.safetensors"], headers={"Range": "bytes=9-"})
    assert (beyond.status_code, beyond.headers["Content-Range"]) == (416, "bytes */5")
    assert answer.headers["Content-Disposition"].startswith("attachment")
    assert urls["model.safetensors"] in text
    assert client.get(urls["optimizer.pt"]).status_code == 404
    assert urls["optimizer.pt"] not in text


def test_the_step_chooser_leads_to_a_step(client: Client) -> None:
    job = runs_seed.training_job(steps=3, environments=0)
    home = reverse("runs:steps", args=[job.public_id])
    assert client.get(f"{home}?n=2").headers["Location"] == reverse("runs:step", args=[job.public_id, 2])
    assert client.get(f"{home}?n=<b>").headers["Location"] == reverse("runs:job", args=[job.public_id])


@pytest.mark.parametrize(
    "query", ["?from=x&to=-1&show=nothing&measure=%00", "?tab=zzz", "?from=9&to=3", "?environment=%00"]
)
def test_an_address_that_does_not_fit_shows_the_page(client: Client, query: str) -> None:
    job = runs_seed.training_job(steps=5, environments=2)
    page(client, job, query=query)
    points(client, job, query)


def test_acts_are_offered_where_they_can_be_done(client: Client) -> None:
    job = runs_seed.training_job(steps=5, environments=0)
    client.post(reverse("runs:pause", args=[job.public_id]))
    job.refresh_from_db()
    assert job.wish == "pause"
    assert "pause asked for" in page(client, job)
    client.post(reverse("runs:resume", args=[job.public_id]))
    job.refresh_from_db()
    assert job.wish == ""
    client.post(reverse("runs:cancel", args=[job.public_id]))
    job.refresh_from_db()
    assert job.wish == "cancel"
    again = client.post(reverse("runs:pause", args=[job.public_id]), follow=True)
    assert b"is being cancelled" in again.content


def test_the_number_of_queries_does_not_grow_with_steps_or_rollouts(client: Client) -> None:
    counts = []
    for steps, environments in ((60, 2), (200, 12)):
        job = runs_seed.training_job(steps=steps, environments=environments, total_steps=500)
        with CaptureQueriesContext(
            connection,
        ) as asked:
            page(client, job, query="?show=all")
            points(client, job, "?show=all&small=1&x=time")
            page(client, job, query="?tab=events")
            page(client, job, query="?tab=checkpoints")
        counts.append(len(asked))
    assert counts[0] == counts[1]

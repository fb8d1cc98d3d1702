"""The list of training jobs, and their lines on the home page."""

from __future__ import annotations

import re
from html import unescape

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from tests.fixtures import pages_seed, runs_seed
from tests.fixtures.markup import markup
from webapp.runs.job_list import build_job_lines, listed_jobs
from webapp.runs.models import TrainingJob, TrainingState

pytestmark = pytest.mark.django_db
LIST = "/training/"
PART = {"HX-Request": "true", "HX-Target": "training-list"}


def signed(role: str) -> Client:
    client = Client()
    client.force_login(pages_seed.person(role))
    return client


def test_an_empty_list_leads_to_the_demo_and_to_a_new_job() -> None:
    page = markup(signed("researcher").get(LIST))
    assert "No training job yet" in page
    assert 'action="/training/demo/"' in page
    assert page.count('href="/training/new/"') == 2
    viewer = markup(signed("viewer").get(LIST))
    assert "/training/new/" not in viewer
    assert "Ask a researcher" in viewer


def test_a_row_says_how_a_job_is() -> None:
    job = runs_seed.training_job(steps=40, environments=("shop",), total_steps=200, name="Clinic")
    [line] = build_job_lines(listed_jobs())
    assert (line.what, line.number) == ("reward", job.keys.get(name="reward").last_value)
    held_out = job.keys.get(name="evaluation/success")
    assert (line.before, line.after) == (held_out.points.get(step=1).value, held_out.points.get(step=40).value)
    page = markup(signed("viewer").get(LIST))
    assert "40 tasks to learn from, 12 held out; split by environment" in page
    assert re.search(r'<meter min="0" max="200" value="40" aria-label="Step 40 of 200">', page)
    assert f'href="/training/{job.public_id}/"' in page


def test_superseded_points_are_not_what_it_was_before() -> None:
    job = runs_seed.training_job(steps=40, environments=())
    first = job.keys.get(name="evaluation/success").points.get(step=1)
    first.superseded = True
    first.save()
    [line] = build_job_lines(listed_jobs())
    assert line.before == job.keys.get(name="evaluation/success").points.get(step=20).value


def test_sft_shows_its_loss_and_one_evaluation_is_no_change() -> None:
    runs_seed.training_job(steps=3, environments=(), method="supervised")
    rl = runs_seed.training_job(steps=1, environments=())
    last, first = build_job_lines(listed_jobs())
    assert (first.what, first.before, first.after) == ("loss", None, None)
    assert last.job == rl
    assert last.before is not None
    assert last.after is None


def test_states_and_datasets_filter_the_list() -> None:
    jobs = {
        state: runs_seed.training_job(steps=0, environments=(), state=state, name=f"is {state}")
        for state in TrainingState.values
    }
    client = signed("viewer")
    for state in TrainingState.values:
        page = markup(client.get(f"{LIST}?state={state}"))
        assert [one for one in TrainingState.values if f">is {one}<" in page] == [state]
    one = jobs["failed"].dataset
    page = markup(client.get(f"{LIST}?dataset={one.public_id}"))
    assert page.count("<tr data-row ") == 1
    assert "Nothing matches" in markup(client.get(f"{LIST}?dataset=ds-none"))
    assert client.get(f"{LIST}?state=nonsense&dataset=%00&after=%00").status_code == 200


def test_why_a_job_stands_still_is_in_its_row() -> None:
    runs_seed.training_job(steps=0, environments=(), state="failed", error="Out of memory: lower <it>")
    runs_seed.training_job(steps=0, environments=(), state="paused", reason="3 of 4 attempts were lost")
    page = markup(signed("viewer").get(LIST))
    assert "Out of memory: lower &lt;it&gt;" in page
    assert "3 of 4 attempts were lost" in page


def test_the_live_part_is_the_table_alone_and_keeps_the_page() -> None:
    for number in range(3):
        runs_seed.training_job(steps=0, environments=(), name=f"job {number}")
    client = signed("viewer")
    part = markup(client.get(f"{LIST}?state=running", headers=PART))
    assert "<html" not in part
    assert 'data-live="training-jobs"' in part
    assert 'data-live-url="/training/?state=running"' in part


def test_a_long_list_is_paged_at_a_steady_price() -> None:
    first = runs_seed.training_job(steps=20, environments=(), name="the first")
    client = signed("viewer")
    client.get(LIST)
    with CaptureQueriesContext(connection) as one:
        client.get(LIST)
    copies = [
        TrainingJob(
            name=f"job {n}",
            method="reinforcement",
            model="m",
            dataset=first.dataset,
            worker=first.worker,
            worker_name=first.worker_name,
            after=first,
        )
        for n in range(120)
    ]
    TrainingJob.objects.bulk_create(copies)
    with CaptureQueriesContext(connection) as many:
        page = markup(client.get(LIST))
    assert len(many) <= len(one) + 1  # a list of more than a page is counted
    seen: list[str] = []
    url = LIST
    for _ in range(4):
        page = markup(client.get(url))
        seen += re.findall(r'data-row-link title="(job \d+|the first) ', page)
        found = re.search(r'href="(/training/\?after=[^"]+)" rel="next"', page)
        if found is None:
            break
        url = unescape(found.group(1))
    assert len(seen) == len(set(seen)) == 121


def test_the_home_page_shows_what_runs_and_hides_what_ended() -> None:
    runs_seed.training_job(steps=10, environments=(), name="Learning now", total_steps=50)
    runs_seed.training_job(steps=10, environments=(), name="Long done", state="succeeded")
    page = markup(signed("viewer").get("/"))
    assert "Learning now" in page
    assert "step 10 of 50" in page
    assert "Long done" not in page


def test_own_jobs_that_stand_still_wait_on_the_home_page() -> None:
    client = signed("researcher")
    mine = {"created_by": pages_seed.User.objects.get(username="the-researcher"), "steps": 0, "environments": ()}
    runs_seed.training_job(name="Stopped", state="paused", reason="3 of 4 attempts were lost", **mine)
    runs_seed.training_job(name="Broken", state="failed", error="Out of memory", **mine)
    runs_seed.training_job(name="Of another", state="failed", steps=0, environments=())
    page = markup(client.get("/"))
    waits = page[page.index('id="waits"') : page.index('id="runs"')]
    assert "Stopped" in waits
    assert "3 of 4 attempts were lost" in waits
    assert "Out of memory" in waits
    assert "Of another" not in waits


def test_hostile_names_stay_text() -> None:
    job = runs_seed.training_job(steps=0, environments=(), name=pages_seed.EVIL[:200], model=pages_seed.EVIL[:300])
    job.dataset.name = pages_seed.EVIL[:200]
    job.dataset.save()
    client = signed("viewer")
    for url in (LIST, "/"):
        page = markup(client.get(url))
        assert "<script>window.hit" not in page
        assert "\u202e" not in page

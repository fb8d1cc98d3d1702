"""The page of workers: who is here and what each does, who was lost, who is gone, how to start one."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from tests.fixtures import pages_seed, runs_seed
from tests.fixtures.markup import markup
from webapp.workers import registration, worker_lines
from webapp.workers.models import Worker

pytestmark = pytest.mark.django_db
PAGE = "/training/workers/"
PART = {"HX-Request": "true", "HX-Target": "workers"}


def signed(role: str = "viewer") -> Client:
    client = Client()
    client.force_login(pages_seed.person(role))
    return client


def away(**how: int) -> Any:
    return timezone.now() - timedelta(**how)


def test_without_a_worker_the_page_says_what_happens_and_how_to_start_one() -> None:
    page = markup(signed("operator").get(PAGE))
    assert "No workers" in page
    assert "python -m training.worker --url http://testserver" in page
    assert 'hx-get="/training/install/"' in page
    assert 'href="/account/tokens/"' in page
    assert "which operators and administrators can make" in markup(signed().get(PAGE))


def test_each_worker_stands_with_its_state_and_its_job() -> None:
    job = runs_seed.training_job(steps=12, environments=(), total_steps=50, name="Learning now")
    runs_seed.worker("idle-one")
    runs_seed.worker("lost-one", seen_at=away(minutes=10))
    runs_seed.worker("old-one", seen_at=away(days=3))
    runs_seed.worker("parted", stopped_at=timezone.now())
    assert job.worker
    states = {line.worker.name: line.state for line in worker_lines.list_current_lines()}
    assert states == {job.worker_name: "working", "idle-one": "idle", "lost-one": "lost"}
    assert {row.name for row in registration.former_workers()} == {"old-one", "parted"}
    page = markup(signed().get(PAGE))
    assert "step 12 of 50" in page
    assert f'href="/training/{job.public_id}/"' in page
    assert page.index("lost-one") < page.index("Start a worker on another machine") < page.index("parted")


def test_what_was_lost_and_replaced_is_folded_away_and_forgotten_if_it_did_nothing() -> None:
    held = Worker.objects.get(public_id=runs_seed.training_job(steps=2, environments=()).worker)
    assert held is not None
    owner = pages_seed.person("operator")
    runs_seed.worker("box", seen_at=away(minutes=10), created_by=owner)
    assert [line.state for line in worker_lines.list_current_lines() if line.worker.name == "box"] == ["lost"]
    runs_seed.worker("box", created_by=owner)
    assert [line.state for line in worker_lines.list_current_lines() if line.worker.name == "box"] == ["idle"]
    assert registration.former_workers().get().name == "box"
    runs_seed.worker("box", host="box-2", seen_at=away(minutes=10), created_by=owner)  # another place
    assert "lost" in [line.state for line in worker_lines.list_current_lines()]
    Worker.objects.filter(pk=held.pk).update(seen_at=away(days=2))
    runs_seed.worker("idle for long", seen_at=away(days=2), stopped_at=away(days=2))
    assert registration.forget_workers() == 1
    assert set(registration.former_workers()) >= {held}


def test_devices_show_what_is_used_of_them() -> None:
    gpu = {"name": "H100", "used_mib": 61_000, "total_mib": 81_559, "utilisation": 0.93}
    runs_seed.worker("gpu", usage={"memory_mib": 12_000, "gpus": [gpu]})
    page = markup(signed().get(PAGE))
    assert '<meter min="0" max="81559" value="61000"' in page
    assert "93 % busy" in page
    assert "12,000 MiB of main memory" in page


@pytest.mark.parametrize(
    "said",
    [
        {"devices": ["x", None, {"name": None, "memory_mib": "many"}], "usage": {"gpus": "none"}},
        {"devices": [{"memory_mib": -5}], "usage": {"gpus": [{"used_mib": 10**30, "utilisation": 7}]}},
        {"devices": {}, "usage": {}, "software": {}, "engines": []},
        {"name": pages_seed.EVIL[:200], "host": pages_seed.EVIL[:200], "version": pages_seed.EVIL[:40]}
        | {"devices": [{"name": pages_seed.EVIL, "memory_mib": 5}], "software": {pages_seed.EVIL: pages_seed.EVIL}},
    ],
)
def test_what_a_worker_says_breaks_nothing(said: dict[str, Any]) -> None:
    runs_seed.worker(**{"name": "odd", **said})
    answer = signed().get(PAGE)
    assert answer.status_code == 200
    assert "<script>window.hit" not in markup(answer)
    assert "\u202e" not in markup(answer)


def test_the_live_part_is_the_table_alone() -> None:
    runs_seed.worker("here")
    part = markup(signed().get(PAGE, headers=PART))
    assert "<html" not in part
    assert 'data-live="training-workers"' in part
    assert "Start a worker on another machine" not in part


def test_many_workers_are_shown_at_a_steady_price() -> None:
    runs_seed.training_job(steps=0, environments=())
    client = signed()
    client.get(PAGE)
    with CaptureQueriesContext(connection) as few:
        client.get(PAGE)
    now = timezone.now()
    Worker.objects.bulk_create(Worker(name=f"w{n}", seen_at=now) for n in range(300))
    Worker.objects.bulk_create(Worker(name=f"gone{n}", seen_at=now, stopped_at=now) for n in range(60))
    with CaptureQueriesContext(connection) as many:
        page = markup(client.get(PAGE))
    assert len(many) <= len(few) + 3  # what those that are gone train and serve, and how many there are
    assert "The 200 that reported last" in page
    assert page.count(">gone") == workers_page_size()


def workers_page_size() -> int:
    from webapp.workers.worker_views import PAGE as size

    return size

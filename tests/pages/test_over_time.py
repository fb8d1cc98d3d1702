"""Outcomes and cost by day: filled days, only the last ones, without the demo; the charts have tables beside them."""

from __future__ import annotations

import json
import re
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from tests.fixtures import pages_seed, replay_seed
from tests.fixtures.markup import flat
from training.examples.records import SOURCE
from webapp.batches.models import Body, LLMCall
from webapp.common.content_store import store_values
from webapp.environments.models import Environment
from webapp.pages.statistics import over_time as module
from webapp.pages.statistics.over_time import compute_daily_statistics
from webapp.trajectories.models import Trajectory

pytestmark = pytest.mark.django_db


def attempt(outcome: str, days_ago: int) -> Trajectory:
    first = Trajectory.objects.first() or replay_seed.make(replay_seed.ordinary())
    first.pk, first.key = None, f"{outcome}{days_ago}{Trajectory.objects.count()}"
    first.outcome, first.content_hash = outcome, f"{Trajectory.objects.count():064}"
    first.save()
    Trajectory.objects.filter(pk=first.pk).update(created_at=timezone.now() - timedelta(days=days_ago))
    return first


def call(key: str, cost: float | None, days_ago: int) -> None:
    store_values(Body, [{"call": key}])
    row = LLMCall.objects.create(
        request=Body.objects.latest("pk"),
        key=key,
        path="p",
        role="author",
        stage="s",
        model="m",
        cost=cost,
        state="done",
    )
    LLMCall.objects.filter(pk=row.pk).update(created_at=timezone.now() - timedelta(days=days_ago))


@pytest.fixture
def days(db: None) -> None:
    replay_seed.make(replay_seed.ordinary())
    Trajectory.objects.update(created_at=timezone.now() - timedelta(days=90))
    for outcome, ago in (("solved", 3), ("failed", 3), ("failed", 0), ("", 0)):
        attempt(outcome, ago)
    for number, (cost, ago) in enumerate(((0.5, 2), (0.25, 2), (None, 0), (9.0, 90))):
        call(f"call{number}", cost, ago)


def test_days_without_any_are_drawn_too_and_old_ones_are_not(days: None) -> None:
    found = compute_daily_statistics()
    assert found.outcomes is not None
    assert found.outcomes.names == ("solved", "failed", "not scored")
    assert [counts for _, counts in found.outcomes.rows] == [(1, 1, 0), (0, 0, 0), (0, 0, 0), (0, 1, 1)]
    assert [(row.calls, row.cost, row.unpriced) for row in found.costs] == [(2, 0.75, 0), (0, 0.0, 0), (1, 0.0, 1)]
    assert not found.cut


def test_every_count_leads_to_the_attempts_of_that_day(days: None, page: Client) -> None:
    found = compute_daily_statistics().outcomes
    assert found is not None
    counted = 0
    for _, pairs in found.linked_rows:
        for count, url in pairs:
            assert bool(url) == bool(count)
            if url:
                counted += count
                assert page.get(url).context["page"].count.number == count, url
    assert counted == 4
    assert [bool(url) for url in found.drawing["links"][0]] == [True, False, False, False]
    day = found.rows[0][0]
    html = flat(page.get(f"/trajectories/?day={day}&order=policy"))
    assert "Made on" in html
    assert page.get(f"/api/v1/trajectories?day={day}&order=-step_count").json()["data"][0]["id"]
    Environment.objects.update(source=SOURCE)
    assert page.get(f"/trajectories/?day={day}&leave_out={SOURCE}").context["page"].rows == []
    for odd in ("yesterday", "9999-12-31", "0001-01-01", "\u0000"):
        assert page.get("/trajectories/", {"day": odd}).status_code == 200


def test_many_rows_are_bounded_and_said_so(days: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "NEWEST", 1)
    found = compute_daily_statistics()
    assert found.cut
    assert found.outcomes is not None
    assert sum(sum(counts) for _, counts in found.outcomes.rows) == 1


def test_the_demo_is_left_out_and_nothing_is_drawn_of_nothing(days: None, page: Client) -> None:
    html = flat(page.get("/ecosystem/"))
    assert "Attempts by outcome" in html
    assert html.count("As a table") == 2
    data = re.search(r'<script id="outcomes-data" type="application/json">(.*?)</script>', html)
    assert data is not None
    assert json.loads(data[1])["series"] == [[1, 0, 0, 0], [1, 0, 0, 1], [0, 0, 0, 1]]
    Environment.objects.update(source=SOURCE)
    assert compute_daily_statistics().outcomes is None
    assert compute_daily_statistics(demo=True).outcomes is not None
    assert "cost-data" in html
    LLMCall.objects.update(cost=None)
    unpriced = flat(page.get("/ecosystem/"))
    assert "had no known price" in unpriced
    assert "cost-data" not in unpriced, "no empty frame"
    LLMCall.objects.all().delete()
    empty = flat(page.get("/ecosystem/"))
    assert "Over time" not in empty
    assert "plotly" not in empty
    assert "Over time" not in flat(page.get("/ecosystem/?category=Health"))
    assert pages_seed.person("viewer")

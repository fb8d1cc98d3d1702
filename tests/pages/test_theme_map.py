"""The theme map: likes lie together, themes are drawn, and what has grown from them is said."""

from __future__ import annotations

import json

import pytest
from django.test import Client

from synthesis.formats.files import parse_entries
from synthesis.themes.keys import slug
from synthesis.themes.layout import layout
from tests.pages.test_ecosystem import USERS, a_batch, body, environment, three
from tests.taxonomy.samples import server
from webapp.batches.models import Batch
from webapp.environments.models import Environment
from webapp.pages.statistics.scope import Scope
from webapp.pages.statistics.theme_map import theme_map
from webapp.taxonomy.importer import import_servers
from webapp.taxonomy.models import Theme
from webapp.taxonomy.theme_services import draft_of

pytestmark = pytest.mark.django_db


def test_likes_lie_together() -> None:
    fish, fowl = "A fish market where boats land and crates are sold", "A school timetable of rooms and teachers"
    places = layout([fish, fowl, fish, fowl + " and pupils"])
    assert [place.nearest for place in places] == [2, 3, 0, 1]
    assert places[0].similarity == pytest.approx(1.0)
    assert abs(places[0].x - places[2].x) < 1e-6
    assert abs(places[0].x - places[1].x) > 0.8
    assert layout([fish, fowl]) == layout([fish, fowl])
    assert layout([]) == []
    assert layout([fish])[0].nearest is None
    assert len(layout(["", "", ""])) == 3


def test_the_map_of_a_batch_has_what_came_to_nothing() -> None:
    first, *_ = three()
    batch, *_ = a_batch(first)
    spec = {"theme": {"key": "pond", "name": "Fish pond", "description": "Fish and water."}}
    dropped = batch.items.create(level="theme", path="pond", stage="plan", state="rejected", spec=spec)
    found = theme_map(Scope(batch=batch))
    assert [(point.theme.name, point.theme.state) for point in found.points] == [
        ("Desk a", "kept"),
        ("Fish pond", "rejected"),
    ]
    assert found.dropped
    assert found.points[1].theme.url == f"/batches/items/{dropped.pk}/"
    assert [point.theme.environment for point in found.points] == [f"/environments/{first.environment_id}/", ""]


def test_the_map_of_all_draws_themes_and_says_which_have_grown(page: Client) -> None:
    """Themes of the taxonomy, then those that only a batch knows; environments from elsewhere are no themes."""
    three()
    servers = [server(number, name=name) for number, name in enumerate(("Dam", "Mill"))]
    assert import_servers(parse_entries(json.dumps(servers).encode()))["themes"]["created"] == 2
    mill = Theme.objects.get(name="Mill")
    grown = environment("m", 1, [USERS], "q").environment
    Environment.objects.filter(pk=grown.pk).update(source="scripted", key=slug(draft_of(mill).key))
    batch = Batch.objects.create(name="Typed")
    spec = {"theme": {"key": "pond", "name": "Fish pond", "description": "Fish."}}
    item = batch.items.create(level="theme", path="pond", stage="plan", state="rejected", spec=spec)
    found = [(point.theme.name, point.theme.environment, point.theme.url) for point in theme_map(Scope()).points]
    assert found == [
        ("Mill", f"/environments/{grown.pk}/", f"/taxonomy/themes/{mill.pk}/"),
        ("Dam", "", f"/taxonomy/themes/{Theme.objects.get(name='Dam').pk}/"),
        ("Fish pond", "", f"/batches/items/{item.pk}/"),
    ]
    assert [point.theme.name for point in theme_map(Scope(source="scripted")).points] == ["Mill"]
    assert theme_map(Scope(source="envscaler")).points == []
    shown = body(page, "/ecosystem/themes/")
    assert "has grown from it yet" in shown
    told = page.get("/api/v1/ecosystem/themes").json()["points"]
    assert [(one["name"], one["grown"]) for one in told] == [("Mill", True), ("Dam", False), ("Fish pond", False)]

"""The theme map: likes lie together, themes are drawn, and what has grown from them is said."""

from __future__ import annotations

import json

import pytest
from django.test import Client

from synthesis.formats.files import parse_entries
from synthesis.themes.keys import build_slug
from synthesis.themes.layout import compute_layout
from tests.pages.test_ecosystem import USERS, a_batch, body, environment, three
from tests.taxonomy.samples import server
from webapp.batches.models import Batch
from webapp.environments.models import Environment
from webapp.pages.models import ThemeLayout
from webapp.pages.statistics.scope import Scope
from webapp.pages.theme_map import plane
from webapp.pages.theme_map.plane import MapChoice, ThemeMap, draw_theme_map, list_map_themes
from webapp.taxonomy.importer import import_servers
from webapp.taxonomy.labels import FIRST_LEVEL
from webapp.taxonomy.models import Theme
from webapp.taxonomy.theme_services import build_theme_draft

pytestmark = pytest.mark.django_db


def theme_map(scope: Scope, choice: MapChoice | None = None) -> ThemeMap:
    chosen = choice or MapChoice()
    return draw_theme_map(*list_map_themes(scope, chosen), chosen)


def test_likes_lie_together() -> None:
    fish, fowl = "A fish market where boats land and crates are sold", "A school timetable of rooms and teachers"
    places = compute_layout([fish, fowl, fish, fowl + " and pupils"])
    assert [place.nearest for place in places] == [2, 3, 0, 1]
    assert places[0].similarity == pytest.approx(1.0)
    assert abs(places[0].x - places[2].x) < 1e-6
    assert abs(places[0].x - places[1].x) > 0.8
    assert compute_layout([fish, fowl]) == compute_layout([fish, fowl])
    assert compute_layout([]) == []
    assert compute_layout([fish])[0].nearest is None
    assert len(compute_layout(["", "", ""])) == 3


def test_neighbours_of_many_texts_lie_together() -> None:
    """Each text lies nearer to the texts of its own subject than to those of the others."""
    subjects = (
        "boats land fish at the harbour market",
        "pupils and rooms of a school timetable",
        "snow and wind tomorrow",
    )
    texts = [f"{subject} number {at} {at * 7 % 31}" for at in range(30) for subject in subjects]
    places = compute_layout(texts)
    assert places == compute_layout(texts)
    assert all(place.nearest is not None and place.nearest % 3 == at % 3 for at, place in enumerate(places))
    middles = [
        (sum(p.x for p in places[at::3]) / 30, sum(p.y for p in places[at::3]) / 30) for at in range(len(subjects))
    ]
    for at, place in enumerate(places):
        distances = [(place.x - x) ** 2 + (place.y - y) ** 2 for x, y in middles]
        assert distances.index(min(distances)) == at % 3


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
    Environment.objects.filter(pk=grown.pk).update(source="scripted", key=build_slug(build_theme_draft(mill).key))
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


def test_labels_colour_the_map_and_narrow_it(page: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    others = [name for name in FIRST_LEVEL if name != "Weather"][:9]
    servers = [server(number, name=f"Dam {number}") for number in range(12)]
    servers += [server(number, name=f"Mill {number}", primary_label=others[number % 9]) for number in range(12, 62)]
    import_servers(parse_entries(json.dumps(servers).encode()))
    found = theme_map(Scope())
    assert [(one.name, one.count) for one in found.labels[:1]] == [("Weather", 12)]
    assert [one.colour for one in found.labels] == [1, 2, 3, 4, 5, 6, 7, 8, 0, 0]
    assert [bool(one.left) for one in found.labels] == [True] * 8 + [False] * 2
    narrowed = theme_map(Scope(), MapChoice(label="Weather", find="dam 1"))
    assert {point.theme.name for point in narrowed.chosen} == {"Dam 1", "Dam 10", "Dam 11"}
    assert len(narrowed.points) == 62
    alone = theme_map(Scope(), MapChoice(label="Weather", alone=True))
    assert {point.label for point in alone.points} == {"API Integration"}
    assert len(alone.points) == 12
    shown = body(page, "/ecosystem/themes/?label=Weather&find=dam")
    assert "12 of 62" in shown
    assert shown.count("data-row-link") == 12
    assert "51 to 62 of 62" in body(page, "/ecosystem/themes/?start=50")
    assert "No theme matches" in body(page, "/ecosystem/themes/?find=zzz")
    assert "No theme hangs on" in body(page, "/ecosystem/themes/?label=zzz&alone=1")
    ThemeLayout.objects.all().delete()
    monkeypatch.setattr(plane, "QUICK_UP_TO", 5)
    waiting = body(page, "/ecosystem/themes/")
    assert "Places are being computed for 62 themes" in waiting
    assert 'hx-trigger="load"' in waiting
    assert "Most like" in body(page, "/ecosystem/themes/", HX_Request="true", HX_Target="theme-map")
    assert "Most like" in body(page, "/ecosystem/themes/"), "the places are kept"

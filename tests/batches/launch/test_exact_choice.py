"""Themes and environments that are chosen one by one: Grow this, Grow these, Assess; on the page and by API."""

from __future__ import annotations

import re
from html import unescape

import pytest
from django.test import Client

from tests.batches.launch.launch_form import DESK, NEW, filled, signed, start
from tests.fixtures import pages_seed
from tests.fixtures.api import program
from tests.fixtures.markup import markup
from webapp.batches.models import Batch
from webapp.environments.models import Environment
from webapp.taxonomy.models import Theme
from webapp.taxonomy.theme_services import save_typed_theme

pytestmark = pytest.mark.django_db(transaction=True)
HTMX = {"HX-Request": "true"}


@pytest.fixture
def researcher() -> Client:
    return signed("researcher")


@pytest.fixture
def themes() -> list[Theme]:
    for name in ("Box desk", "Ship desk", "Box desk of ships <b>"):
        save_typed_theme(None, name, DESK, "Trade")
    return list(Theme.objects.order_by("pk"))


def link(client: Client, page: str, words: str) -> str:
    """The address of the link with these words on a page."""
    found = re.search(rf'href="(/batches/new/[^"]+)"[^>]*>\s*{words}', markup(client.get(page)))
    assert found is not None, page
    return unescape(found[1])


def names(batch: Batch) -> list[str]:
    specs = [item.spec for item in batch.items.order_by("position")]
    return [(spec.get("theme") or spec["environment"])["name"] for spec in specs]


def test_a_theme_is_grown_from_its_page_and_from_its_row(researcher: Client, themes: list[Theme]) -> None:
    box = themes[0]
    there = link(researcher, f"/taxonomy/themes/{box.pk}/", "Grow this")
    assert (
        there == link(researcher, "/taxonomy/themes/?q=Box+desk&sort=old", "Grow this") == f"{NEW}?themes_ids={box.pk}"
    )
    fields = filled(researcher, there)
    assert (fields.get("bundled"), fields["themes_ids"], fields.get("use_themes")) == (None, [str(box.pk)], None)
    page = markup(researcher.get(there))
    assert '<label class="chip set">' in page
    assert "all items will be refused" in page
    part = markup(researcher.post(f"{NEW}estimate/", fields, headers=HTMX))
    assert "<b>1</b> environment," in part
    assert "1 of the chosen themes" in part
    for sent, said in (
        (fields, "The only item will be refused:</b> Box desk."),
        (filled(researcher, NEW), "Ready to start."),
    ):
        assert said in markup(researcher.post(f"{NEW}readiness/", sent, headers=HTMX))
    assert "It cannot start: a dry run" in markup(researcher.post(f"{NEW}readiness/", {}, headers=HTMX))
    start(researcher, fields)
    assert names(Batch.objects.get()) == ["Box desk"], "not the other that is called so too"


def test_ticked_ones_are_grown_and_one_can_be_taken_away(researcher: Client, themes: list[Theme]) -> None:
    ticked = "&".join(f"ids={theme.pk}" for theme in themes)
    fields = filled(researcher, f"{NEW}?grow=themes&{ticked}")
    assert fields["themes_ids"] == [str(theme.pk) for theme in themes]
    page = markup(researcher.get(f"{NEW}?grow=themes&{ticked}"))
    assert "Box desk of ships &lt;b&gt;" in page
    start(researcher, fields | {"themes_ids": fields["themes_ids"][1:]})
    assert names(Batch.objects.get()) == ["Ship desk", "Box desk of ships <b>"]
    assert "themes_ids=" in link(researcher, f"/taxonomy/themes/?{ticked}", "Grow environments")


def test_what_is_gone_is_said_and_nothing_is_launched(researcher: Client, themes: list[Theme]) -> None:
    fields = filled(researcher, f"{NEW}?themes_ids={themes[0].pk}")
    answer = start(researcher, fields | {"themes_ids": [str(themes[0].pk), "987654321"]})
    assert answer.status_code == 422
    assert "This theme is not there any more: 987654321" in markup(answer)
    for odd in ("themes_ids=abc", "grow=themes&ids=%00", "grow=nothing&ids=1", "themes_ids=" + "9" * 40):
        assert filled(researcher, f"{NEW}?{odd}").get("themes_ids") is None
    assert not Batch.objects.exists()


def test_assess_is_a_batch_of_exactly_this_environment_with_nothing_below(researcher: Client) -> None:
    front, _ = pages_seed.environment("Front desk"), pages_seed.environment("Front desk", key="other")
    there = link(researcher, f"/environments/{front.pk}/", "Assess")
    fields = filled(researcher, there)
    assert (fields["environments_ids"], fields["reassess"], fields["scenarios"]) == ([str(front.pk)], ["on"], ["0"])
    assert "<b>1</b> environment" in markup(researcher.post(f"{NEW}estimate/", fields, headers=HTMX))
    start(researcher, fields)
    batch = Batch.objects.get()
    assert batch.items.get().spec["version"] == Environment.objects.get(pk=front.pk).current_id
    assert (batch.settings["stages"]["reassess"], batch.settings["stages"]["scenarios"]) == (True, 0)
    assert filled(researcher, link(researcher, f"/environments/{front.pk}/", "Grow more"))["scenarios"] == ["2"]


def test_viewers_are_offered_neither(themes: list[Theme]) -> None:
    row, viewer = pages_seed.environment("Front desk"), signed("viewer")
    for page in ("/taxonomy/themes/", f"/taxonomy/themes/{themes[0].pk}/", f"/environments/{row.pk}/"):
        assert "/batches/new/" not in markup(viewer.get(page))


def test_the_api_takes_the_same_ids(themes: list[Theme]) -> None:
    row = pages_seed.environment("Front desk")
    caller = program(pages_seed.person("operator"), "read", "synthesise")
    body = {"theme_ids": [themes[1].pk], "environment_ids": [row.pk], "start": False}
    body["settings"] = {"stages": {"reassess": True, "scenarios": 0}}
    assert caller.post("/batches/dry_run", body).json()["items"] == {
        "theme": 2,
        "scenario": 0,
        "task": 0,
        "trajectory": 0,
    }
    assert caller.post("/batches", body).status_code == 202
    assert names(Batch.objects.get()) == ["Ship desk", "Front desk"]

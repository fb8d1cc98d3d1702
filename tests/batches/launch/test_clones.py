"""A clone takes the items of a batch that are chosen, on its form and by API."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from synthesis.pipeline import ENVSCALER
from synthesis.scripted import list_bundled_themes as bundled_themes
from tests.batches.launch.launch_form import filled, signed
from tests.batches.table import theme
from tests.fixtures import pages_seed
from tests.fixtures.api import problem, program
from tests.fixtures.markup import flat, words
from webapp.batches.launch import clone_views
from webapp.batches.models import Batch
from webapp.batches.services import build_theme_spec, create_batch
from webapp.batches.spec import BatchSettings

pytestmark = pytest.mark.django_db(transaction=True)
HTMX = {"HX-Request": "true"}


@pytest.fixture
def researcher() -> Client:
    return signed("researcher")


def make_origin(count: int = 0) -> Batch:
    drafts = [theme(f"theme-{number}") for number in range(count)] or bundled_themes()
    return create_batch(
        None, "First", [build_theme_spec(one) for one in drafts], BatchSettings(), ENVSCALER, start=False
    )


def paths(batch: Batch) -> list[str]:
    return list(batch.items.order_by("position").values_list("path", flat=True))


def test_the_items_are_listed_all_ticked_and_those_left_out_are_not_grown(researcher: Client) -> None:
    origin = make_origin()
    url = f"/batches/{origin.pk}/clone/"
    fields = filled(researcher, url)
    items = [str(item.pk) for item in origin.items.order_by("position")]
    assert fields["items"] == items
    page = flat(researcher.get(url))
    for draft in bundled_themes():
        assert f"<b>{draft.name}</b>" in page
    assert "6 of 6 chosen" in words(page)
    few = fields | {"items": items[1:3]}
    dry = flat(researcher.post(f"{url}estimate/", few, headers=HTMX))
    assert "<b>2</b> environments" in dry
    assert "4 of 6 items are left out." in words(flat(researcher.post(f"{url}differences/", few, headers=HTMX)))
    researcher.post(url, few | {"act": "draft"})
    clone = Batch.objects.get(cloned_from=origin)
    assert paths(clone) == paths(origin)[1:3]


def test_none_and_items_of_another_batch_are_refused_and_the_ticks_stay(researcher: Client) -> None:
    origin, other = make_origin(), make_origin(2)
    url = f"/batches/{origin.pk}/clone/"
    fields = filled(researcher, url)
    answer = researcher.post(url, fields | {"items": [], "act": "start"})
    assert answer.status_code == 422
    assert "Choose at least one item." in flat(answer)
    assert "0 of 6 chosen" in words(flat(answer))
    strange = other.items.first()
    assert strange is not None
    answer = researcher.post(url, fields | {"items": [str(strange.pk)], "act": "start"})
    assert answer.status_code == 422
    assert "does not belong to this batch" in flat(answer)
    assert not Batch.objects.filter(cloned_from=origin).exists()


def test_of_more_items_than_are_listed_the_others_have_one_tick(
    researcher: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clone_views, "LISTED_ITEMS", 3)
    origin = make_origin(8)
    url = f"/batches/{origin.pk}/clone/"
    fields = filled(researcher, url)
    assert (len(fields["items"]), fields["rest"]) == (3, ["on"])
    assert "and the other 5 items" in words(flat(researcher.get(url)))
    researcher.post(url, fields | {"items": fields["items"][:1], "act": "draft"})
    assert paths(Batch.objects.get(cloned_from=origin)) == ["theme-0", *(f"theme-{number}" for number in range(3, 8))]
    fields = {name: value for name, value in filled(researcher, url).items() if name != "rest"}
    researcher.post(url, fields | {"act": "draft"})
    newest = Batch.objects.filter(cloned_from=origin).latest("pk")
    assert paths(newest) == ["theme-0", "theme-1", "theme-2"]


def test_a_clone_of_hundreds_of_items_is_a_bounded_list(researcher: Client) -> None:
    origin = make_origin(900)
    page = researcher.get(f"/batches/{origin.pk}/clone/").content.decode()
    assert len(re.findall(r'name="items"', page)) == clone_views.LISTED_ITEMS
    answer = researcher.post(f"/batches/{origin.pk}/clone/", filled(researcher, f"/batches/{origin.pk}/clone/"))
    assert answer.status_code == 302
    assert Batch.objects.get(cloned_from=origin).items.count() == 900


def test_the_api_takes_items() -> None:
    caller = program(pages_seed.person("operator"), "read", "synthesise")
    origin, other = make_origin(), make_origin(1)
    items = [item.pk for item in origin.items.order_by("position")]
    body = {"items": [items[4], items[0]], "start": False}
    clone = caller.post(f"/batches/{origin.pk}/clone", body).json()
    assert paths(Batch.objects.get(pk=clone["id"])) == [paths(origin)[0], paths(origin)[4]]
    strange = [item.pk for item in other.items.all()]
    said = problem(caller.post(f"/batches/{origin.pk}/clone", {"items": strange}), 422)["detail"]
    assert said.startswith(f"Batch {origin.pk} did not begin with item {strange[0]}")
    problem(caller.post(f"/batches/{origin.pk}/clone", {"items": []}), 422)

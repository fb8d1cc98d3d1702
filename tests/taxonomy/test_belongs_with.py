"""What a person says of a theme beside others: what it belongs with, where it hangs, and what differs."""

from __future__ import annotations

import pytest
from django.test import Client

from tests.fixtures import pages_seed
from tests.fixtures.markup import flat
from tests.taxonomy.near import folds, plant, theme
from webapp.common.errors import Conflict
from webapp.taxonomy.changes.services import get_serial
from webapp.taxonomy.models import Decision, Node, TreeChange
from webapp.taxonomy.near_duplicates import services
from webapp.taxonomy.near_duplicates.description_diff import diff_words
from webapp.taxonomy.near_duplicates.group_job import regroup_themes
from webapp.taxonomy.near_duplicates.neighbours import find_nearest_themes
from webapp.taxonomy.theme_services import save_typed_theme

pytestmark = pytest.mark.django_db


def test_a_fold_by_hand_stays_when_themes_are_grouped_again_and_can_be_undone(page: Client) -> None:
    plant()
    answer = page.post(f"/taxonomy/themes/{theme(6).pk}/fold-into/", {"into": theme(4).pk}, follow=True)
    assert "can be undone" in flat(answer)
    assert folds() == {"6": "4"}
    regroup_themes(0.85)
    assert folds() == {"1": "2", "3": "2", "4": "5", "6": "5"}, "it follows the theme that is kept now"
    made = Decision.objects.get(kind=Decision.Kind.TOGETHER)
    with pytest.raises(Conflict):
        services.fold_theme(theme(2).pk, theme(1).pk, made.by)
    with pytest.raises(Conflict):
        services.fold_theme(theme(6).pk, theme(4).pk, made.by)
    services.separate_theme(theme(6).pk, made.by)
    assert "6" not in folds()


def test_what_was_folded_into_a_theme_comes_along_and_undo_puts_it_back() -> None:
    person = pages_seed.person("annotator")
    plant()
    regroup_themes(0.85)
    made = services.fold_theme(theme(2).pk, theme(4).pk, person)
    assert folds() == {"1": "5", "2": "5", "3": "5", "4": "5"}
    services.undo_decision(made.pk, person)
    assert folds() == {"1": "2", "3": "2", "4": "5"}


def test_a_new_theme_shows_its_nearest_ones_and_whether_it_was_compared(page: Client) -> None:
    plant()
    _, row = save_typed_theme(None, "Hotel rooms", "Book rooms and check guests in and out at a hotel's front desk.")
    assert {one.theme.name for one in find_nearest_themes(row)[:3]} == {"Hotel desk"}
    url = f"/taxonomy/themes/{row.pk}/neighbours/"
    html = flat(page.get(url))
    assert "not grouped yet" in html
    assert "Hotel desk" in html
    found = flat(page.get(f"{url}?q=bikes"))
    assert "Bikes of a city" in found
    assert "Hotel desk" not in found
    regroup_themes(0.85)
    assert "not grouped yet" not in flat(page.get(url))
    assert "/place/" in flat(page.get(f"/taxonomy/themes/{row.pk}/"))


def test_a_theme_is_placed_and_the_change_is_kept() -> None:
    plant()
    row = theme(6)
    target = Node.objects.get(path="weather")
    client = Client()
    client.force_login(pages_seed.person("operator"))
    url = f"/taxonomy/themes/{row.pk}/place/"
    html = flat(client.get(f"{url}?q=weather"))
    assert f'value="{target.pk}"' in html
    assert client.post(url, {"node": target.pk, "serial": get_serial() + 1}).status_code == 409, "the tree was changed"
    assert client.post(url, {"node": target.pk, "serial": get_serial()}).status_code == 302
    assert theme(6).node_id == target.pk
    change = TreeChange.objects.get()
    assert "Placed the theme “Bikes of a city”" in change.words
    assert change.can_be_undone
    assert client.post(url, {"node": target.pk, "serial": get_serial()}).status_code == 409, "it hangs there already"


def test_groups_are_found_and_show_what_differs(page: Client) -> None:
    plant()
    regroup_themes(0.85)
    html = flat(page.get("/taxonomy/themes/duplicates/?q=in+a+town"))
    assert "Hotel desk" in html
    assert "group-" in html
    assert html.count('<details class="card group"') == 1
    assert "<ins> in a town</ins>" in html
    assert "= get_forecast" in html, "the kept theme has this tool too"
    assert "No group matches" in flat(page.get("/taxonomy/themes/duplicates/?q=zzz"))
    assert [(one.kind, one.text) for one in diff_words("a b c", "a x c")] == [
        ("same", "a "), ("gone", "b"), ("new", "x"), ("same", " c")
    ]  # fmt: skip
    assert diff_words("a b", "a b") == []

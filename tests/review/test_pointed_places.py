"""Places that decisions and remarks point to: they are there, and lead there."""

from __future__ import annotations

import pytest

from tests.fixtures import replay_seed
from tests.review import seed
from tests.review.test_pages import client_of, form_of
from webapp.review.models import Remark, ReviewDecision
from webapp.review.places import link_places, split_typed_places

pytestmark = pytest.mark.django_db
EVIL = "<img src=x onerror=window.hit=1>"


def test_a_decision_points_to_what_is_there_and_the_history_leads_there() -> None:
    task = seed.task("a")
    (ann,) = seed.people("annotator")
    client, address = client_of(ann), f"/review/task/{task.pk}/"
    fields = form_of(client, f"{address}panel/") | {"verdict": "reject", "reasons": "twin", "comment": "See there."}
    for place, words in (
        ("check 3", "There is no check 3: this task has 2 checks."),
        ("step 2", "this reference has 1 step."),
        ("/nosuch/path", "There is no /nosuch/path: the state has desk."),
        (EVIL, "is none."),
        ("line 1", "is none."),
    ):
        page = client.post(f"{address}decide/", fields | {"places": place}, follow=True).content.decode()
        assert words in page
        assert EVIL not in page
        assert "See there." in client.get(f"{address}panel/").content.decode(), "what was filled in is kept"
    assert not ReviewDecision.objects.exists()
    client.post(f"{address}decide/", fields | {"places": ["check 1, step 1, /desk/a", "check 1"]})
    assert ReviewDecision.objects.get().places == ["check 1", "step 1", "/desk/a"]
    for shown in ("/review/history/", f"{address}panel/"):
        page = client.get(shown).content.decode()
        for part in ("check-0", "reference", "initial-state"):
            assert f'href="/tasks/{task.pk}/#{part}"' in page, shown
    whole = client.get(f"/tasks/{task.pk}/").content.decode()
    for part in ("check-0", "reference", "initial-state"):
        assert f'id="{part}"' in whole
    assert 'data-point="check 1"' in whole


def test_a_remark_points_to_a_step_that_is_there() -> None:
    run = replay_seed.make(replay_seed.ordinary())
    (ann,) = seed.people("annotator")
    client, address = client_of(ann), f"/review/trajectory/{run.pk}/remarks/"
    for place in (f"step {run.step_count}", "check 0", "check 999", "/nosuch"):
        refused = client.post(address, {"remark": "comment", "place": place, "text": "Here."})
        assert refused.status_code == 422
        assert f"There is no {place}" in refused.content.decode()
    client.post(address, {"remark": "comment", "place": f"step {run.step_count - 1}", "text": "Here."})
    client.post(address, {"remark": "comment", "place": "step 0", "text": "And here."})
    assert set(Remark.objects.values_list("place", flat=True)) == {"step 0", f"step {run.step_count - 1}"}


def test_what_was_stored_before_places_were_looked_at_leads_nowhere() -> None:
    for kind in ("task", "trajectory", "tool"):
        assert link_places(kind, 1, ["check out", EVIL, "check 0", "step"]) == [
            ("check out", ""), (EVIL, ""), ("check 0", ""), ("step", ""),
        ]  # fmt: skip


def test_several_places_are_typed_in_one_field() -> None:
    assert split_typed_places(["check 3, /orders/1,2, step 4", " check 3 ", ""]) == ["check 3", "/orders/1,2", "step 4"]

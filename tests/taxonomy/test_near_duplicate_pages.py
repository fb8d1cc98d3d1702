"""Pages and API on near-duplicates, typed themes and sources: without a script, and with any text as text."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from tests.fixtures import pages_seed
from tests.fixtures.markup import flat
from tests.taxonomy.near import folds, plant, theme
from tests.taxonomy.samples import entries, server
from webapp.jobs.models import Job
from webapp.taxonomy.importer import import_servers
from webapp.taxonomy.models import Decision, Theme, ThemeSource
from webapp.taxonomy.near_duplicates import services
from webapp.taxonomy.near_duplicates.group_job import regroup_themes
from webapp.taxonomy.theme_services import Judgement, note_judged_text

EVIL = pages_seed.EVIL
DUPLICATES = "/taxonomy/themes/duplicates/"
WORDS = "Staff lend books to members, take them back and keep a waiting list for each title."
NEW = {"name": "Lending desk", "description": WORDS, "category": "Education"}
pytestmark = pytest.mark.django_db


def body(page: Client, url: str, status: int = 200) -> str:
    answer = page.get(url)
    assert answer.status_code == status, url
    return flat(answer)


def said(page: Client, url: str, data: Any = None) -> str:
    """The page that a form leads to."""
    return flat(page.post(url, data or {}, follow=True))


def call(page: Client, method: str, path: str, status: int, data: Any = None) -> Any:
    answer = page.generic(method, f"/api/v1{path}", json.dumps(data) if data is not None else "", "application/json")
    assert answer.status_code == status, answer.content
    return answer.json()


def test_a_person_types_a_theme(page: Client) -> None:
    assert "New theme" in body(page, "/taxonomy/themes/")
    body(page, "/taxonomy/themes/new/")
    html = said(page, "/taxonomy/themes/new/", NEW)
    assert "Lending desk is kept." in html
    assert "typed by a person" in html
    assert "It names no tools" in html
    assert "here already" in said(page, "/taxonomy/themes/new/", NEW)
    strange = NEW | {"name": "Pond desk", "category": "Ponds"}
    refused = page.post("/taxonomy/themes/new/", strange)
    assert refused.status_code == 422
    assert "No label of the first level is called “Ponds”" in flat(refused)
    assert "Pond desk is kept." in said(page, "/taxonomy/themes/new/", strange | {"new_label": "on"})
    assert '<option value="Ponds">' in body(page, "/taxonomy/themes/new/")
    Theme.objects.filter(name="Pond desk").delete()
    bad = page.post("/taxonomy/themes/new/", NEW | {"description": "x" * 1_000_000})
    assert bad.status_code == 422
    assert "at most 10000 characters" in flat(bad)
    assert Theme.objects.count() == 1


def test_the_list_leads_to_grouping_while_themes_were_not_compared(page: Client) -> None:
    plant()
    count = Theme.objects.count()
    assert f"{count} themes were not compared with the others yet" in body(page, "/taxonomy/themes/")
    regroup_themes(0.85)
    assert "not compared" not in body(page, "/taxonomy/themes/")
    said(page, "/taxonomy/themes/new/", NEW)
    assert "not compared" not in body(page, "/taxonomy/themes/"), "one theme alone: its own page says it"


def test_a_theme_by_the_api(page: Client) -> None:
    made = call(page, "POST", "/themes", 201, NEW)
    assert (made["origin"], made["name"], made["tools"]) == ("typed", "Lending desk", [])
    assert call(page, "POST", "/themes", 200, NEW)["id"] == made["id"]
    for wrong in (NEW | {"name": ""}, NEW | {"description": "short"}, NEW | {"more": 1}, NEW | {"name": "a\x00b"}, []):
        call(page, "POST", "/themes", 422, wrong)
    assert Theme.objects.count() == 1


def test_folded_themes_are_hidden_from_the_list_and_a_filter_away(page: Client) -> None:
    plant()
    regroup_themes(0.85)
    html = body(page, "/taxonomy/themes/")
    assert html.count("Hotel desk</a>") == 1
    assert 'name="folded"' in html, "a filter of the list shows them"
    everything = body(page, "/taxonomy/themes/?folded=1")
    assert everything.count("Hotel desk</a>") == 3
    assert ">folded</a>" in everything
    said(page, "/taxonomy/themes/new/", NEW)
    typed = body(page, "/taxonomy/themes/?origin=typed")
    assert "Lending desk" in typed
    assert "Hotel desk" not in typed
    assert "not known" in body(page, "/taxonomy/themes/?origin=nowhere")
    assert len(call(page, "GET", "/themes", 200)["data"]) == 4
    assert len(call(page, "GET", "/themes?folded=true", 200)["data"]) == 7
    assert len(call(page, "GET", "/themes?origin=servers", 200)["data"]) == 3
    folded = call(page, "GET", f"/themes/{theme(1).pk}", 200)
    assert (folded["folded_into_id"], folded["similarity"]) == (theme(2).pk, 1.0)


def test_groups_show_similarities_and_other_thresholds(page: Client) -> None:
    assert "Themes have not been compared yet" in body(page, DUPLICATES)
    plant()
    regroup_themes(0.85)
    html = body(page, DUPLICATES)
    assert "2 folded away" in html
    assert "1.000" in html
    assert html.count('<details class="card group"') == 2
    assert ">0.95</th>" in html
    assert "Keep apart: Hotel desk" in html
    groups = call(page, "GET", "/theme-groups", 200)["data"]
    assert [(one["kept"]["id"], len(one["members"]), one["rest"]) for one in groups] == [
        (theme(2).pk, 2, 0),
        (theme(5).pk, 1, 0),
    ]
    row = call(page, "GET", "/theme-groupings", 200)["data"][0]
    assert (row["groups"], row["folded"], row["decision"]["undone"]) == (2, 3, False)
    assert call(page, "GET", f"/theme-groupings/{row['id']}", 200)["counts"] == row["counts"]


def test_every_decision_is_made_and_undone_without_a_script(page: Client) -> None:
    plant()
    grouping = regroup_themes(0.85)
    html = said(page, f"/taxonomy/themes/{theme(3).pk}/keep-apart/")
    assert "Kept “Hotel desk” apart" in html
    assert folds() == {"1": "2", "4": "5"}
    assert "not folded into another" in said(page, f"/taxonomy/themes/{theme(3).pk}/keep-apart/")
    apart = Decision.objects.get(kind="apart")
    said(page, f"/taxonomy/themes/decisions/{apart.pk}/undo/")
    assert folds() == {"1": "2", "3": "2", "4": "5"}
    assert "undone already" in said(page, f"/taxonomy/themes/decisions/{apart.pk}/undo/")
    said(page, f"/taxonomy/themes/{theme(4).pk}/choose/")
    assert folds()["5"] == "4"
    assert "not shown" not in body(page, DUPLICATES)
    said(page, f"/taxonomy/themes/decisions/{grouping.decision_id}/undo/")
    assert folds() == {"5": "4"}
    shown = body(page, f"/taxonomy/themes/{theme(5).pk}/")
    assert "folded into" in shown
    assert "Keep this one instead" in shown
    assert "1 folded away" in body(page, f"/taxonomy/themes/{theme(4).pk}/")


def test_decisions_by_the_api(page: Client, annotator: Any) -> None:
    plant()
    grouping = regroup_themes(0.85)
    made = call(page, "POST", f"/themes/{theme(3).pk}/keep-apart", 200)
    assert (made["kind"], made["themes"], made["by"]) == ("apart", 1, annotator.username)
    call(page, "POST", f"/themes/{theme(3).pk}/keep-apart", 409)
    call(page, "POST", f"/themes/{theme(4).pk}/choose", 200)
    call(page, "POST", "/themes/999999/choose", 404)
    undone = call(page, "POST", f"/theme-decisions/{grouping.decision_id}/undo", 200)
    assert undone["undoes_id"] == grouping.decision_id
    call(page, "POST", f"/theme-decisions/{grouping.decision_id}/undo", 409)
    rows = call(page, "GET", "/theme-decisions?limit=2", 200)
    assert [row["kind"] for row in rows["data"]] == ["undo", "choice"]
    assert rows["next_cursor"]


def test_a_grouping_is_a_job_and_one_at_a_time(page: Client) -> None:
    plant()
    assert "groups the themes" in said(page, "/taxonomy/themes/duplicates/group/", {"threshold": "0.9"})
    job = Job.objects.get(kind="group_themes")
    assert job.payload == {"threshold": 0.9, "model": "", "judge": "none", "most": 2_000}
    html = body(page, DUPLICATES)
    assert f'data-live="job:{job.pk}"' in html
    assert "grouping themes already" in said(page, "/taxonomy/themes/duplicates/group/", {"threshold": "0.8"})
    call(page, "POST", "/theme-groupings", 422, {"threshold": 0.8})
    Job.objects.update(state="succeeded")
    assert "The grouping has ended" in body(page, f"{DUPLICATES}live/")
    for wrong in ("0.3", "2", "x", "", "nan"):
        assert "number between 0.5 and 1" in said(page, "/taxonomy/themes/duplicates/group/", {"threshold": wrong})
    assert "not listed" in said(page, "/taxonomy/themes/duplicates/group/", {"threshold": "0.8", "model": "7/none"})
    call(page, "POST", "/theme-groupings", 422, {"threshold": 0.1})
    assert call(page, "POST", "/theme-groupings", 202, {"threshold": 0.8})["kind"] == "group_themes"


def test_retention_by_source(page: Client) -> None:
    assert "No sources yet" in body(page, "/taxonomy/themes/sources/")
    plant()
    regroup_themes(0.85)
    note_judged_text(
        "asked.jsonl", Judgement("a", "Renew the loan.", "not_stateful", "No records.", {"reasoning": EVIL})
    )
    note_judged_text("asked.jsonl", Judgement("b", "Cancel the order."))
    html = body(page, "/taxonomy/themes/sources/")
    assert "not stateful</a> 1" in html
    rows = {row["name"]: row for row in call(page, "GET", "/theme-sources", 200)["data"]}
    assert (rows["mcp"]["judged"], rows["mcp"]["themes"], rows["mcp"]["deduplicated"], rows["mcp"]["left"]) == (
        None,
        6,
        3,
        3,
    )
    assert (rows["asked.jsonl"]["judged"], rows["asked.jsonl"]["kept"]) == (2, 1)
    assert rows["asked.jsonl"]["rejected"] == {"not_stateful": 1}
    pk = ThemeSource.objects.get(name="asked.jsonl").pk
    assert "Renew the loan." in body(page, f"/taxonomy/themes/sources/{pk}/?reason=not_stateful")
    kept = body(page, f"/taxonomy/themes/sources/{pk}/?reason=kept")
    assert "Cancel the order." in kept
    assert "Renew the loan." not in kept
    body(page, f"/taxonomy/themes/sources/{pk}/?reason=%00nothing")
    body(page, "/taxonomy/themes/sources/0/", 404)


def test_pages_ask_as_often_for_many_groups_as_for_few(page: Client) -> None:
    plant()
    regroup_themes(0.85)

    def asked(url: str) -> int:
        with CaptureQueriesContext(connection) as seen:
            body(page, url)
        return len(seen)

    urls = (DUPLICATES, "/taxonomy/themes/sources/", "/taxonomy/themes/?folded=1")
    few = [asked(url) for url in urls]
    import_servers(
        entries(*(server(n, name=f"Desk {n // 4}", overview=f"Desk number {n // 4} " * 9) for n in range(20, 80)))
    )
    regroup_themes(0.95)
    assert Theme.objects.filter(duplicates__gt=0).count() > 10
    # A list of more than a page is counted.
    assert all(asked(url) - before in (0, 1) for url, before in zip(urls, few, strict=True))


def test_a_viewer_sees_groups_and_decides_nothing(page: Client) -> None:
    plant()
    regroup_themes(0.85)
    viewer = Client()
    viewer.force_login(pages_seed.person("viewer"))
    html = flat(viewer.get(DUPLICATES))
    assert "Hotel desk" in html
    assert "Keep apart" not in html
    assert "Undo" not in html
    assert viewer.post(f"/taxonomy/themes/{theme(3).pk}/keep-apart/").status_code == 403


def test_hostile_text_stays_text(page: Client, annotator: Any) -> None:
    rows = [server(n, name=EVIL[:290], overview=EVIL * 3, custom_label=None) for n in (1, 2)]
    import_servers(entries(*rows))
    regroup_themes(0.9)
    row = Theme.objects.get(folded_into__isnull=False)
    services.choose_theme(row.pk, annotator)
    Theme.objects.update(origin_text=EVIL, provenance={EVIL: EVIL}, origin="tasks")
    note_judged_text(EVIL[:150], Judgement("a", EVIL, "odd", EVIL[:400], {EVIL: EVIL}))
    pk = ThemeSource.objects.order_by("-pk").values_list("pk", flat=True)[0]
    urls = [DUPLICATES, "/taxonomy/themes/sources/", f"/taxonomy/themes/sources/{pk}/", "/taxonomy/themes/?folded=1"]
    urls += [f"/taxonomy/themes/{one}/" for one in Theme.objects.values_list("pk", flat=True)]
    for url in urls:
        html = body(page, url)
        assert "<script>window" not in html, url
        assert "<img src=x" not in html, url
        assert "\u202e" not in html, f"{url}: {html[html.index(chr(0x202E)) - 200 :][:220]}"
    answer = page.post("/taxonomy/themes/new/", {"name": EVIL, "description": EVIL, "category": EVIL})
    assert "<script>window" not in flat(answer)

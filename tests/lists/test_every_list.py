"""Every list has the same machinery: headings that sort, chips, columns, saved views, rows that are one link."""

from __future__ import annotations

import re
from urllib.parse import quote

import pytest
from django.test import Client
from django.urls import reverse

from tests.fixtures import pages_seed, runs_seed
from tests.fixtures.markup import markup
from webapp.accounts.models import AuditEntry, User
from webapp.batches.models import Batch
from webapp.common.lists.columns import get_next_order
from webapp.common.lists.models import ColumnChoice, SavedView
from webapp.common.lists.registry import LISTS, PAGES
from webapp.datasets.models import Dataset, StoredFile
from webapp.jobs.models import Job
from webapp.taxonomy.models import Node, NodeCounts, Theme

pytestmark = pytest.mark.django_db
HOSTILE = "<img src=x onerror=window.hit=1>"
OURS = ("jobs", "batches", "training", "datasets", "files", "themes", "users", "audit")


@pytest.fixture
def admin(client: Client) -> Client:
    client.force_login(pages_seed.person("admin"))
    return client


@pytest.fixture
def rows(db: None) -> None:
    """Two rows of each list, one of them with a hostile name."""
    node = Node.objects.create(level=1, name="Health", path="health")
    for number, name in enumerate((HOSTILE, "Plain")):
        Job.objects.create(kind="audit", queue="sandbox", title=name, note=name)
        Batch.objects.create(name=name, spent=number, scripted=bool(number))
        Theme.objects.create(node=node, source="s", key=name, name=name, content_hash="0" * 64, labels=[name])
        Dataset.objects.create(name=name, kind="tasks", state="ready", train_rows=number, bytes=number)
        StoredFile.objects.create(filename=name, kind="tasks", bytes=number)
        User.objects.create_user(f"user{number}")
        AuditEntry.objects.create(action="made", actor_label=name, via="page", object_type="task", object_id="7")
        job = runs_seed.training_job(steps=1, environments=())
        job.name = name
        job.save()


@pytest.mark.parametrize("name", OURS)
def test_rows_are_one_link_and_text_is_text(admin: Client, rows: None, name: str) -> None:
    page = admin.get(reverse(PAGES[name]))
    html = markup(page)
    assert "<img src=x" not in html
    table = html.split('id="list"')[1]
    found = re.findall(r"<tr data-row.*?</tr>", table, re.DOTALL)
    assert len(found) >= 2
    assert all(row.count("data-row-link") == 1 for row in found)
    assert page.context["page"].count.number == len(found)


@pytest.mark.parametrize("name", OURS)
def test_every_heading_sorts_both_ways_or_not_at_all(admin: Client, rows: None, name: str) -> None:
    listed = LISTS[name]
    for column in listed.columns:
        for order in filter(None, (column.ascending, column.descending)):
            page = admin.get(reverse(PAGES[name]), {listed.order_parameter: order})
            assert not getattr(page.context.get("asked"), "problems", ())
            sorted_by = [(one.column, one.sorted) for one in page.context["list"].headings if one.sorted]
            for shown, how in sorted_by:
                assert (shown.descending if how == "descending" else shown.ascending) == order
            assert len(sorted_by) <= 1, "two columns can stand for one order"
            shown_ones = {one.column.name for one in page.context["list"].headings}
            assert sorted_by or column.name not in shown_ones
            assert admin.get(f"{reverse(PAGES[name])}?{listed.order_parameter}={order}&last=1").status_code == 200
        assert get_next_order(column, "") or not (column.ascending or column.descending)


@pytest.mark.parametrize("name", OURS)
def test_every_filter_narrows_stands_as_a_chip_and_is_kept_in_a_view(admin: Client, rows: None, name: str) -> None:
    address = reverse(PAGES[name])
    first = admin.get(address)
    form = first.context["list"].form
    for field in form.visible_fields():
        choices = [str(value) for value, _ in getattr(field.field, "choices", []) if value] or ["1"]
        page = admin.get(address, {field.name: choices[-1]})
        assert page.status_code == 200
        assert len(page.context["page"].rows) <= len(first.context["page"].rows)
        searched = field.name in {one.name for one in form.searches}
        assert searched or page.context["list"].narrowed == (field.field.widget.input_type != "date"), field.name
    query = "q=Plain"
    assert admin.post(f"/lists/{name}/views/", {"name": "Mine", "query": query}).headers["Location"] == (
        f"{address}?{query}"
    )
    assert SavedView.objects.get().list_name == name
    assert [tab.current for tab in admin.get(f"{address}?{query}").context["list"].tabs] == [True]


@pytest.mark.parametrize("name", OURS)
def test_columns_are_chosen(admin: Client, rows: None, name: str) -> None:
    needed = [column.name for column in LISTS[name].columns if column.needed]
    admin.post(f"/lists/{name}/columns/", {"column": ["nothing"]})
    page = admin.get(reverse(PAGES[name]))
    assert [heading.column.name for heading in page.context["list"].headings] == needed
    assert markup(page).count("data-row-link") == len(page.context["page"].rows)
    every = [column.name for column in LISTS[name].columns]
    admin.post(f"/lists/{name}/columns/", {"column": every})
    page = admin.get(reverse(PAGES[name]))
    head, row = (re.search(rf"<t{part}.*?</t{part}>", markup(page).split('id="list"')[1], re.DOTALL) for part in
                 ("head", "r data-row"))  # fmt: skip
    assert head is not None
    assert row is None or len(re.findall("<t[hd]", row[0])) == len(every)
    assert ColumnChoice.objects.get().list_name == name


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize("value", ["nonsense", "\x00", quote(HOSTILE), "9" * 60])
def test_what_cannot_be_understood_is_left_out(admin: Client, rows: None, name: str, value: str) -> None:
    names = ("state", "kind", "by", "since", "until", "role", "order", "sort", "method", "origin", "on", "after", "ids")
    page = admin.get(reverse(PAGES[name]) + "?" + "&".join(f"{one}={value}" for one in names))
    assert page.status_code == 200
    assert "<img src=x" not in markup(page)


@pytest.mark.parametrize("name", sorted(PAGES))
def test_a_filter_that_a_list_does_not_have_is_named(admin: Client, rows: None, name: str) -> None:
    address = reverse(PAGES[name])
    page = markup(admin.get(f"{address}?colour=red&empty=&after=1"))
    assert page.count("This list has no filter") == 1
    assert "no filter “colour”" in page
    assert "This list has no filter" not in markup(admin.get(address))


def test_cursors_of_days_lead_on(admin: Client, rows: None) -> None:
    """A column of times has its cursor as text."""
    for number in range(60):
        job = pages_seed.job(text=f"job {number:02}")
        Job.objects.filter(pk=job.pk).update(finished_at="2026-01-01T00:00:00Z" if number % 2 else None)
    seen: list[int] = []
    url = "/jobs/?order=-finished_at"
    while url:
        page = admin.get(url).context["page"]
        seen += [row.pk for row in page.rows]
        url = page.after
    assert len(seen) == len(set(seen)) == Job.objects.count()
    assert admin.get("/jobs/?order=finished_at&after=WyJ4IiwxXQ").status_code == 200


def test_one_object_of_the_audit_log(admin: Client, rows: None) -> None:
    page = admin.get("/account/audit/?on=task:7")
    assert {row.object_id for row in page.context["page"].rows} == {"7"}
    assert page.context["list"].chips[0].words == "task:7"


def test_the_list_of_a_label_keeps_its_place(admin: Client, rows: None) -> None:
    node = Node.objects.get()
    NodeCounts.objects.get_or_create(node=node)
    listed = admin.get(f"/taxonomy/{node.pk}/?tab=themes&q=Plain").context["list"]
    assert listed.clear == f"/taxonomy/{node.pk}/?tab=themes"
    assert listed.form["tab"].value() == "themes"


def test_a_refused_upload_leaves_the_lists_address(admin: Client, rows: None) -> None:
    page = admin.post("/training/files/upload/", {})
    assert page.status_code == 422
    assert page.context["list"].url == "/training/files/"

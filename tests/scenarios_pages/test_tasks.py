from __future__ import annotations

import json

import pytest
from asgiref.sync import async_to_sync
from django.test import Client
from django.urls import reverse

from synthesis.formats.envscaler import parse_scenarios
from synthesis.formats.files import Entry
from synthesis.formats.records import TaskRecord
from synthesis.runtime import get_default_sandbox
from tests.scenarios_pages.support import task_record
from webapp.environments.models import Environment
from webapp.environments.services import build_program
from webapp.scenarios.importer import import_task
from webapp.scenarios.models import Check, Task, TaskRevision

HTMX = {"HX-Request": "true"}


def whole(response) -> bytes:
    """A streamed answer's bytes; the stream is an asynchronous one."""

    async def read() -> bytes:
        return b"".join([part async for part in response.streaming_content])

    return async_to_sync(read)()


def text_of(response) -> str:
    text = response.content.decode()
    assert "<script>alert" not in text
    assert "\u202e" not in text
    assert "<img src=x" not in text
    return text


def test_an_empty_list_says_why(client: Client):
    text = text_of(client.get(reverse("scenarios:tasks")))
    assert "No tasks yet" in text


def test_the_list_shows_and_filters(client: Client, task: Task):
    url = reverse("scenarios:tasks")
    assert "Count to three" in text_of(client.get(url))
    found = {
        "q": ["make it three", "absent text"],
        "environment": [str(task.environment_id), "9999999"],
        "category": ["Testing", None],
        "finding": ["check_raises_at_start", "no_checks"],
        "low": ["0.3", "0.9"],
        "high": ["0.4", "0.1"],
        "fewest": ["3", "4"],
        "most": ["3", "2"],
        "source": ["test", None],
        "verifier": ["checks", "script"],
    }
    for name, (hit, miss) in found.items():
        assert "Count to three" in text_of(client.get(url, {name: hit})), name
        if miss is not None:
            text = text_of(client.get(url, {name: miss}))
            assert "Count to three" not in text, name
            assert "No task matches" in text
    text = text_of(client.get(url, {"environment": "Counter", "sort": "-do_nothing"}))
    assert "Count to three" in text


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("low=x", "“low” was not understood and is left out: write a number from 0 to 1."),
        ("high=1.5", "“high” was not understood"),
        ("sort=evil", "“sort” was not understood and is left out: there is no such order."),
        ("finding=zz", "“finding” was not understood"),
        ("category=none", "“category” was not understood and is left out: no environment has this category."),
        ("most=-1", "“most” was not understood and is left out: write a whole number up to 1,000,000."),
        ("after=%00", ""),
        ("environment=%00", ""),
        ("q=%00", ""),
    ],
)
def test_what_a_filter_cannot_mean_is_left_out_and_said(client: Client, task: Task, query: str, said: str):
    text = text_of(client.get(f"{reverse('scenarios:tasks')}?{query}"))
    assert "Count to three" in text
    assert (said in text) if said else "was not understood" not in text


def test_paging_walks_every_row_once_in_every_order(client: Client, task: Task):
    Task.objects.bulk_create(
        Task(
            environment=task.environment,
            scenario=task.scenario,
            source="test",
            key=f"k{i}",
            title=f"Row {i}",
            do_nothing=[None, 0.25, 0.5][i % 3],
            check_count=i % 7,
        )
        for i in range(120)
    )
    for sort in ("-id", "id", "-do_nothing", "do_nothing", "-check_count"):
        seen, url = [], f"{reverse('scenarios:tasks')}?sort={sort}"
        while url:
            page = client.get(url).context["page"]
            seen += [row.pk for row in page.rows]
            url = page.after
        assert len(seen) == len(set(seen)) == 121, sort


def test_the_list_asks_few_queries(client: Client, task: Task, django_assert_max_num_queries):
    with django_assert_max_num_queries(8):
        client.get(reverse("scenarios:tasks"))


def test_a_task_page_shows_what_judges_it(client: Client, task: Task):
    text = text_of(client.get(reverse("scenarios:task", args=[task.pk])))
    for words in ("goal", "guard", "broken", "1 of 3 checks", "KeyError", "Try tools on this scenario", "Fresh"):
        assert words in text
    attempts = text_of(client.get(reverse("scenarios:task", args=[task.pk]), {"tab": "attempts"}))
    assert reverse("trajectories:of_task", args=[task.pk]) in attempts


def test_a_viewer_sees_the_task_but_starts_no_playground(viewer: Client, task: Task):
    assert "Try tools on this scenario" not in text_of(viewer.get(reverse("scenarios:task", args=[task.pk])))
    answer = viewer.post(reverse("scenarios:try_new"), {"version": task.scenario.version_id})
    assert answer.status_code == 403
    assert not task.scenario.version.playgrounds.exists()


def test_many_checks_come_in_pages_with_folded_sources(client: Client, task: Task):
    revision = task.current
    assert revision is not None
    Check.objects.bulk_create(
        Check(revision=revision, position=i, label=f"Number {i}", source=f"# source {i}", mark="goal")
        for i in range(3, 445)
    )
    url = reverse("scenarios:task", args=[task.pk])
    text = text_of(client.get(url))
    assert "Number 50" in text
    assert "# source 50" not in text
    assert "Number 300" not in text
    assert "source 50" in text_of(client.get(url, {"sources": "1"}))
    text = text_of(client.get(url, {"mark": "goal", "from": "99"}))
    assert "Number 100" in text
    assert "It never sinks" not in text
    check = revision.checks.get(position=50)
    part = text_of(client.get(reverse("scenarios:check", args=[check.pk]), headers=HTMX))
    assert "source 50" in part
    assert "<html" not in part
    assert "<html" in text_of(client.get(reverse("scenarios:check", args=[check.pk])))


def test_the_state_is_sent_branch_by_branch(client: Client, task: Task):
    url = reverse("scenarios:state", args=[task.scenario_id])
    root = text_of(client.get(url, headers=HTMX))
    assert "count" in root
    assert "k200" not in root
    assert "k99" in text_of(client.get(url, {"path": "/big"}, headers=HTMX))
    more = text_of(client.get(url, {"path": "/big", "from": "200"}, headers=HTMX))
    assert "k249" in more
    assert "k100<" not in more
    assert "/big/k249" in text_of(client.get(url, {"find": "k249"}, headers=HTMX))
    assert "No key and no value" in text_of(client.get(url, {"find": "zebra"}, headers=HTMX))
    assert "nothing at" in text_of(client.get(url, {"path": "/absent"}))
    assert "<html" in text_of(client.get(url, {"path": "/big/k3"}))


def test_revisions_are_compared(client: Client, task: Task):
    version = task.scenario.version
    changed = task_record(instruction="Please make it four.", raw={"task": "other"})
    import_task(get_default_sandbox(), changed, version, build_program(version), "test")
    text = text_of(client.get(reverse("scenarios:task_diff", args=[task.pk, 1, 2])))
    assert "Please make it four." in text
    old = text_of(client.get(reverse("scenarios:task", args=[task.pk]), {"revision": "1"}))
    assert "not the current one" in old
    assert TaskRevision.objects.filter(task=task).count() == 2


def test_scenarios_of_an_environment_as_part_and_page(client: Client, task: Task):
    url = reverse("scenarios:of_environment", args=[task.environment_id])
    part = text_of(client.get(url, headers=HTMX))
    assert "Count to three" in part
    assert "<html" not in part
    assert "<html" in text_of(client.get(url))
    empty = Environment.objects.create(source="test", key="empty", name="Empty")
    assert "No scenarios" in text_of(client.get(reverse("scenarios:of_environment", args=[empty.pk])))


def test_an_export_can_be_imported_again(client: Client, task: Task):
    answer = client.get(reverse("scenarios:export"), {"environment": str(task.environment_id)})
    assert "attachment" in answer["Content-Disposition"]
    _, *records = json.loads(whole(answer))
    assert [record["task_id"] for record in records] == ["count-to-three"]
    assert records[0]["init_config"]["count"] == 0
    parsed = list(parse_scenarios([Entry(place="[0]", key="", value=records[0])]))
    assert isinstance(parsed[0][1], TaskRecord)
    one = client.get(reverse("scenarios:export"), {"task": str(task.pk)})
    assert len(json.loads(whole(one))) == 2, "with its environment"
    assert client.get(reverse("scenarios:export"), {"task": "x"}).status_code == 404


def test_pages_need_a_login(task: Task):
    for url in (reverse("scenarios:tasks"), reverse("scenarios:task", args=[task.pk]), reverse("scenarios:export")):
        assert Client().get(url).status_code == 302

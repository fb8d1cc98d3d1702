from __future__ import annotations

import json

import pytest
from django.test import Client
from django.urls import reverse

from synthesis.errors import SandboxUnavailable
from tests.scenarios_pages.test_tasks import text_of
from webapp.accounts.models import Role, User
from webapp.scenarios.models import Playground, PlaygroundCall, Task
from webapp.scenarios.playground import live_episodes, services
from webapp.scenarios.playground.live_episodes import CACHE


@pytest.fixture
def play(client: Client, task: Task) -> Playground:
    answer = client.post(
        reverse("scenarios:try_new"), {"version": task.scenario.version_id, "scenario": task.scenario_id}
    )
    assert answer.status_code == 302
    return Playground.objects.get()


def run(client: Client, row: Playground, tool: str, serial: int | None = None, **more: str):
    row.refresh_from_db()
    body = {"serial": row.serial if serial is None else serial, "tool": tool, "validation": "schema", **more}
    return client.post(reverse("scenarios:playground_run", args=[row.pk]), body, follow=True)


def add(client: Client, row: Playground, amount: int):
    return run(client, row, "add", **{"arg.amount": str(amount)})


def test_a_call_shows_result_changes_and_state(client: Client, play: Playground):
    text = text_of(run(client, play, "add", **{"arg.amount": "2", "arg.name": "<b>Ada</b>", "arg.tags": '["x"]'}))
    assert "/count" in text
    assert "&lt;b&gt;Ada" in text
    call = PlaygroundCall.objects.get()
    assert call.arguments == {"amount": 2, "name": "<b>Ada</b>", "tags": ["x"]}
    assert call.result["count"] == 2
    assert call.change_count == 2


def test_empty_optional_fields_are_not_sent(client: Client, play: Playground):
    run(client, play, "add", **{"arg.amount": "1", "arg.name": "", "arg.tags": " ", "arg.loud": ""})
    assert PlaygroundCall.objects.get().arguments == {"amount": 1}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"arg.amount": "two", "arg.name": "kept text"}, "not a whole number"),
        ({"arg.amount": "", "arg.name": "kept text"}, "This is needed"),
        ({"arg.amount": "1", "arg.name": "kept text", "arg.tags": "[1,"}, "not valid JSON"),
        ({"arg.amount": "1", "arg.name": "kept text", "arg.tags": "[NaN]"}, "NaN, which is not a number of JSON"),
        ({"arg.amount": "1", "arg.name": "kept text", "arg.tags": f"[{'[],' * 900_000}[]]"}, "64 MiB of memory"),
    ],
)
def test_what_cannot_be_read_comes_back_and_nothing_runs(client: Client, play: Playground, values, words):
    answer = run(client, play, "add", **values)
    assert answer.status_code == 422
    text = text_of(answer)
    assert words in text
    assert "kept text" in text
    assert not PlaygroundCall.objects.exists()


def test_raw_json_arguments(client: Client, play: Playground):
    answer = run(client, play, "add", raw="1", arguments='{"amount": 4, ')
    assert answer.status_code == 422
    assert "&quot;amount&quot;: 4, " in text_of(answer)
    run(client, play, "add", raw="1", arguments='{"amount": 4, "name": ""}')
    assert PlaygroundCall.objects.get().arguments == {"amount": 4, "name": ""}


def test_validation_refuses_or_hands_over(client: Client, play: Playground):
    text = text_of(run(client, play, "add", raw="1", arguments='{"amount": "2"}'))
    assert "bad_arguments" in text
    run(client, play, "add", raw="1", arguments='{"amount": "2"}', validation="source")
    first, second = PlaygroundCall.objects.all()
    assert (first.error["kind"], first.error["type"]) == ("bad_arguments", "")
    assert second.error["kind"] == "raised"
    add(client, play, 1)
    CACHE.clear()
    add(client, play, 1)
    assert PlaygroundCall.objects.last().result["count"] == 2


def test_a_raising_tool_is_an_observation(client: Client, play: Playground):
    text = text_of(run(client, play, "fail"))
    assert "ValueError" in text
    assert "raised" in text


def test_a_lost_process_is_rebuilt_from_the_rows(client: Client, play: Playground):
    add(client, play, 1)
    add(client, play, 2)
    CACHE.clear()
    add(client, play, 3)
    assert PlaygroundCall.objects.last().result["count"] == 6
    held = CACHE.take(play.pk, 3)
    assert held is not None
    held.episode.close()
    add(client, play, 4)
    assert PlaygroundCall.objects.last().result["count"] == 10


def test_a_rebuild_that_goes_another_way_is_told_and_nothing_is_lost(client: Client, play: Playground):
    add(client, play, 1)
    PlaygroundCall.objects.update(state_hash="0" * 64)
    CACHE.clear()
    text = text_of(add(client, play, 1))
    assert "another way at call 1" in text
    assert PlaygroundCall.objects.count() == 1


def test_two_tabs_never_write_over_each_other(client: Client, play: Playground):
    add(client, play, 1)
    answer = run(client, play, "add", serial=0, **{"arg.amount": "7", "arg.name": "typed here"})
    assert answer.status_code == 409
    text = text_of(answer)
    assert "another tab" in text
    assert "typed here" in text
    assert PlaygroundCall.objects.count() == 1
    text = text_of(client.post(reverse("scenarios:playground_undo", args=[play.pk]), {"serial": 0}, follow=True))
    assert "another tab" in text
    assert PlaygroundCall.objects.count() == 1


def test_a_change_during_the_call_is_not_overwritten(client: Client, play: Playground, monkeypatch):
    """The other tab commits between the check at the start and the write at the end."""
    store = services._store_call

    def late(row: Playground, *rest):
        Playground.objects.filter(pk=row.pk).update(serial=row.serial + 1)
        return store(row, *rest)

    monkeypatch.setattr(services, "_store_call", late)
    assert add(client, play, 1).status_code == 409
    assert not PlaygroundCall.objects.exists()


@pytest.mark.usefixtures("brief_calls")
def test_a_tool_that_hangs_costs_only_its_call(client: Client, play: Playground):
    add(client, play, 1)
    answer = run(client, play, "hang")
    assert answer.status_code == 409
    assert "did not come back in time" in text_of(answer)
    add(client, play, 2)
    assert [call.tool for call in PlaygroundCall.objects.all()] == ["add", "add"]
    assert PlaygroundCall.objects.last().result["count"] == 3


def test_undo_redo_and_reset(client: Client, play: Playground):
    add(client, play, 1)
    add(client, play, 2)
    play.refresh_from_db()
    text = text_of(
        client.post(reverse("scenarios:playground_undo", args=[play.pk]), {"serial": play.serial}, follow=True)
    )
    assert "taken back" in text
    assert PlaygroundCall.objects.count() == 1
    play.refresh_from_db()
    client.post(reverse("scenarios:playground_redo", args=[play.pk]), {"serial": play.serial})
    assert PlaygroundCall.objects.last().result["count"] == 3
    client.post(reverse("scenarios:playground_reset", args=[play.pk]))
    fresh = Playground.objects.get(origin=play)
    assert fresh.length == 0
    assert play.calls.count() == 2
    assert text_of(client.get(reverse("scenarios:playground", args=[fresh.pk])))


def test_looking_back_at_a_call(client: Client, play: Playground):
    add(client, play, 5)
    add(client, play, 6)
    url = reverse("scenarios:playground", args=[play.pk])
    context = client.get(url, {"at": "1"}).context
    assert {change.path: (change.old, change.new) for change in context["changes"]}["/count"] == ("0", "5")
    assert "after call 1" in text_of(client.get(url, {"at": "1"}))
    for odd in (
        {"at": "99"},
        {"at": "x"},
        {"tool": "absent"},
        {"tool": "add", "raw": "1"},
        {"find": "ad"},
        {"at": "0"},
    ):
        assert client.get(url, odd).status_code == 200
    state = reverse("scenarios:playground_state", args=[play.pk])
    assert "5" in text_of(client.get(state, {"at": "1", "path": "/count"}))


def test_the_calls_can_be_taken_along(client: Client, play: Playground):
    add(client, play, 1)
    answer = client.get(reverse("scenarios:playground_calls", args=[play.pk]))
    assert "attachment" in answer["Content-Disposition"]
    body = json.loads(answer.content)
    assert [call["tool"] for call in body["calls"]] == ["add"]


def test_others_look_but_do_not_touch(client: Client, viewer: Client, play: Playground):
    other = Client()
    other.force_login(User.objects.create_user("bob", password="a long password", role=Role.ANNOTATOR))
    assert "the playground of" in text_of(other.get(reverse("scenarios:playground", args=[play.pk])))
    assert run(other, play, "read").status_code == 404
    assert run(viewer, play, "read").status_code == 403
    assert not PlaygroundCall.objects.exists()


def test_without_a_sandbox_the_page_says_what_to_do(client: Client, task: Task, monkeypatch):
    def refuse() -> None:
        raise SandboxUnavailable("no seccomp")

    monkeypatch.setattr(services, "get_default_sandbox", refuse)
    answer = client.post(reverse("scenarios:try_new"), {"version": task.scenario.version_id}, follow=True)
    text = text_of(answer)
    assert "The sandbox cannot start" in text
    assert "/healthz" in text
    assert not Playground.objects.exists()


def test_starting_from_an_empty_state_and_the_list_of_ones_own(client: Client, task: Task):
    version = task.scenario.version_id
    client.post(reverse("scenarios:try_new"), {"version": version})
    row = Playground.objects.get()
    assert row.scenario is None
    assert f"Playground {row.pk}" in text_of(client.get(reverse("scenarios:try", args=[version])))


@pytest.mark.parametrize("body", [{}, {"version": "x"}, {"version": "0", "scenario": "1"}])
def test_odd_starts_are_not_found(client: Client, task: Task, body):
    assert client.post(reverse("scenarios:try_new"), body).status_code == 404


def test_the_cache_is_bounded_and_closes_what_is_idle(client: Client, task: Task, monkeypatch):
    monkeypatch.setattr(live_episodes, "MOST", 2)
    for _ in range(3):
        client.post(reverse("scenarios:try_new"), {"version": task.scenario.version_id})
    first, *_, last = Playground.objects.order_by("id")
    assert CACHE.take(first.pk, 0) is None
    held = CACHE.take(last.pk, 0)
    assert held is not None
    CACHE.sweep(idle=-1)
    assert not held.episode.alive


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"amount": 1e999}', "a number too large to keep"),
        ('{"amount": 1, "tags": [-1e400]}', "a number too large to keep"),
        ('{"amount": ' + "9" * 5000 + "}", "more than 1000 digits"),
        ('{"name": "Ada', "Unterminated string starting at character 10"),
    ],
)
def test_json_that_nothing_can_hold_is_refused(client: Client, play: Playground, text: str, words: str):
    answer = run(client, play, "add", raw="1", arguments=text)
    assert answer.status_code == 422
    assert words in text_of(answer)
    assert not PlaygroundCall.objects.exists()


@pytest.mark.parametrize("name", ['"\\ud800"', '"two\\nlines"', '""', "null"])
def test_arguments_that_a_field_cannot_hold_come_back_as_json(client: Client, play: Playground, name: str):
    arguments = f'{{"amount": 1, "name": {name}}}'
    answer = run(client, play, "add", raw="1", arguments=arguments, validation="source")
    assert answer.status_code == 200
    page = client.get(reverse("scenarios:playground", args=[play.pk]))
    assert page.context["form"].raw
    assert json.loads(page.context["form"].text) == json.loads(arguments)
    fields = client.get(reverse("scenarios:playground", args=[play.pk]), {"tool": "add", "raw": "0"})
    assert not fields.context["form"].raw

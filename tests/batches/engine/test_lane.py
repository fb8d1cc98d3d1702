"""A batch from themes to trajectories: what is kept, what is left out, what fails, what it costs."""

from __future__ import annotations

from typing import Any

import pytest

from synthesis.errors import InputError
from synthesis.llm.cost import Price
from tests.batches.support import SMALL, content, make_batch, settings_at, work_off
from tests.batches.table import TABLE, answer, theme
from tests.fixtures.llm import llm_server, say
from tests.rollouts_web.support import person
from webapp.batches import services
from webapp.batches.models import Batch, BatchItem, BatchProduct, BatchStageCount, LLMCall
from webapp.endpoints.models import Endpoint
from webapp.environments.models import Assessment, Environment
from webapp.scenarios.models import Audit, Scenario, Task
from webapp.taxonomy.models import SourceCount, Theme
from webapp.trajectories.models import Trajectory
from webapp.trajectories.states import find_broken_steps

pytestmark = pytest.mark.django_db(transaction=True)


def item(batch: Batch, path: str) -> BatchItem:
    return BatchItem.objects.get(batch=batch, path=path)


def test_themes_become_environments_scenarios_tasks_and_trajectories() -> None:
    stages = SMALL.model_copy(update={"scenarios": 2, "tasks": 2})
    with llm_server(answer) as server:
        batch = work_off(make_batch(person("operator"), settings_at(server.url, stages=stages), ["one", "two"]))
        assert (batch.state, batch.note) == ("done", "")
        assert set(batch.items.values_list("state", flat=True)) == {"kept"}
        assert len(server.requests) == LLMCall.objects.count() == 2 * (5 + 2 + 4 * 3)
    counts = [rows.objects.count() for rows in (Environment, Scenario, Task, Trajectory, Audit, Assessment)]
    assert counts == [2, 4, 8, 8, 8, 2]
    assert batch.items.count() == BatchProduct.objects.count() == 2 + 4 + 8 + 8
    assert (batch.requests, batch.lost) == (LLMCall.objects.count(), 0)
    row = Trajectory.objects.select_related("task__environment").first()
    assert row is not None
    assert (row.outcome, row.source, row.reward, row.step_count) == ("solved", "synthesis", 1.0, 3)
    assert find_broken_steps(row) == []
    assert row.task.environment.trajectory_count == 4
    about = BatchProduct.objects.get(item__path="one").provenance
    assert (about["theme"], about["calls"], about["models"]["author"]) == ("one", 5, "local/scripted-1")
    assert about["prompts"]


def test_a_second_batch_asks_nothing_and_stores_nothing_new() -> None:
    user = person("operator")
    with llm_server(answer) as server:
        first = work_off(make_batch(user, settings_at(server.url), ["one", "two"]))
        before = len(server.requests)
        second = work_off(services.clone_batch(user, first.pk, settings_at(server.url), TABLE))
        assert len(server.requests) == before
    assert (second.state, second.requests, second.cloned_from) == ("done", 0, first)
    assert content(second) == content(first)
    assert [rows.objects.count() for rows in (Environment, Task, Trajectory)] == [2, 2, 2]
    replayed = sum(BatchStageCount.objects.filter(batch=second).values_list("replayed", flat=True))
    assert replayed == before


def test_near_duplicates_wait_for_each_other_and_one_goes_on() -> None:
    user = person("operator")
    same = [services.build_theme_spec(theme(name, "The same words.")) for name in ("one", "two", "three")]
    with llm_server(answer) as server:
        batch = services.create_batch(user, "Alike", same, settings_at(server.url), TABLE)
        work_off(batch)
        assert [row.state for row in batch.items.filter(level="theme").order_by("id")] == [
            "kept",
            "rejected",
            "rejected",
        ]
        left_out = item(batch, "two")
        assert (left_out.reason, left_out.stage) == ("duplicate", "deduplicate")
        assert BatchStageCount.objects.get(batch=batch, stage="deduplicate", state="rejected").count == 2
        services.keep_duplicate(user, batch.pk, left_out.pk, TABLE)
        work_off(batch)
    assert item(batch, "two").state == item(batch, "two/scenario-0/task-0/work-0").state == "kept"
    assert BatchStageCount.objects.get(batch=batch, stage="deduplicate", state="rejected").count == 1


def test_what_goes_wrong_with_one_item_is_said_there_and_the_batch_goes_on() -> None:
    names = ["good", "drop-1", "drop-2", "html-1", "malformed-1", "faulty", "poor"]
    with llm_server(answer) as server:
        batch = work_off(make_batch(person("operator"), settings_at(server.url), names))
    assert batch.state == "done"
    found = {row.path: (row.state, row.reason) for row in batch.items.filter(level="theme")}
    assert found == {
        "good": ("kept", ""),
        "drop-1": ("failed", "unreachable"),
        "drop-2": ("failed", "unreachable"),
        "html-1": ("failed", "malformed"),
        "malformed-1": ("failed", "malformed"),
        "faulty": ("failed", "fault"),
        "poor": ("rejected", "too_poor"),
    }
    assert item(batch, "drop-1").signature == item(batch, "drop-2").signature
    offending = LLMCall.objects.get(key=item(batch, "malformed-1").call_key)
    assert offending.state == "done"
    assert LLMCall.objects.get(key=item(batch, "drop-1").call_key).state == "failed"
    assert batch.lost == sum(LLMCall.objects.values_list("lost", flat=True)) > 0


def test_a_retry_asks_again_where_the_reply_was_at_fault() -> None:
    user = person("operator")
    replies: list[Any] = [say("no JSON")] * 3
    with llm_server(lambda request: replies.pop() if replies else answer(request)) as server:
        batch = work_off(make_batch(user, settings_at(server.url), ["one"]))
        assert item(batch, "one").state == "failed"
        assert services.retry_items(user, batch.pk) == 1
        work_off(batch)
    assert (batch.state, item(batch, "one/scenario-0/task-0/work-0").state) == ("done", "kept")
    assert BatchStageCount.objects.get(batch=batch, stage="assemble", state="failed").count == 0
    with pytest.raises(InputError, match="nothing to try again"):
        services.retry_items(user, batch.pk)


def test_the_spend_cap_stops_the_batch_and_a_higher_one_goes_on() -> None:
    user = person("operator")
    prices = {"local/scripted-1": Price(prompt=1_000, completion=1_000)}
    with llm_server(answer) as server:
        settings = settings_at(server.url, prices=prices, cap=1.25, at_once=1)
        batch = work_off(make_batch(user, settings, ["one", "two", "three"]))
        assert batch.state == "capped"
        assert "cap" in batch.note
        assert 0 < batch.spent <= 1.25
        sent = len(server.requests)
        assert not batch.items.filter(state="running").exists()
        services.resume_batch(user, batch.pk, cap=1_000.0)
        work_off(batch)
        assert batch.state == "done"
        assert len(server.requests) == LLMCall.objects.count() > sent
    assert batch.spent == pytest.approx(LLMCall.objects.count() * 15 / 1_000)
    assert sum(BatchStageCount.objects.values_list("cost", flat=True)) == pytest.approx(batch.spent)


def test_a_paused_batch_stands_still_and_a_cancelled_one_ends() -> None:
    user = person("operator")
    with llm_server(answer) as server:
        batch = make_batch(user, settings_at(server.url), ["one", "two"])
        services.pause_batch(user, batch.pk)
        work_off(batch)
        assert (batch.state, len(server.requests)) == ("paused", 0)
        services.resume_batch(user, batch.pk)
        services.cancel_batch(user, batch.pk)
        work_off(batch)
        assert (batch.state, len(server.requests)) == ("cancelled", 0)
        assert set(batch.items.values_list("state", flat=True)) == {"cancelled"}
        services.retry_items(user, batch.pk)
        work_off(batch)
    assert batch.state == "done"
    assert set(batch.items.values_list("state", flat=True)) == {"kept"}


def test_themes_are_found_in_a_task_set_and_counted_with_it() -> None:
    specs = [services.build_text_spec(text, "errands") for text in ("Book a room for Ada.", "What is the weather?")]
    with llm_server(answer) as server:
        batch = services.create_batch(person("operator"), "Errands", specs, settings_at(server.url), TABLE)
        work_off(batch)
    assert [row.state for row in batch.items.filter(level="theme").order_by("id")] == ["kept", "rejected"]
    counts = dict(SourceCount.objects.filter(source__name="errands").values_list("reason", "number"))
    assert counts == {"": 1, "not_stateful": 1}
    found = Theme.objects.get(source="errands")
    assert (found.origin, found.origin_text, found.provenance["batch"]) == ("tasks", "Book a room for Ada.", batch.pk)


def test_annotators_launch_within_the_limit() -> None:
    user = person("annotator")
    services.set_launch_limit(person("operator", "op"), cap=2.0, themes=2)
    with llm_server(answer) as server:
        settings = settings_at(server.url)
        Endpoint.objects.update(prices={"scripted-1": {"prompt": 1.0, "completion": 2.0}})
        with pytest.raises(InputError, match="up to 2 themes"):
            make_batch(user, settings, ["one", "two", "three"])
        with pytest.raises(InputError, match="up to 2 in a batch"):
            make_batch(user, settings.model_copy(update={"cap": 3.0}), ["one"])
        assert make_batch(user, settings, ["one"], start=False).cap == 2.0

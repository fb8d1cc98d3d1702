"""What people do on a batch's page: each action where it applies, one clear message where it no longer does."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from synthesis.llm.cost import Price
from tests.batches.pages.test_batch_pages import client, item, mixed, page, user
from tests.batches.support import make_batch, settings_at, work_off
from tests.batches.table import TABLE, answer, theme
from tests.fixtures.llm import llm_server
from tests.fixtures.markup import markup
from webapp.accounts.models import AuditEntry
from webapp.batches import services
from webapp.batches.models import Batch, BatchItem, BatchStageCount
from webapp.batches.pages import progress
from webapp.batches.pages.time_left import TimeLeft, estimate_time_left

pytestmark = pytest.mark.django_db(transaction=True)
ACTS = ("start", "pause", "resume", "cancel", "retry", "take-up", "raise")


def do(who: Client, name: str, pk: int, **data: Any) -> str:
    """Post it and give the one message that the page then shows."""
    found = who.post(reverse(f"batches:{name}", args=[pk]), data, follow=True)
    assert found.redirect_chain
    flash = markup(found).partition('<div id="flash"')[2].partition("</div>")[0]
    (told,) = re.findall(r'<(?:p|div) class="note[^>]*>([^<]*)', flash)
    return html.unescape(told.strip())


def offered(who: Client, batch: Batch) -> set[str]:
    text = page(who, "batch", batch.pk)
    return {name for name in ACTS if f'id="act-{name}"' in text}


def state(batch: Batch) -> str:
    batch.refresh_from_db()
    return batch.state


def test_each_action_is_there_when_it_applies_and_a_stale_click_says_so() -> None:
    who = client("researcher", "rea")
    with llm_server(answer) as server:
        batch = make_batch(user("operator", "op"), settings_at(server.url), ["one"], start=False)
        assert offered(who, batch) == {"start", "cancel"}
        assert "was started" in do(who, "start", batch.pk)
        assert offered(who, batch) == {"pause", "cancel"}
        assert "Only a draft is started" in do(who, "start", batch.pk)
        assert "is paused" in do(who, "pause", batch.pk)
        assert offered(who, batch) == {"resume", "cancel"}
        assert "Only a running batch is paused" in do(who, "pause", batch.pk)
        assert "goes on" in do(who, "resume", batch.pk)
        work_off(batch)
        assert state(batch) == "done"
        assert offered(who, batch) == set()
        assert "has ended" in do(who, "cancel", batch.pk)
        assert "can be resumed" in do(who, "resume", batch.pk)
        assert "nothing to try again" in do(who, "retry", batch.pk)
    assert {"batch.start", "batch.pause", "batch.resume"} <= set(AuditEntry.objects.values_list("action", flat=True))


def test_viewers_see_no_action_and_must_not_do_any() -> None:
    batch = mixed()
    who = client("viewer", "vi")
    text = page(who, "batch", batch.pk) + page(who, "item", item(batch, "twin").pk)
    assert 'method="post" action="/batches' not in text
    for name in ("start", "pause", "resume", "cancel", "retry"):
        assert who.post(reverse(f"batches:{name}", args=[batch.pk])).status_code == 403
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(user("annotator", "ann"))
    assert strict.post(reverse("batches:retry", args=[batch.pk])).status_code == 403


def test_a_capped_batch_goes_on_with_a_higher_cap() -> None:
    who = client()
    prices = {"local/scripted-1": Price(prompt=1_000, completion=1_000)}
    with llm_server(answer) as server:
        settings = settings_at(server.url, prices=prices, cap=1.25, at_once=1)
        batch = work_off(make_batch(user("operator", "op"), settings, ["one", "two", "three"]))
        assert state(batch) == "capped"
        text = page(who, "batch", batch.pk)
        assert "The spend cap is reached" in text
        assert 'name="cap"' in text
        for wrong in ("much", "-1", "nan", "inf", "1e999"):
            assert "The cap is a number" in do(who, "resume", batch.pk, cap=wrong)
        assert "Give a higher cap" in do(client("operator", "op"), "resume", batch.pk, cap="0.01")
        assert "You may spend up to" in do(who, "resume", batch.pk, cap="1000")
        assert state(batch) == "capped"
        assert "goes on" in do(client("operator", "op"), "resume", batch.pk, cap="1000")
        work_off(batch)
    assert state(batch) == "done"


def test_what_failed_is_tried_again_alone_with_its_like_or_all_of_it() -> None:
    batch = mixed()
    who = client("researcher", "rea")
    drop, twin = item(batch, "drop-1"), item(batch, "twin")

    def waiting() -> set[str]:
        return set(BatchItem.objects.filter(batch=batch, state="waiting").values_list("path", flat=True))

    assert do(who, "retry", batch.pk, item=drop.pk) == "1 item was queued again."
    assert waiting() == {"drop-1"}
    assert "are no longer failed" in do(who, "retry", batch.pk, like=drop.pk)
    assert do(who, "retry", batch.pk, like=item(batch, "drop-2").pk) == "1 item was queued again."
    assert "no such item" in do(who, "retry", batch.pk, item=drop.pk)
    assert "no longer failed" in do(who, "retry", batch.pk, item=10**9)
    assert 'id="retry-at-assemble"' in page(who, "batch", batch.pk)
    assert "no such item" in do(who, "retry", batch.pk, stage="assess")
    assert do(who, "retry", batch.pk, stage="assemble") == "2 items were queued again."
    assert waiting() == {"drop-1", "drop-2", "malformed-1", "faulty"}
    assert do(who, "retry", batch.pk, like=item(batch, "poor").pk, rejected="1") == "1 item was queued again."
    assert state(batch) == "running"
    assert twin.state == "rejected"
    log = client("admin", "adm").get(reverse("pages:audit_log"))  # an entry's detail has a key called "items"
    assert log.status_code == 200
    assert re.search(r'<a [^>]*>batch.retry</a>.*?<span class="muted">items</span> 1\b', markup(log), re.DOTALL)


def test_a_near_duplicate_is_kept_all_the_same() -> None:
    batch = mixed()
    who = client("researcher", "rea")
    twin = item(batch, "twin")
    assert 'id="act-keep"' in page(who, "item", twin.pk)
    assert 'id="act-keep"' not in page(who, "item", item(batch, "poor").pk)
    assert "goes on" in do(who, "keep", twin.pk)
    twin.refresh_from_db()
    assert (twin.state, state(batch)) == ("waiting", "running")
    assert "Only a theme that was left out" in do(who, "keep", twin.pk)


def test_what_was_cancelled_is_taken_up_again() -> None:
    who = client("researcher", "rea")
    with llm_server(answer) as server:
        batch = make_batch(user("operator", "op"), settings_at(server.url), ["one", "two"])
        assert "was cancelled" in do(who, "cancel", batch.pk)
        work_off(batch)
        assert offered(who, batch) == {"take-up"}
        assert do(who, "retry", batch.pk) == "2 items were queued again."
        work_off(batch)
    assert state(batch) == "done"


def test_the_live_part_asks_again_while_something_can_change() -> None:
    who = client("viewer", "vi")
    with llm_server(answer) as server:
        batch = make_batch(user("operator", "op"), settings_at(server.url), ["one"])
        live = page(who, "live", batch.pk)
        assert f'data-live="batch:{batch.pk}"' in live
        assert "<html" not in live
        assert "Stages" not in page(who, "live", batch.pk, query="?tab=items")
        fresh = item(batch, "one")
        assert f'data-live="batch:{batch.pk}"' in page(who, "item_live", fresh.pk)
        work_off(batch)
    assert "data-live=" not in page(who, "live", batch.pk)
    assert "data-live=" not in page(who, "item_live", fresh.pk)
    ids = re.findall(r' id="([^"]+)"', page(who, "batch", batch.pk))
    assert len(ids) == len(set(ids))


def test_time_left_takes_a_stage_that_nothing_was_through_from_earlier_batches() -> None:
    settings = settings_at("http://127.0.0.1:9/v1").stages.model_copy(update={"scenarios": 2, "tasks": 3})
    earlier, batch = (Batch.objects.create(name=name) for name in ("Earlier", "Now"))
    names = [stage.name for stage in TABLE.stages]
    lines = [progress.StageLine(name, kept=2, seconds=4.0) for name in (*names, "save")]
    open_task = {("task", "audit"): {"waiting": 1, "running": 1}}
    # audit and save of the task, then rollout, filter and save of its trajectory: 2 s each
    assert estimate_time_left(batch, lines, open_task, TABLE, settings) == TimeLeft(2 * 5 * 2.0)
    open_theme = {("theme", "assess"): {"waiting": 1}}
    tasks = 3 * (3 + 3)
    assert estimate_time_left(batch, lines, open_theme, TABLE, settings) == TimeLeft((2 + 2 * (2 + tasks)) * 2.0)
    seen = [line for line in lines if line.name != "filter"] + [progress.StageLine("filter")]
    without = (2 + 2 * (2 + 3 * (3 + 2))) * 2.0
    assert estimate_time_left(batch, seen, open_theme, TABLE, settings) == TimeLeft(without, unseen=("filter",))
    BatchStageCount.objects.create(batch=earlier, stage="filter", state="kept", count=4, seconds=12.0)
    assert estimate_time_left(batch, seen, open_theme, TABLE, settings) == TimeLeft(without + 2 * 3 * 3.0, earlier=True)
    assert estimate_time_left(batch, lines, {}, TABLE, settings) == TimeLeft(0.0)


def test_a_draft_is_started_by_its_page_and_says_that_nothing_is_spent() -> None:
    specs = [services.build_theme_spec(theme("one"))]
    settings = settings_at("http://127.0.0.1:9/v1")
    batch = services.create_batch(user("operator", "op"), "Later", specs, settings, TABLE, start=False)
    assert "no request is sent and nothing is spent" in page(client(), "batch", batch.pk)
    assert page(client(), "batch", batch.pk + 1, status=404)

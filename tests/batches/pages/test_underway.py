"""What a stage under way has used is shown before it ends; calls without a reply show their age; time counts work."""

from __future__ import annotations

import functools
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone

from synthesis.contracts import Usage
from synthesis.llm.cost import Price
from tests.batches.support import make_batch, settings_at, work_off
from tests.batches.table import answer
from tests.fixtures.llm import Request, Scripted, llm_server
from tests.fixtures.markup import flat, words
from tests.rollouts_web.support import person
from webapp.accounts.models import User
from webapp.batches import services
from webapp.batches.engine.shifts import count_worked_seconds, extend_shift, sum_intervals
from webapp.batches.engine.stage_runs import EndedStage, count_interrupted_usage
from webapp.batches.models import Batch, BatchItem, BatchShift, BatchState, ItemState, LLMCall, StageState
from webapp.batches.pages.underway import read_current_usage
from webapp.jobs.claims import JobClaim

pytestmark = pytest.mark.django_db(transaction=True)
MODEL = "local/scripted-1"


@pytest.fixture
def operator() -> User:
    return person("operator", "op")


@pytest.fixture
def who(operator: User) -> Client:
    client = Client()
    client.force_login(operator)
    return client


def hold(free: threading.Event, request: Request) -> Scripted:
    """The second question of an assessment's tester is not answered before `free`."""
    if "tester: call 1" in request["messages"][0]["content"]:
        free.wait(30)
    return answer(request)


@contextmanager
def working(batch: Batch, free: threading.Event) -> Iterator[None]:
    def work() -> None:
        try:
            work_off(batch)
        finally:
            connection.close()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        free.set()
        thread.join(60)


def wait_for(found: Callable[[], bool]) -> None:
    until = time.monotonic() + 30
    while not found():
        assert time.monotonic() < until
        time.sleep(0.05)


def row_of(html: str, stage: str) -> list[str]:
    """Calls, tokens and cost of a row of the funnel."""
    found = re.search(rf'<th scope="row" class="nowrap">{stage}.*?</tr>', html)
    assert found is not None
    cells = re.findall(r"<td[^>]*>(.*?)</td>", found[0])
    return [words(re.sub(r"<span.*?</span>", "", cell)).strip() for cell in cells[-3:]]


def test_a_running_stage_shows_its_calls_tokens_cost_and_the_age_of_what_waits(operator: User, who: Client) -> None:
    free = threading.Event()
    with llm_server(functools.partial(hold, free)) as server:
        settings = settings_at(server.url, prices={MODEL: Price(prompt=1_000, completion=2_000)})
        batch = make_batch(operator, settings, ["one"])
        with working(batch, free):
            wait_for(lambda: LLMCall.objects.filter(stage="call", state="done").count() == 2)
            wait_for(lambda: LLMCall.objects.filter(stage="call", state="sent").exists())
            page = flat(who.get(f"/batches/{batch.pk}/live/"))
            batch.refresh_from_db()
            # Two were answered, of 10 + 5 tokens each, and one waits.
            assert row_of(page, "assess") == ["3", "30", "0.0400"]
            assert "45 in" not in page
            assert "30 in, 15 out" in page, "assemble has ended with one call, assess is under way with two"
            assert re.search(r'In flight</dt><dd><a [^>]*>1</a>, <span class="nowrap" data-age="[\d.]+">sent', page)
            calls = flat(who.get(f"/batches/{batch.pk}/?tab=calls"))
            assert len(re.findall(r'data-age="[\d.]+">sent \S+ \S+ ago', calls)) == 2, "its row, and the facts above"
            item = batch.items.get()
            own = words(flat(who.get(f"/batches/items/{item.pk}/live/")))
            assert "3 calls · 30 tokens · 0.04" in own
            assert re.search(r"tester: call\s*sample 1\s*sent", own)
            waiting = LLMCall.objects.get(state="sent")
            assert "no reply yet, sent" in words(flat(who.get(f"/batches/calls/{waiting.pk}/")))
    page = flat(who.get(f"/batches/{batch.pk}/live/"))
    assert row_of(page, "assess") == ["4", "60", "0.0800"], "counted once, now that it has ended"
    assert "In flight" not in page


def test_what_a_broken_off_stage_used_is_counted_once(operator: User) -> None:
    with llm_server(answer) as server:
        batch = make_batch(operator, settings_at(server.url), ["one"])
        work_off(batch)
    item, lane = batch.items.get(level="theme"), batch.lanes.get()
    LLMCall.objects.filter(item=item).update(updated_at=timezone.now())
    lane.job.state = "running"
    lane.job.save()
    BatchItem.objects.filter(pk=item.pk).update(
        state=ItemState.RUNNING, stage="assess", job=lane.job, claim=lane.job.attempt, updated_at=item.created_at
    )
    assert [use.stage for use in read_current_usage([item.pk])] == ["assess"]
    broken = EndedStage("assess", StageState.KEPT, usage=Usage(requests=4), cost=1.0)
    count_interrupted_usage(JobClaim(lane.job_id, lane.job.attempt), item.pk, broken)
    assert read_current_usage([item.pk]) == []


def test_a_call_whose_worker_has_ended_has_no_age(operator: User, who: Client) -> None:
    with llm_server(answer) as server:
        batch = make_batch(operator, settings_at(server.url), ["one"])
        work_off(batch)
    LLMCall.objects.filter(batch=batch, stage="instruction").update(state="sent", open=1, seconds=0)
    calls = flat(who.get(f"/batches/{batch.pk}/?tab=calls"))
    assert "data-age" not in calls
    assert "no reply" in words(calls)


def test_time_between_an_end_and_a_retry_is_not_work(operator: User, who: Client) -> None:
    with llm_server(answer) as server:
        batch = work_off(make_batch(operator, settings_at(server.url), ["one", "poor-1"]))
        first = count_worked_seconds(batch)
        assert first is not None
        hours = timedelta(hours=3)  # it all happened three hours ago
        Batch.objects.filter(pk=batch.pk).update(started_at=batch.started_at - hours)
        for shift in BatchShift.objects.all():
            shift.began_at, shift.seen_at = shift.began_at - hours, shift.seen_at - hours
            shift.save()
        services.retry_items(operator, batch.pk, states=("rejected",))
        batch = work_off(batch)
    assert BatchShift.objects.filter(batch=batch).count() == 2
    worked = count_worked_seconds(batch)
    assert worked is not None
    assert first < worked < 600
    told = words(flat(who.get(f"/batches/{batch.pk}/live/")))
    assert re.search(r"Worked\s*[\d.]+ m?s in 3 h 0 min from start to end", told)


def test_work_of_a_killed_lane_ends_where_it_was_last_seen(operator: User) -> None:
    now = timezone.now()
    batch = Batch.objects.create(name="Killed", state=BatchState.RUNNING, started_at=now - timedelta(hours=2))
    other = make_batch(operator, settings_at("http://127.0.0.1:9/v1"), ["one"])
    job = other.lanes.get().job
    began = now - timedelta(hours=2)
    BatchShift.objects.create(batch=batch, job=job, attempt=1, began_at=began, seen_at=began + timedelta(minutes=1))
    assert count_worked_seconds(batch) == 60
    again = BatchShift.objects.create(
        batch=batch, job=job, attempt=2, began_at=now - timedelta(seconds=30), seen_at=now - timedelta(seconds=3)
    )
    assert 90 <= (count_worked_seconds(batch) or 0) < 120, "the lane that took over still works"
    extend_shift(JobClaim(job.pk, 2))  # whose job nobody holds any more
    seen = again.seen_at
    again.refresh_from_db()
    assert again.seen_at == seen


def test_lanes_beside_each_other_are_counted_once() -> None:
    start = timezone.now()

    def at(begin: int, end: int) -> tuple:
        return start + timedelta(seconds=begin), start + timedelta(seconds=end)

    assert sum_intervals([at(0, 10), at(5, 12), at(6, 7), at(20, 25)]) == 17
    assert sum_intervals([]) == 0

"""People press buttons while 50 items run, 16 at once on two lanes: nothing is lost, asked twice or left behind."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection
from django.db.models import Sum

from synthesis.errors import InputError
from synthesis.llm.cost import Price
from synthesis.stages import StageSettings
from tests.batches.support import make_batch, settings_at
from tests.batches.table import answer, slow
from tests.fixtures.api import problem, program
from tests.fixtures.llm import Request, Scripted, ScriptedServer, llm_server
from tests.fixtures.processes import wait_for
from tests.rollouts_web.support import endpoint_at, person
from webapp.accounts import people
from webapp.accounts.models import Role
from webapp.batches import services
from webapp.batches.models import Batch, BatchItem, BatchLane, BatchProduct, LLMCall
from webapp.endpoints.models import Endpoint
from webapp.endpoints.services import EndpointChanges, delete_endpoint, save_endpoint
from webapp.jobs import services as jobs
from webapp.jobs.jobs import run_job
from webapp.jobs.models import Job, JobState

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

THEMES = [f"theme-{number}" for number in range(5)]
STAGES = StageSettings(scenarios=3, tasks=1, teacher_runs=1)
"""5 themes, 15 scenarios, 15 tasks, 15 trajectories."""
LANES = 2
CALLS = 5 * 5 + 15 + 15 * 3


@contextmanager
def workers(count: int = LANES) -> Iterator[None]:
    """Threads that take jobs as workers do, until the block ends."""
    ending = threading.Event()

    def work() -> None:
        while not ending.wait(0.02):
            waiting = Job.objects.filter(kind="run_batch", state=JobState.QUEUED).order_by("id").first()
            if waiting is not None:
                run_job(waiting.pk)
            connection.close()

    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        Batch.objects.filter(state="running").update(state="paused")  # a test that failed leaves no thread at work
        ending.set()
        for thread in threads:
            thread.join(60)


def begin(user: Any, server: ScriptedServer, **changes: Any) -> Batch:
    settings = settings_at(server.url, **({"stages": STAGES, "lanes": LANES, "at_once": 16} | changes))
    return make_batch(user, settings, THEMES)


def asked(server: ScriptedServer, count: int) -> None:
    wait_for(lambda: len(server.requests) >= count, what=f"{count} requests")


def reached(batch: Batch, *states: str) -> Callable[[], bool]:
    return lambda: Batch.objects.get(pk=batch.pk).state in states


def at_rest(batch: Batch) -> None:
    """No lane works on it any more."""
    wait_for(lambda: not Job.objects.filter(state__in=["queued", "running"]).exists(), what="the lanes' end")
    assert not batch.items.filter(state="running").exists()


def require_whole(batch: Batch, server: ScriptedServer, calls: int = CALLS) -> None:
    """It came to all its items, each once, and asked for each of them once."""
    batch.refresh_from_db()
    assert batch.state == "done"
    assert [(row.path, row.state, row.message) for row in batch.items.exclude(state="kept")] == []
    assert batch.items.count() == BatchProduct.objects.filter(item__batch=batch).count() == 50
    assert LLMCall.objects.count() == calls
    sums = LLMCall.objects.aggregate(requests=Sum("requests"), lost=Sum("lost"), open=Sum("open"))
    assert (sums["requests"], sums["open"]) == (len(server.requests), 0)
    assert len(server.requests) == calls + sums["lost"]


def test_a_batch_is_paused_and_goes_on_where_it_stood() -> None:
    user = person("operator")
    with llm_server(functools.partial(slow, 0.1)) as server, workers():
        batch = begin(user, server)
        asked(server, 30)
        services.pause_batch(user, batch.pk)
        at_rest(batch)
        stood = len(server.requests)
        assert 30 <= stood < CALLS
        assert LLMCall.objects.filter(state="done").count() == stood, "what was in flight came to its end, and is kept"
        time.sleep(0.5)
        assert len(server.requests) == stood, "nothing begins while it stands still"
        services.resume_batch(user, batch.pk)
        with pytest.raises(InputError, match="is running"):
            services.resume_batch(user, batch.pk)
        assert BatchLane.objects.filter(job__state__in=["queued", "running"]).count() == LANES
        wait_for(reached(batch, "done"), seconds=40, what="the end")
        at_rest(batch)
        require_whole(batch, server)


def test_pause_and_resume_at_once_leave_as_many_lanes_as_there_were() -> None:
    """Lanes may see the pause, or only the resumption: in both cases somebody goes on."""
    user = person("operator")
    with llm_server(functools.partial(slow, 0.05)) as server, workers():
        batch = begin(user, server)
        for count in (5, 15, 25, 35, 45):
            asked(server, count)
            services.pause_batch(user, batch.pk)
            time.sleep(0.01 * count)
            services.resume_batch(user, batch.pk)
            assert BatchLane.objects.filter(over=False, job__state__in=["queued", "running"]).count() == LANES
        wait_for(reached(batch, "done"), seconds=40, what="the end")
        at_rest(batch)
        require_whole(batch, server)


@pytest.mark.parametrize("first", ["pause", ""])
def test_a_batch_is_cancelled_for_good(first: str) -> None:
    user = person("operator")
    with llm_server(functools.partial(slow, 0.1)) as server, workers():
        batch = begin(user, server)
        asked(server, 30)
        if first:
            services.pause_batch(user, batch.pk)
        services.cancel_batch(user, batch.pk)
        at_rest(batch)
        stood = len(server.requests)
        assert stood < CALLS
        assert set(batch.items.values_list("state", flat=True)) <= {"kept", "cancelled"}
        assert batch.items.filter(state="cancelled").exists()
        for act in (services.pause_batch, services.resume_batch, services.cancel_batch):
            with pytest.raises(InputError, match="cancelled"):
                act(user, batch.pk)
        time.sleep(0.5)
        assert len(server.requests) == stood
        # All that was cancelled may be tried again, and nothing is asked twice.
        services.retry_items(user, batch.pk)
        wait_for(reached(batch, "done"), seconds=40, what="the end")
        at_rest(batch)
        require_whole(batch, server)


def test_failed_items_are_tried_again_while_the_others_run() -> None:
    user = person("operator")
    well = threading.Event()

    def moody(request: Request) -> Scripted:
        text = request["messages"][0]["content"]
        return slow(0.1, request) if well.is_set() or "theme-3" not in text else Scripted("no", status=400)

    with llm_server(moody) as server, workers():
        batch = begin(user, server)
        failed = BatchItem.objects.filter(batch=batch, state="failed")
        wait_for(failed.exists, what="a failure")
        well.set()
        assert services.retry_items(user, batch.pk) == 1
        assert BatchLane.objects.filter(over=False, job__state__in=["queued", "running"]).count() == LANES
        with pytest.raises(InputError, match="nothing to try again"):
            services.retry_items(user, batch.pk)
        wait_for(reached(batch, "done"), seconds=40, what="the end")
        at_rest(batch)
        require_whole(batch, server)


def test_a_retry_at_the_very_end_finds_somebody_who_works() -> None:
    """Retries that come while the last lane is on its way out are not left lying."""
    user = person("operator")

    def sour(request: Request) -> Scripted:
        return Scripted("no", status=400) if "theme-3" in request["messages"][0]["content"] else answer(request)

    with llm_server(sour) as server, workers():
        batch = begin(user, server, stages=StageSettings(scenarios=1, tasks=1, teacher_runs=1))
        for _ in range(8):
            wait_for(reached(batch, "done"), seconds=20, what="the end")
            services.retry_items(user, batch.pk)
        wait_for(reached(batch, "done"), seconds=20, what="the end")
        at_rest(batch)
    assert dict(batch.items.filter(level="theme").values_list("path", "state"))["theme-3"] == "failed"
    assert not batch.items.filter(state="waiting").exists()


def test_a_deleted_endpoint_is_asked_no_more_and_the_batch_says_why() -> None:
    user = person("operator")
    with llm_server(functools.partial(slow, 0.1)) as server, workers():
        batch = begin(user, server, at_once=2)
        asked(server, 8)
        delete_endpoint(user, Endpoint.objects.get().pk)
        wait_for(reached(batch, "paused"), seconds=20, what="the pause")
        at_rest(batch)
        batch.refresh_from_db()
        assert "not listed at its endpoint any more" in batch.note
        assert "Clone the batch and choose another" in batch.note
        stood = len(server.requests)
        assert set(batch.items.values_list("state", flat=True)) <= {"kept", "waiting"}
        with pytest.raises(InputError, match="is not listed at its endpoint"):
            services.resume_batch(user, batch.pk)
        batch.refresh_from_db()
        assert (batch.state, len(server.requests)) == ("paused", stood)


def test_a_changed_key_is_used_without_a_pause() -> None:
    user = person("operator")
    with llm_server(functools.partial(slow, 0.1)) as server, workers():
        batch = begin(user, server, at_once=2)
        asked(server, 8)
        row = Endpoint.objects.get()
        wish = EndpointChanges(
            row.name, row.base_url, "sk-another-key-0815", tuple(row.model_names), timeout_s=row.timeout_s
        )
        save_endpoint(user, wish, row.pk)
        wait_for(reached(batch, "done"), seconds=60, what="the end")
        at_rest(batch)
        keys = [request["_headers"]["authorization"] for request in server.requests]
        require_whole(batch, server)
    assert keys[0] != keys[-1] == "Bearer sk-another-key-0815"


def test_a_batch_goes_on_without_its_owner_who_may_do_nothing_any_more() -> None:
    """It is the installation's work; operators can stop it. The owner's role counts at each button."""
    owner, admin = person("annotator"), person("admin", "boss")
    services.set_launch_limit(admin, cap=100.0, themes=10)
    with llm_server(functools.partial(slow, 0.1)) as server, workers():
        endpoint_at(server.url, max_concurrency=64, timeout_s=5, prices={"scripted-1": Price(prompt=1, completion=1)})
        batch = begin(owner, server, at_once=4)
        asked(server, 8)
        client = program(owner, "read", "synthesise")
        people.change_role(admin, owner.pk, Role.VIEWER)
        problem(client.post(f"/batches/{batch.pk}/pause"), 403)
        people.set_active(admin, owner.pk, False)
        problem(client.post(f"/batches/{batch.pk}/pause"), 401)
        services.pause_batch(admin, batch.pk)
        at_rest(batch)
        services.resume_batch(admin, batch.pk)
        wait_for(reached(batch, "done"), seconds=60, what="the end")
        at_rest(batch)
        require_whole(batch, server)
    assert batch.created_by == owner
    assert jobs.reap_jobs() == 0


def test_a_job_that_a_person_stops_pauses_the_batch_whether_it_waits_or_runs() -> None:
    user = person("operator")
    with llm_server(functools.partial(slow, 0.1)) as server:
        batch = begin(user, server, lanes=1)
        jobs.cancel_job(Job.objects.get().pk, user)
        batch.refresh_from_db()
        assert (batch.state, batch.note) == ("paused", "Its job was stopped. Resume it to go on.")
        services.resume_batch(user, batch.pk)
        with workers():
            asked(server, 5)
            jobs.cancel_job(Job.objects.get(state="running").pk, user)
            wait_for(reached(batch, "paused"), what="the pause")
            at_rest(batch)
            batch.refresh_from_db()
            assert batch.note == "Its job was stopped. Resume it to go on."
            services.resume_batch(user, batch.pk)
            wait_for(reached(batch, "done"), seconds=60, what="the end")
            at_rest(batch)
            require_whole(batch, server)

"""What a batch stands on goes away for a moment: the database, a process of the sandbox. No item suffers for it."""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter
from typing import Any

import pytest
from django.db import connection

from synthesis.errors import SandboxLost
from synthesis.llm import client
from synthesis.runtime import get_default_sandbox
from tests.batches.engine.test_under_load import at_rest, begin, reached, require_whole, workers
from tests.batches.support import make_batch, settings_at, work_off
from tests.batches.table import TABLE, answer, slow
from tests.fixtures.llm import llm_server
from tests.fixtures.processes import wait_for
from tests.rollouts_web.support import person
from webapp.batches import awaited_endpoints, services
from webapp.batches.engine.lane import close_lane, run_lane
from webapp.batches.models import Batch, StageRun
from webapp.endpoints.models import Endpoint
from webapp.jobs.models import Job
from webapp.jobs.registry import KINDS, JobKind
from webapp.jobs.services import reap_jobs

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]


def test_an_endpoint_that_is_away_pauses_the_batch_which_goes_on_once_it_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client, "FIRST_WAIT_S", 0.01)
    with llm_server(answer) as gone:
        settings = settings_at(gone.url)
    batch = work_off(make_batch(person("operator"), settings, ["one", "two"]))
    row = Endpoint.objects.get()
    assert (batch.state, batch.away) == ("paused", row.name)
    assert batch.note.startswith("Paused: endpoint unreachable.")
    assert set(batch.items.values_list("state", "reason")) == {("waiting", "")}
    assert not StageRun.objects.exclude(state="kept").exists(), "no item has used up a try"
    assert awaited_endpoints.resume_waiting_batches() == 0, "it is still away"
    with llm_server(answer) as back:
        Endpoint.objects.update(base_url=back.url)
        assert awaited_endpoints.resume_waiting_batches() == 1
        batch = work_off(batch)
    assert (batch.state, batch.away, batch.note) == ("done", "", "")
    assert set(batch.items.values_list("state", flat=True)) == {"kept"}


def test_who_pauses_a_batch_that_waits_for_its_endpoint_keeps_it_paused() -> None:
    user = person("operator")
    batch = make_batch(user, settings_at("http://127.0.0.1:9/v1"), ["one"])
    Batch.objects.filter(pk=batch.pk).update(state="paused", away="far", note="Paused: endpoint unreachable.")
    paused = services.pause_batch(user, batch.pk)
    assert (paused.state, paused.away, services.resume_after_endpoint("far")) == ("paused", "", 0)


def hang_up() -> int:
    """Every other connection to this database ends, as when the server is started anew."""
    with connection.cursor() as cursor:
        cursor.execute(
            "select count(pg_terminate_backend(pid)) from pg_stat_activity "
            "where datname = current_database() and pid <> pg_backend_pid()"
        )
        return int(cursor.fetchone()[0])


def test_a_database_that_hangs_up_fails_neither_an_item_nor_the_batch() -> None:
    user = person("operator")

    def back(batch: Batch) -> bool:
        reap_jobs()
        return reached(batch, "done")()

    with llm_server(functools.partial(slow, 0.1)) as server, workers():
        batch = begin(user, server)
        wait_for(lambda: len(server.requests) >= 30, what="requests")
        assert hang_up() > 0
        wait_for(lambda: back(batch), seconds=60, what="the end")
        at_rest(batch)
        require_whole(batch, server)
    assert Job.objects.filter(kind="run_batch", attempt__gt=1).exists()


def losing(times: int) -> Counter[str]:
    """Jobs of batches run a short pipeline whose `state` loses its sandbox so many times an item; how often it ran."""
    tries: Counter[str] = Counter()

    async def lost(kit: Any, *given: Any) -> Any:
        tries[kit.path] += 1
        if tries[kit.path] <= times:
            raise SandboxLost("sandbox", "its process ended")
        assert plain.run is not None
        return await plain.run(kit, *given)

    plain = TABLE.stage("state")
    stages = tuple(dataclasses.replace(one, run=lost) if one is plain else one for one in TABLE.stages)
    table = dataclasses.replace(TABLE, stages=stages)
    KINDS["run_batch"] = JobKind(
        "run_batch", "llm", lambda job: run_lane(get_default_sandbox(), job, table), close_lane
    )
    return tries


@pytest.mark.parametrize(("times", "state", "reason"), [(2, "kept", ""), (3, "failed", "sandbox_lost")])
def test_a_stage_that_loses_its_sandbox_is_tried_again_twice(times: int, state: str, reason: str) -> None:
    tries = losing(times)
    with llm_server(answer) as server:
        batch = work_off(make_batch(person("operator"), settings_at(server.url), ["one"]))
    row = batch.items.get(path="one/scenario-0")
    assert (row.state, row.reason, tries["one/scenario-0"]) == (state, reason, 3)
    assert batch.state == "done"

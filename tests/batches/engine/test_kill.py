"""Workers are killed at random points of a batch of 50 items: what it comes to is what it would have come to."""

from __future__ import annotations

import functools
import random
import sys
import time
from pathlib import Path

import pytest

from synthesis.stages import StageSettings
from tests.batches.support import content, make_batch, settings_at
from tests.batches.table import TABLE, slow
from tests.fixtures.llm import llm_server
from tests.fixtures.processes import Running, child_environment, launch, wait_for
from tests.rollouts_web.support import person
from webapp.batches import services
from webapp.batches.models import Batch, BatchItem, BatchProduct, BatchStageCount, LLMCall
from webapp.jobs.models import Job
from webapp.scenarios.models import Task
from webapp.trajectories.models import Score, Trajectory

pytestmark = [pytest.mark.kill, pytest.mark.django_db(transaction=True)]

THEMES = [f"theme-{number}" for number in range(5)]
STAGES = StageSettings(scenarios=3, tasks=1, teacher_runs=1)
"""5 themes, 15 scenarios, 15 tasks, 15 trajectories."""
AT_ONCE = 6
LANES = 2


def worker(folder: Path, number: int) -> Running:
    command = [sys.executable, "-m", "tests.batches.engine.lane"]
    return launch(command, folder / f"lane-{number}.log", child_environment(ENVARIUM_JOB_LEASE_SECONDS="2"))


def state(batch: Batch) -> str:
    batch.refresh_from_db()
    return batch.state


def ended(batch: Batch) -> bool:
    """A batch whose workers were lost too often waits for a person, who is played here."""
    if state(batch) == "failed":
        services.resume_batch(None, batch.pk)
    return state(batch) == "done"


def kept(batch: Batch) -> int:
    return BatchItem.objects.filter(batch=batch, state="kept").count()


def test_what_a_batch_comes_to_does_not_depend_on_killed_workers(tmp_path: Path) -> None:
    luck = random.Random(4)
    user = person("operator")
    with llm_server(functools.partial(slow, 0.15)) as server:
        settings = settings_at(server.url, stages=STAGES, lanes=LANES, at_once=AT_ONCE)
        batch = make_batch(user, settings, THEMES)
        workers = [worker(tmp_path, number) for number in range(LANES)]
        kills = 0
        try:
            while kills < 5 and state(batch) != "done":
                before, until = len(server.requests), time.monotonic() + 40
                aim = before + luck.randint(3, 20)
                while len(server.requests) < aim and state(batch) != "done":
                    assert time.monotonic() < until, "nothing is asked any more"
                    ended(batch)
                    time.sleep(luck.uniform(0.005, 0.05))
                victim = luck.randrange(LANES)
                workers[victim].kill()
                kills += 1
                workers[victim] = worker(tmp_path, LANES + kills)
            wait_for(lambda: ended(batch), seconds=90, what="the end")
        finally:
            for one in workers:
                one.kill()
        assert kills >= 3
        sent = len(server.requests)
        disturbed = content(batch)
        check_nothing_doubled(batch)
        # Undisturbed: on a clean table of calls the same batch is asked everything anew.
        LLMCall.objects.all().delete()
        again = services.clone_batch(user, batch.pk, settings, TABLE)
        workers = [worker(tmp_path, 100 + number) for number in range(LANES)]
        try:
            wait_for(lambda: ended(again), seconds=90, what="the undisturbed end")
        finally:
            for one in workers:
                one.kill()
        undisturbed = len(server.requests) - sent
    assert content(again) == disturbed
    assert undisturbed <= sent <= undisturbed + kills * AT_ONCE
    assert batch.lost <= kills * AT_ONCE


def check_nothing_doubled(batch: Batch) -> None:
    assert batch.items.count() == len(set(batch.items.values_list("path", flat=True))) == 50
    assert set(batch.items.values_list("state", flat=True)) == {"kept"}
    assert BatchProduct.objects.filter(item__batch=batch).count() == 50
    assert Task.objects.count() == Trajectory.objects.count() == Score.objects.count() == 15
    assert Job.objects.filter(kind="run_batch", attempt__gt=1).exists()
    counts = dict(BatchStageCount.objects.filter(batch=batch, state="kept").values_list("stage", "count"))
    themes, others = ("discover", "deduplicate", "assemble", "assess"), ("state", "instruction", "audit", "filter")
    assert [counts[stage] for stage in (*themes, *others)] == [5] * 4 + [15] * 4

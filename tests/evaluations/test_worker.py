"""A real worker evaluates a model behind an endpoint, is killed meanwhile, and a checkpoint of its own place."""

from __future__ import annotations

import os
import re
import signal
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("torch")

from tests.fixtures.llm import Request, Scripted, calls, llm_server, say
from tests.training import small
from tests.workers.training_support import ended, frozen, reached, worker
from training.config import EvaluationJob, read_config
from training.examples.datasets import build_task_row
from training.examples.tasks import draw_tasks
from webapp.accounts.models import Role, User
from webapp.endpoints.models import Endpoint
from webapp.runs.evaluations.results import get_results
from webapp.runs.models import RunRollout, TrainingJob, TrainingState
from webapp.runs.services import create_job
from webapp.runs.spec import NewJob

pytestmark = [pytest.mark.kill, pytest.mark.django_db(transaction=True)]
ASKED = re.compile(r"Turn (on|off) (\w+) and (\w+)\.")


def lamplighter(request: Request) -> Scripted:
    """Does the tasks with lamps, in two turns, and nothing else; not quickly."""
    told = next(message["content"] for message in request["messages"] if message["role"] == "user")
    lamps = ASKED.search(told)
    if lamps is None or request["messages"][-1]["role"] == "tool":
        return say("Done.", seconds=0.2)
    switched = [("switch", {"room": room, "on": lamps[1] == "on"}) for room in lamps.groups()[1:]]
    return calls(*switched)


@pytest.fixture
def operator(transactional_db: None) -> User:
    return User.objects.create_user("olga", password="a long password", role=Role.OPERATOR)


def evaluation(operator: User, model: str, **changes: object) -> TrainingJob:
    tasks = frozen("Tasks", [build_task_row(task) for task in draw_tasks(0, 3)], "tasks", 0.0, operator)
    new = NewJob(method="evaluation", model=model, dataset=tasks.public_id, preset="demo-evaluation", changes=changes)
    return create_job(new, operator)


def tried(job: TrainingJob) -> Counter[tuple[int, str, int]]:
    rows = RunRollout.objects.filter(file__job=job, file__superseded=False)
    return Counter(rows.values_list("horizon", "row", "ordinal"))


def test_an_endpoint_is_evaluated_through_a_kill_and_nothing_counts_twice(
    site_process: str, operator: User, tmp_path: Path
) -> None:
    with llm_server(lamplighter) as server:
        row = Endpoint.objects.create(name="lamps", base_url=server.url, model_names=["lighter"])
        asked = {"repeats": 2, "horizons": [1, 3], "report_every": 6, "attempts": {"at_once": 2}}
        job = evaluation(operator, f"endpoint:{row.pk}/lighter", **asked)
        assert job.total_steps == 8
        with worker(site_process, operator, tmp_path / "w") as first:
            reached(job, 2, first.log)
            os.kill(first.process.pid, signal.SIGKILL)
        with worker(site_process, operator, tmp_path / "w", "--until-idle") as second:
            assert ended(job, second.log) == TrainingState.SUCCEEDED, (job.error, second.log.read_text())
    assert (job.attempt, job.doubt) == (2, ""), "what it posted is what its attempts give"
    counts = tried(job)
    assert set(counts.values()) == {1}
    assert len(counts) == 12 * 2 * 2
    one, three = get_results(job).horizons
    assert (one.left_out, three.left_out) == ({}, {})
    assert one.success is not None
    assert three.success is not None
    assert {part.name: part.success for part in three.environments}["lamps"] == 1.0
    assert three.success.value == pytest.approx(0.25)
    assert 0 < job.calls_made == len(server.requests)


def test_a_checkpoint_is_evaluated(site_process: str, operator: User, tmp_path: Path) -> None:
    small.saved(tmp_path / "models" / "tests" / "tiny")
    known = ("--models", str(tmp_path / "models"), "--until-idle")
    job = evaluation(operator, "tests/tiny", repeats=1, horizons=[1], tasks=4, decoding={"turn_tokens": 8})
    config = read_config(job.config)
    assert isinstance(config, EvaluationJob)
    with worker(site_process, operator, tmp_path / "w", *known) as running:
        assert ended(job, running.log) == TrainingState.SUCCEEDED, (job.error, running.log.read_text())
    (result,) = get_results(job).horizons
    assert (result.attempts, result.counted, result.left_out) == (4, 4, {})
    assert result.tokens is not None
    assert 0 < result.tokens.value <= 8

"""Evaluation jobs at work: which reports there are, going on behind those that were made, and lost attempts."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("torch")

from synthesis.errors import InputError
from synthesis.rollout import Plan, RandomPolicy, ReferencePolicy, run_attempts
from synthesis.runtime import get_default_sandbox
from tests.training import small
from training.attempts import TaskAttempt, Try
from training.config import EvaluationJob, read_config
from training.evaluation.job import Attempting, Evaluation, run_evaluation
from training.metrics import Artefact, Event, Position, Values, Writer, read_records
from training.policy import Trace
from training.sampler import plan_reports
from training.step import TooManyLost
from training.step_record import read_rollouts

pytestmark = pytest.mark.slow  # loads torch
CFG = EvaluationJob(repeats=2, horizons=(1, 3), report_every=3)
ROWS = small.rows(1)


def attempting(lost: Callable[[int], bool] = lambda place: False, slow: int | None = None) -> Attempting:
    """Known references in the place of a model, but for the first try at each task. `slow` ends last of all."""
    references = {task.rollout.key: task.reference for task in small.tasks(1)}

    async def make(work: Sequence[Try], done: Callable[..., None], begins: Callable[[int], bool]) -> None:
        plans = (
            Plan(
                one.row.rollout,
                ReferencePolicy(references[one.row.id]) if one.ordinal else RandomPolicy(seed=1),
                ordinal=place,
            )
            for place, one in itertools.takewhile(lambda each: begins(each[0]), enumerate(work))
        )
        fate = {"outcome": "infra_error", "reward": None, "note": "the sandbox was killed"}
        late = []
        async with contextlib.aclosing(run_attempts(get_default_sandbox(), plans)) as made:
            async for attempt in made:
                place, one = attempt.ordinal, work[attempt.ordinal]
                told = attempt.model_copy(update={"ordinal": one.ordinal} | (fate if lost(place) else {}))
                given = place, TaskAttempt(one.row, one.ordinal, told, Trace())
                late.append(given) if place == slow else done(*given)
        for given in late:
            done(*given)

    return lambda *given: asyncio.run(make(*given))


def never() -> bool:
    return False


def test_every_task_is_tried_as_often_as_asked_at_every_horizon() -> None:
    planned = plan_reports(CFG, ROWS)
    assert len(planned) == CFG.steps(len(ROWS))
    assert [report.number for report in planned] == list(range(1, len(planned) + 1))
    tried = Counter((report.horizon, row.id, ordinal) for report in planned for row, ordinal in report.work)
    assert set(tried.values()) == {1}
    assert len(tried) == len(ROWS) * 2 * 2
    assert planned == plan_reports(CFG, ROWS), "the same ones each time: a job goes on behind what was made"
    few = plan_reports(CFG.model_copy(update={"tasks": 2}), ROWS)
    assert len({row.id for report in few for row, _ in report.work}) == 2
    with pytest.raises(InputError, match="horizons: each must be longer"):
        read_config({"type": "evaluation", "horizons": [3, 3]})


def test_it_goes_on_behind_the_reports_that_are_there(tmp_path: Path) -> None:
    planned, asked = plan_reports(CFG, ROWS), itertools.count()
    with Writer(tmp_path / "record.jsonl") as writer:
        job = Evaluation(CFG, tmp_path, ROWS, attempting(), writer, lambda: next(asked) >= 5)
        assert run_evaluation(job) == ("stopped", 1), "it was told to stop within the second report, which is dropped"
    with Writer(tmp_path / "record.jsonl") as writer:
        again = Evaluation(CFG, tmp_path, ROWS, attempting(), writer, never, reported=1)
        assert run_evaluation(again) == ("done", len(planned))
    records = read_records(tmp_path / "record.jsonl", Position())[0]
    made = [record for record in records if isinstance(record, Artefact)]
    assert [record.step for record in made] == [report.number for report in planned]
    lines = [line for record in made for line in read_rollouts(tmp_path / record.path)]
    tried = Counter((line["horizon"], line["row"], line["ordinal"]) for line in lines)
    assert set(tried.values()) == {1}
    assert len(tried) == len(ROWS) * 2 * 2, "each once, though the job was begun twice"
    solved = {(line["horizon"], line["ordinal"]): line["reward"] for line in lines if line["row"].startswith("lamps")}
    assert solved[3, 1] == 1.0
    assert {record.values["horizon"] for record in records if isinstance(record, Values)} == {1.0, 3.0}
    resumed = [record.data["resumed"] for record in records if isinstance(record, Event) and "resumed" in record.data]
    assert resumed == [1]


def test_lost_attempts_have_no_reward_and_too_many_are_not_reported(tmp_path: Path) -> None:
    with Writer(tmp_path / "record.jsonl") as writer:
        allowed = CFG.model_copy(update={"limits": CFG.limits.model_copy(update={"infra_error_share": 0.5})})
        one = Evaluation(allowed, tmp_path, ROWS, attempting(lambda place: place == 0), writer, never)
        assert run_evaluation(one)[0] == "done"
        lines = read_rollouts(tmp_path / "rollouts/step-000001.jsonl.gz")
        assert [(line["reward"] is None, line["masked"]) for line in lines] == [
            (True, "infra_error"),
            *[(False, "")] * 2,
        ]
        other = tmp_path / "other"
        with pytest.raises(TooManyLost, match=r"2 of 3 attempts .* None of them was counted"):
            run_evaluation(Evaluation(allowed, other, ROWS, attempting(lambda place: place < 2), writer, never))
        assert not list(other.glob("rollouts/*"))


def test_no_attempt_waits_for_a_reports_last_one_and_reports_come_in_their_order(tmp_path: Path) -> None:
    """The first report's slow attempt ends behind all others: they were made meanwhile, and come after it."""
    planned = plan_reports(CFG, ROWS)
    with Writer(tmp_path / "record.jsonl") as writer:
        job = Evaluation(CFG, tmp_path, ROWS, attempting(slow=1), writer, never)
        assert run_evaluation(job) == ("done", len(planned))
    made = [
        record.step for record in read_records(tmp_path / "record.jsonl", Position())[0] if isinstance(record, Artefact)
    ]
    assert made == [report.number for report in planned]
    for report in planned:
        lines = read_rollouts(tmp_path / f"rollouts/step-{report.number:06d}.jsonl.gz")
        assert [(line["row"], line["ordinal"]) for line in lines] == [(row.id, n) for row, n in report.work]


def test_out_of_time_it_ends_the_reports_that_it_began(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 0.0, math.inf])
    told = SimpleNamespace(monotonic=lambda: next(clock), perf_counter=time.perf_counter)
    monkeypatch.setattr("training.evaluation.job.time", told)
    with Writer(tmp_path / "record.jsonl") as writer:
        job = Evaluation(CFG, tmp_path, ROWS, attempting(slow=0), writer, never)
        assert run_evaluation(job) == ("out_of_time", 2)
    assert len(list(tmp_path.glob("rollouts/*"))) == 2

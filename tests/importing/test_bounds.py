"""A program or checks that hang cost an import seconds, and are told; they never make a score."""

from __future__ import annotations

from typing import Any

import pytest

from synthesis.assessment import bounded_checks as bounded
from synthesis.assessment.bounded_checks import evaluate_bounded_checks
from synthesis.contracts import Verdict
from synthesis.errors import ProgramEnded
from synthesis.runtime import Sandbox, get_default_sandbox
from tests.importing import samples
from tests.trajectories.loading import entries, load, prepare
from webapp.scenarios.importer import MAX_HUNG, import_entries
from webapp.scenarios.models import Task
from webapp.trajectories.models import Trajectory

HUNG = Verdict(passed=False, error="stopped (time): no answer within 5 seconds")


def hanging(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Every check runs out of time, without the wait; gives the sizes of the groups that were run."""
    groups: list[int] = []

    def evaluate(self: Sandbox, checks: Any, *states: Any, **options: Any) -> Any:
        groups.append(len(checks))
        return [HUNG for _ in checks]

    monkeypatch.setattr(Sandbox, "evaluate_checks", evaluate)
    return groups


def test_checks_that_hang_stop_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    groups = hanging(monkeypatch)
    done = evaluate_bounded_checks(get_default_sandbox(), ["x"] * 200, {}, {})
    assert (groups, len(done.verdicts), done.skipped) == ([4], 200, 196)
    assert done.verdicts[-1].error == "not run: 4 checks before it ran out of time"


def test_checks_that_take_too_long_stop_the_rest() -> None:
    check = "def check_func(final_state):\n    return True"
    done = evaluate_bounded_checks(get_default_sandbox(), [check] * 6, {}, {}, seconds=0.0)
    assert (done.skipped, done.verdicts[0].passed, done.verdicts[5].passed) == (2, True, False)
    assert evaluate_bounded_checks(get_default_sandbox(), [check] * 6, {}, {}).skipped == 0


@pytest.mark.django_db
def test_a_task_with_checks_that_were_not_run_has_no_score(monkeypatch: pytest.MonkeyPatch) -> None:
    groups = hanging(monkeypatch)
    listed = [{"check_item": "x", "check_func": samples.CHECKS[0][1]}] * (bounded.GROUP + 3)
    prepare(samples.scenario(checklist_with_func=listed))
    task = Task.objects.get()
    assert groups == [4]
    assert task.do_nothing is None
    assert "checks_not_run" in {item.kind for item in task.current.findings.all()}
    load(samples.run([samples.CLOSE], 0.6667))
    row = Trajectory.objects.get()
    assert row.reward is None
    assert "3 of 7 checks were not run" in row.replay_note


@pytest.mark.django_db
def test_a_program_that_hangs_is_not_started_for_every_scenario(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []

    def reset(self: Sandbox, *given: Any, **options: Any) -> Any:
        tried.append(1)
        raise ProgramEnded("time", "no answer")

    monkeypatch.setattr(Sandbox, "reset", reset)
    scenarios = [samples.scenario(f"t{number}", task=f"Do {number}.") for number in range(8)]
    report = import_entries(get_default_sandbox(), entries([samples.environment()]), entries(scenarios), "envscaler")
    assert len(tried) == 1 + MAX_HUNG
    assert report["tasks"]["created"] == 8
    assert report["findings"]["start_fails"] == 8


@pytest.mark.django_db
@pytest.mark.parametrize("reward", [-5, 7, 1e299])
def test_a_recorded_reward_outside_of_its_range_is_kept_as_it_is(reward: float) -> None:
    prepare()
    report = load(samples.run([samples.CLOSE], reward))
    assert (report["created"], report["failed"], len(report["diverged"])) == (1, [], 1)
    score = Trajectory.objects.get().scores.get(source="recorded")
    assert (score.reward, score.passed, score.total) == (reward, 0, 0)

"""Any state of a run can be shown, and every check over its steps."""

from __future__ import annotations

from typing import Any

import pytest

from synthesis.contracts import State, Verdict
from synthesis.errors import InputError, ReplayMismatch
from synthesis.runtime import get_default_sandbox
from tests.importing import samples
from tests.trajectories.loading import load, prepare
from webapp.jobs.registry import KINDS
from webapp.scenarios.models import StateBody
from webapp.trajectories.matrix import compact_row, compute_matrix, expand_row, is_fresh
from webapp.trajectories.models import Step, Trajectory
from webapp.trajectories.services import build_replay_setting, ensure_matrix
from webapp.trajectories.states import find_broken_steps, load_state_at, load_states

pytestmark = pytest.mark.django_db


def long_run(count: int) -> dict[str, Any]:
    calls: list[samples.Call] = []
    for number in range(count):
        status = f"s{number}"
        message = f"{{'success': True, 'message': 'Ticket T1 is {status}'}}"
        calls.append(("set_status", {"ticket_id": "T1", "status": status}, message))
    return samples.run([*calls, samples.CLOSE], 0.6667)


def test_any_state_can_be_had_again() -> None:
    prepare()
    load(long_run(120))
    row = Trajectory.objects.get()
    assert list(row.steps.filter(snapshot__isnull=False).values_list("index", flat=True)) == [0, 50, 100]
    setting = build_replay_setting(row.revision)
    executed: list[State] = []
    with get_default_sandbox().reset(setting.program, setting.initial, seed=row.seed, now=row.now) as episode:
        for step in row.steps.all():
            if step.tool:
                episode.call(step.tool, step.arguments)
            executed.append(episode.state())
    for index in (0, 1, 49, 50, 51, 99, 100, 101, row.step_count - 1):
        assert load_state_at(row, index, verify=True) == executed[index]
    assert load_states(row, 40, 60) == [(index, executed[index]) for index in range(40, 61)]
    assert find_broken_steps(row) == []
    for index in (-1, row.step_count):
        with pytest.raises(InputError):
            load_state_at(row, index)
    Step.objects.filter(trajectory=row, index=row.step_count - 3).update(patch=[])
    with pytest.raises(ReplayMismatch):
        load_state_at(row, row.step_count - 1, verify=True)
    assert row.step_count - 1 in find_broken_steps(row)


@pytest.mark.slow
def test_a_long_run_over_a_large_state_stays_small() -> None:
    agents = {f"A{n}": {"agent_id": f"A{n}", "name": f"{n:08x}" * 20} for n in range(10_000)}
    state = samples.state() | {"agents": agents}
    prepare(samples.scenario(init_config=state))
    report = load(long_run(500))
    assert report["reproduced"] == 1
    row = Trajectory.objects.get()
    assert row.steps.filter(snapshot__isnull=False).count() == 11
    assert sum(len(body) for body in StateBody.objects.values_list("body", flat=True)) < 10_000_000
    assert load_state_at(row, 449, verify=True)["tickets"]["T1"]["status"] == "s448"


def test_a_patch_too_long_to_keep_becomes_a_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webapp.trajectories.steps.MAX_PATCH", 10)
    prepare()
    load(samples.run([samples.CLOSE], 0.6667))
    row = Trajectory.objects.get()
    step = row.steps.get(index=1)
    assert (step.patch, step.change_count, step.snapshot is not None) == ([], 1, True)
    assert load_state_at(row, 1)["tickets"]["T1"]["status"] == "closed"
    assert find_broken_steps(row) == []
    assert compute_matrix(get_default_sandbox(), row)["checks"][0] == {"start": 0, "flips": [[1, 1]]}


def test_the_matrix_says_when_a_check_flips() -> None:
    prepare()
    reopen = ("set_status", {"ticket_id": "T1", "status": "open"}, "{'success': True, 'message': 'Ticket T1 is open'}")
    load(samples.run([samples.LOOK, samples.CLOSE, reopen, samples.LOOK, samples.CLOSE], 0.6667))
    row = Trajectory.objects.get()
    assert is_fresh(row), "a small matrix is made with the import"
    Trajectory.objects.update(matrix=None, matrix_hash="")
    row.refresh_from_db()
    job = ensure_matrix(row)
    assert job is not None
    assert ensure_matrix(row) == job
    context: Any = type("Context", (), {"payload": job.payload})
    KINDS["compute_matrix"].handler(context)
    row.refresh_from_db()
    assert is_fresh(row)
    assert ensure_matrix(row) is None
    assert row.matrix == {
        "steps": [2, 3, 5],
        "checks": [
            {"start": 0, "flips": [[2, 1], [3, 0], [5, 1]]},
            {"start": 1, "flips": []},
            {"start": 0, "flips": []},
        ],
        "not_run": [],
    }
    assert expand_row(row.matrix, 0) == [0, 1, 0, 1]


def test_a_row_of_the_matrix_tells_raising_from_not_passing() -> None:
    row = [Verdict(passed=False, error="KeyError"), Verdict(passed=False), Verdict(passed=False), Verdict(passed=True)]
    assert compact_row([4, 5, 9], row) == {"start": -1, "flips": [[4, 0], [9, 1]]}

"""Why an attempt failed, in one sentence: which checks do not hold, how, and since which step."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from tests.fixtures import pages_seed, replay_seed
from webapp.trajectories.failure_reason import build_failure_reason, build_failure_reasons
from webapp.trajectories.models import Score, Trajectory

pytestmark = pytest.mark.django_db
CHECKS = [("a", "x", "goal"), ("b", "x", "goal"), ("c", "x", "guard"), ("d", "x", "goal"), ("e", "x", "")]
MATRIX = {
    "steps": [2, 4, 8],
    "checks": [
        {"start": 0, "flips": [[2, 1]]},
        {"start": 0, "flips": []},
        {"start": 1, "flips": [[2, 0], [4, 1], [8, 0]]},
        {"start": 0, "flips": []},
        {"start": 0, "flips": [[4, 1], [8, -1]]},
    ],
    "not_run": [],
}


def attempt(passed: list[Any], *, matrix: bool = True, outcome: str = "failed", **score: Any) -> Trajectory:
    plan = replay_seed.ordinary(outcome=outcome, reward=0.4)
    plan.checks, plan.matrix = CHECKS, None
    row = replay_seed.make(plan)
    row.matrix, row.matrix_hash = (MATRIX, row.revision.verifier_hash) if matrix else (None, "")
    row.save()
    verdicts = [item if isinstance(item, dict) else {"passed": item} for item in passed]
    values = {"reward": 0.4, "passed": sum(bool(item.get("passed")) for item in verdicts), "total": 5, **score}
    Score.objects.create(
        trajectory=row, revision=row.revision, verifier_hash=row.revision.verifier_hash, verdicts=verdicts,
        source="replay", **values,
    )  # fmt: skip
    return row


def test_goals_that_never_held_and_the_step_at_which_a_guard_broke() -> None:
    row = attempt([True, False, False, False, True])
    reason = build_failure_reason(row)
    assert str(reason) == "goals 2 and 4 never held; guard 3 broke at step 8"
    assert reason.parts[0].url == f"/trajectories/{row.pk}/checks/1/"
    assert reason.parts[1].url == f"/trajectories/{row.pk}/?step=8"


def test_without_steps_it_says_what_is_known() -> None:
    assert str(build_failure_reason(attempt([True, False, False, True, True], matrix=False))) == (
        "goal 2 does not hold; guard 3 broke"
    )


@pytest.mark.parametrize(
    ("verdict", "said"),
    [
        ({"passed": False, "error": "KeyError: 'x'"}, "check 5 raised an error"),
        ({"passed": False, "reason": "so", "quote": "(nothing changed)"}, "criterion 5 is not met"),
    ],
)
def test_checks_that_said_nothing_are_told_apart(verdict: dict[str, Any], said: str) -> None:
    assert str(build_failure_reason(attempt([True, True, True, True, verdict]))) == said


def test_what_ended_it_and_what_nobody_asked_for_come_first() -> None:
    outside = [{"path": "/a", "kind": "changed", "count": 1}, {"path": "/b", "kind": "added", "count": 1}]
    row = attempt([True, False, True, True, True], outcome="truncated", reward=0.0, outside=outside)
    assert str(build_failure_reason(row)) == "ended before it was done; 2 unrequested changes; goal 2 never held"


def test_solved_ones_have_none_and_a_page_of_rows_costs_three_queries() -> None:
    solved = attempt([True] * 5, outcome="solved", reward=1.0)
    Trajectory.objects.filter(pk=solved.pk).update(outcome="solved")
    solved.refresh_from_db()
    assert build_failure_reasons([solved]) == {}
    rows = list(Trajectory.objects.all()) * 3
    for row in rows:
        row.outcome = "failed"
    with CaptureQueriesContext(connection) as queries:
        build_failure_reasons(rows)
    assert len(queries) == 3


def test_it_stands_in_the_list_the_replay_and_the_api(client: Client) -> None:
    row = attempt([True, False, False, False, True])
    client.force_login(pages_seed.person("viewer"))
    for path in ("/trajectories/", f"/trajectories/{row.pk}/", f"/trajectories/of-task/{row.task_id}/"):
        page = client.get(path).content.decode()
        assert f'href="/trajectories/{row.pk}/?step=8">guard 3 broke at step 8</a>' in page, path
    told = client.get(f"/api/v1/trajectories/{row.pk}").json()["reason"]
    assert told == client.get("/api/v1/trajectories").json()["data"][0]["reason"]
    assert told == "goals 2 and 4 never held; guard 3 broke at step 8"

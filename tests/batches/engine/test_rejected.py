"""What a batch rejects: a whole environment by its assessment, an attempt by a filter."""

from __future__ import annotations

import json
from unittest import mock

import pytest
from django.test import Client

from synthesis.assessment.rounds import UNREAD
from synthesis.tasks.trajectory_filters import FilterSettings
from tests.batches.real import SHORT, Bad, HostileModel, item, real_batch, real_pipeline, theme_of
from tests.batches.support import work_off
from tests.rollouts_web.support import person
from webapp.batches import services
from webapp.batches.models import BatchAttempt, BatchItem, BatchProduct, BatchStageCount, Body
from webapp.common.content_store import load_value
from webapp.environments.models import Assessment, Environment
from webapp.trajectories.export.filters import FilterCounts
from webapp.trajectories.models import Trajectory

pytestmark = pytest.mark.django_db(transaction=True)

FAILS = Bad(
    "badge-desk", "check_call", json.dumps({"reason": "It breaks its rule.", "verdict": "fail"}), role="checker"
)


@pytest.mark.slow
def test_an_environment_below_the_threshold_is_rejected_with_its_cases_and_may_be_tried_again() -> None:
    stages = SHORT.model_copy(update={"scenarios": 1, "tasks": 1, "teacher_runs": 0})
    user = person("operator")
    with real_pipeline(HostileModel([FAILS])) as model:
        batch = work_off(real_batch(user, [theme_of("badge-desk"), theme_of("radio-rundown")], stages))
        assert batch.state == "done"
        row = item(batch, "badge-desk")
        assert (row.state, row.stage, row.reason) == ("rejected", "assess", "assessment_below_threshold")
        assert "stays below 0.85" in row.message
        run = row.runs.get(stage="assess")
        evidence = load_value(Body, str(run.output_id))
        asked = [case for case in evidence["cases"] if case["reason"] != UNREAD]
        assert {case["verdict"] for case in asked} == {"fail"}
        assert (evidence["score"] < 0.5, evidence["kept"]) == (True, False)
        assert list(Environment.objects.values_list("key", flat=True)) == ["radio-rundown"]
        assert not row.children.exists()
        count = BatchStageCount.objects.get(batch=batch, stage="assess", state="rejected")
        assert (count.reason, count.count) == ("assessment_below_threshold", 1)
        model.bad.clear()
        services.retry_items(user, batch.pk, item=row.pk)
        work_off(batch)
        assert item(batch, "badge-desk").state == "kept"
    assert Assessment.objects.get(version__environment__key="badge-desk").kept


IMPOSSIBLE = Bad(
    "badge-desk",
    "judge_run",
    json.dumps({"reason": "Nobody can do <b>that</b>.", "possible": False}),
    below="scenario-0/task-0/work-0",
    role="judge",
)


@pytest.mark.slow
def test_a_rejected_attempt_is_kept_to_be_looked_at_and_stands_in_no_training_data(client: Client) -> None:
    stages = SHORT.model_copy(update={"scenarios": 1, "tasks": 1, "teacher_runs": 1, "conversational": False})
    user = person("operator")
    client.force_login(user)
    unproven = mock.patch("synthesis.tasks.trajectory_filters.is_proven_possible", return_value=False)
    with unproven, real_pipeline(HostileModel([IMPOSSIBLE])) as model:
        batch = work_off(real_batch(user, [theme_of("badge-desk")], stages))
        row = BatchItem.objects.get(batch=batch, level="trajectory")
        assert (row.state, row.stage, row.reason) == ("rejected", "filter", "impossible_task")
        attempt = Trajectory.objects.get(solver=False)
        assert (row.attempt_id, attempt.rejected, attempt.outcome) == (attempt.pk, "impossible_task", "solved")
        assert attempt.steps.exists()
        assert not BatchProduct.objects.filter(trajectory__isnull=False).exists()
        page = client.get(f"/trajectories/{attempt.pk}/").content.decode()
        assert "Rejected by its batch" in page
        assert "Nobody can do &lt;b&gt;that" in page
        assert f'href="/trajectories/{attempt.pk}/"' in client.get(f"/batches/items/{row.pk}/").content.decode()
        assert f"/batches/items/{row.pk}/" in client.get(f"/batches/made/?trajectory={attempt.pk}").content.decode()
        assert f'id="trajectory-{attempt.pk}"' in client.get("/trajectories/?rejected=yes").content.decode()
        assert f'id="trajectory-{attempt.pk}"' not in client.get("/trajectories/?rejected=no").content.decode()
        counts = FilterCounts(FilterSettings())
        rows = list(Trajectory.objects.all())
        assert list(counts.passed(rows, lambda row, talk: "")) == []
        assert {one.name: one.dropped for one in counts.tally.counts()}["impossible_task"] == 1
        services.retry_items(user, batch.pk, item=row.pk)
        work_off(batch)
        assert Trajectory.objects.get(solver=False).pk == attempt.pk, (
            "tried again it is the same attempt, and there once"
        )
        model.bad.clear()
        services.retry_items(user, batch.pk, item=row.pk)
        work_off(batch)
    again = BatchAttempt.objects.filter(item__batch=batch)
    assert sorted(again.values_list("role", "ordinal", "trajectory__rejected", "unkept")) == [
        ("solver", 0, "solver_run", ""),
        ("teacher", 0, "", ""),
    ], "however often it was tried, each attempt is counted once"
    solver = Trajectory.objects.get(solver=True)
    page = client.get(f"/trajectories/{solver.pk}/").content.decode()
    assert "<b>A try at the task" in page
    assert "Rejected by its batch" not in page
    learnt = FilterCounts(FilterSettings())
    assert [one for one, _ in learnt.passed([solver], lambda row, talk: "")] == []
    assert learnt.solvers == 1
    attempt.refresh_from_db()
    row.refresh_from_db()
    assert (row.state, row.attempt_id, attempt.rejected) == ("kept", None, "")
    assert BatchProduct.objects.get(item=row).trajectory_id == attempt.pk
    assert [one for one, _ in FilterCounts(FilterSettings()).passed([attempt], lambda row, talk: "")] == [attempt]
    lists_attempts(client, batch.pk, solver.pk, attempt.pk, row.pk)


def lists_attempts(client: Client, batch: int, solver: int, teacher: int, item_pk: int) -> None:
    """Both attempts over the API, page by page and by each filter."""
    listed = client.get(f"/api/v1/batches/{batch}/attempts?limit=1").json()
    rest = client.get(f"/api/v1/batches/{batch}/attempts?cursor={listed['next_cursor']}").json()
    told = {one["role"]: one for one in (*listed["data"], *rest["data"])}
    assert (told["solver"]["solver"], told["solver"]["trajectory_id"]) == (True, solver)
    assert (told["solver"]["outcome"], told["solver"]["rejected"]) == ("solved", "solver_run")
    assert (told["teacher"]["solver"], told["teacher"]["trajectory_id"]) == (False, teacher)
    assert told["teacher"]["reward"] == 1.0
    assert listed["data"][0]["id"] > rest["data"][0]["id"]

    def counted(query: str) -> int:
        return len(client.get(f"/api/v1/batches/{batch}/attempts?{query}").json()["data"])

    assert [counted(query) for query in ("role=solver", "kept=true", "kept=false", "outcome=solved")] == [1, 2, 0, 2]
    assert [counted(f"item={item_pk}"), counted("outcome=none")] == [1, 0]
    assert client.get(f"/api/v1/trajectories/{solver}").json()["solver"] is True

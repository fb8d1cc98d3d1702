"""A whole environment that its assessment rejects."""

from __future__ import annotations

import json

import pytest

from tests.batches.real import SHORT, Bad, HostileModel, item, real_batch, real_pipeline, theme_of
from tests.batches.support import work_off
from tests.rollouts_web.support import person
from webapp.batches import services
from webapp.batches.models import BatchStageCount, Body
from webapp.content_store import load
from webapp.environments.models import Assessment, Environment

pytestmark = pytest.mark.django_db(transaction=True)

FAILS = Bad(
    "badge-desk", "check_call", json.dumps({"reason": "It breaks its rule.", "verdict": "fail"}), role="checker"
)


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
        evidence = load(Body, str(run.output_id))
        assert {case["verdict"] for case in evidence["cases"]} == {"fail"}
        assert (evidence["score"], evidence["kept"]) == (0.0, False)
        assert list(Environment.objects.values_list("key", flat=True)) == ["radio-rundown"]
        assert not row.children.exists()
        count = BatchStageCount.objects.get(batch=batch, stage="assess", state="rejected")
        assert (count.reason, count.count) == ("assessment_below_threshold", 1)
        model.bad.clear()
        services.retry_items(user, batch.pk, item=row.pk)
        work_off(batch)
        assert item(batch, "badge-desk").state == "kept"
    assert Assessment.objects.get(version__environment__key="badge-desk").kept

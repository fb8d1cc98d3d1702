"""Batches of the variant autoforge: blueprints, golden states, what is rejected and why, other environments."""

from __future__ import annotations

import pytest

from synthesis.contracts import Blueprint
from synthesis.stages import StageSettings
from tests.batches.real import SHORT, HostileModel, item, real_batch, real_pipeline, theme_of
from tests.batches.support import work_off
from tests.rollouts_web.support import person
from webapp.batches.engine.theme_source import build_environment_specs
from webapp.batches.management.command_run import build_planted_report, build_report
from webapp.batches.models import BatchProduct
from webapp.batches.services import create_batch
from webapp.batches.spec import BatchSettings
from webapp.environments.models import Environment

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]
STAGES = StageSettings.model_validate(SHORT.model_dump() | {"scenarios": 2, "tasks": 2})


def test_tasks_come_of_blueprints_and_can_be_made_in_an_environment_that_another_variant_made() -> None:
    user = person("operator")
    with real_pipeline(HostileModel()):
        theme = theme_of("archive-boxes")
        made = work_off(real_batch(user, [theme], STAGES.model_copy(update={"scenarios": 0})))
        assert (made.state, made.variant) == ("done", "envscaler")
        specs = build_environment_specs(Environment.objects.values_list("pk", flat=True))
        settings = BatchSettings.model_validate(made.settings | {"variant": "autoforge", "stages": STAGES.model_dump()})
        batch = work_off(create_batch(user, "Blueprints", specs, settings, settings.pipeline))
        assert batch.state == "done"
        assert Environment.objects.count() == 1
        key = specs[0].key
        first = item(batch, f"{key}/scenario-0/task-0")
        assert [run.stage for run in first.runs.order_by("id")] == [
            "intent", "arguments", "refine", "solve", "audit", "save",
        ]  # fmt: skip
        reasons = {row.path.partition("/")[2]: row.reason for row in batch.items.filter(state="rejected")}
        assert reasons == {"scenario-1/task-0": "golden_unchanged", "scenario-2/task-0": "names_a_tool"}
        summary = build_report(batch) | build_planted_report(batch)
        assert (summary["golden_unchanged_rejected"], summary["leaks_caught"], summary["tasks"]) == (1, 1, 2)
    product = BatchProduct.objects.select_related("revision", "scenario").get(item=first)
    revision = product.revision
    assert revision is not None
    assert (revision.verifier_kind, revision.golden_id != product.scenario.initial_id) == ("golden", True)
    blueprint = Blueprint.model_validate(revision.record["blueprint"])
    assert all(node.arguments for node in blueprint.nodes if node.kind == "tool")
    assert "scenario-0" not in revision.record["intent"]
    assert revision.record["intent"] != revision.instruction

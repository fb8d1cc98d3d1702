"""A demo batch of the variant programmatic: what it keeps, what it says of planted faults, what is stored of a task."""

from __future__ import annotations

import pytest

from synthesis.scripted import themes
from synthesis.stages import StageSettings
from tests.batches.real import SHORT, HostileModel, item, real_pipeline
from tests.batches.support import work_off
from tests.rollouts_web.support import person
from webapp.batches.command_run import planted_report, report
from webapp.batches.models import AttemptRole, BatchAttempt, BatchProduct
from webapp.batches.pages.stage_output import blocks
from webapp.batches.services import create_batch, of_theme
from webapp.batches.spec import ROLES, SCRIPTED, BatchSettings
from webapp.trajectories.models import Trajectory

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]


def test_a_demo_batch_catches_what_is_planted_and_keeps_programs_with_their_tasks() -> None:
    stages = StageSettings.model_validate(SHORT.model_dump() | {"scenarios": 2, "tasks": 2})
    models = dict.fromkeys(ROLES, SCRIPTED)
    settings = BatchSettings(variant="programmatic", stages=stages, models=models)
    with real_pipeline(HostileModel()):
        specs = [of_theme(draft) for draft in themes("programmatic")]
        batch = work_off(create_batch(person("operator"), "", specs, settings, settings.pipeline))
        summary = report(batch) | planted_report(batch)
    assert (batch.state, summary["tasks"], summary["planted_missed"]) == ("done", 5, [])
    assert summary["planted_caught"] == summary["planted_failures"] >= 5
    assert summary["rejected"] == {"no_model_passes": 1, "solution_empty": 1, "verification_passes": 1}
    task = item(batch, "plant-nursery/scenario-0/task-0")
    runs = list(task.runs.order_by("id"))
    assert [run.stage for run in runs] == ["query", "solution", "verification", "solve", "audit", "save"]
    revision = BatchProduct.objects.select_related("revision").get(item=task).revision
    assert revision is not None
    assert revision.verifier_kind == "script"
    stored = revision.record["programmatic"]
    assert stored["solution"].startswith("def solve(call):")
    assert (stored["consistency"]["solved"], stored["consistency"]["runs"]) == (4, 5)
    solver = BatchAttempt.objects.filter(item=task, role=AttemptRole.SOLVER)
    assert solver.count() == 5
    assert set(
        Trajectory.objects.filter(batch_attempts__in=solver).values_list("provenance__prompt_style", flat=True)
    ) == {"react"}
    assert [block.title for block in blocks({"title": "T", "instruction": "I", "solution": "x = 1"})] == [
        "", "instruction", "solution",
    ]  # fmt: skip

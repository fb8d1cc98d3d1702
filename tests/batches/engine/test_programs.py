"""A demo batch of the variant programmatic: what it keeps, what it says of planted faults, what is stored of a task."""

from __future__ import annotations

import pytest

from synthesis.scripted import list_bundled_themes
from synthesis.stages import StageSettings
from tests.batches.real import SHORT, HostileModel, item, real_pipeline
from tests.batches.support import work_off
from tests.rollouts_web.support import person
from webapp.batches.management.command_run import build_planted_report, build_report
from webapp.batches.models import AttemptRole, BatchAttempt, BatchProduct
from webapp.batches.pages.stage_output import build_blocks
from webapp.batches.services import build_theme_spec, create_batch
from webapp.batches.spec import ROLES, SCRIPTED, BatchSettings
from webapp.environments.models import Environment
from webapp.trajectories.models import Trajectory

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]


def test_a_demo_batch_catches_what_is_planted_and_keeps_programs_with_their_tasks() -> None:
    stages = StageSettings.model_validate(SHORT.model_dump() | {"scenarios": 2, "tasks": 2})
    models = dict.fromkeys(ROLES, SCRIPTED)
    settings = BatchSettings(variant="programmatic", stages=stages, models=models)
    with real_pipeline(HostileModel()):
        specs = [build_theme_spec(draft) for draft in list_bundled_themes("programmatic")]
        batch = work_off(create_batch(person("operator"), "", specs, settings, settings.pipeline))
        summary = build_report(batch) | build_planted_report(batch)
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
    assert [one["script"] for one in stored["rounds"]] == ["solution", "verification", "verification"]
    assert stored["siblings"]
    assert (revision.consistency["solved"], revision.consistency["runs"]) == (4, 5)
    assert (revision.variant, revision.task.variant) == ("programmatic", "programmatic")
    assert set(Environment.objects.values_list("variant", flat=True)) == {"programmatic"}
    calls = revision.references.get().calls
    assert revision.difficulty.invocations == len(calls) > revision.difficulty.unique_tools > 0
    assert revision.difficulty.aggregations >= 1
    assert revision.difficulty.walk_steps is None, "it was not made from a walk"
    solver = BatchAttempt.objects.filter(item=task, role=AttemptRole.SOLVER)
    assert solver.count() == 5
    assert set(
        Trajectory.objects.filter(batch_attempts__in=solver).values_list("provenance__prompt_style", flat=True)
    ) == {"react"}
    lost = BatchAttempt.objects.filter(item__batch=batch, item__reason="no_model_passes").order_by("ordinal")
    assert [(row.ordinal, row.outcome, row.unkept) for row in lost] == [
        (run, "failed", "task_not_kept") for run in range(5)
    ], "a rejected task says what solvers did"
    assert all(row.message for row in lost)
    assert [block.title for block in build_blocks({"title": "T", "instruction": "I", "solution": "x = 1"})] == [
        "", "instruction", "solution",
    ]  # fmt: skip

"""Batches of the variant walk: what they keep, what is planted and caught, what is stored, other environments."""

from __future__ import annotations

import pytest
from django.test import Client

from synthesis.contracts import Blueprint
from synthesis.formats.envscaler import read_scenario
from synthesis.formats.files import Entry
from synthesis.scripted import list_bundled_themes
from synthesis.stages import StageSettings
from tests.batches.real import SHORT, HostileModel, item, real_pipeline
from tests.batches.support import work_off
from tests.fixtures.markup import flat, words
from tests.rollouts_web.support import person
from webapp.batches.engine.theme_source import build_environment_specs
from webapp.batches.management.command_run import build_planted_report, build_report
from webapp.batches.models import AttemptRole, BatchAttempt, BatchProduct, Body
from webapp.batches.pages.stage_output import build_blocks
from webapp.batches.services import build_theme_spec, create_batch
from webapp.batches.spec import ROLES, SCRIPTED, BatchSettings
from webapp.common.content_store import load_value
from webapp.environments.models import Environment
from webapp.scenarios.models import TaskRevision
from webapp.scenarios.verifiers import read_verifier
from webapp.trajectories.models import Trajectory

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]
STAGES = StageSettings.model_validate(SHORT.model_dump() | {"scenarios": 2, "tasks": 2})
MODELS = dict.fromkeys(ROLES, SCRIPTED)


def test_a_demo_batch_catches_what_is_planted_and_keeps_chains_with_their_tasks(client: Client) -> None:
    user = person("operator")
    settings = BatchSettings(variant="walk", stages=STAGES, models=MODELS)
    with real_pipeline(HostileModel()):
        specs = [build_theme_spec(draft) for draft in list_bundled_themes("walk")]
        batch = work_off(create_batch(user, "", specs, settings, settings.pipeline))
        summary = build_report(batch) | build_planted_report(batch)
        assert (batch.state, summary["tasks"], summary["planted_missed"]) == ("done", 5, [])
        assert summary["planted_caught"] == summary["planted_failures"] >= 7
        assert summary["rejected"] == {"invents_tool": 1, "no_model_passes": 1, "rubric_contradicts": 1}
        assert (summary["golden_unchanged_rejected"], summary["leaks_caught"], summary["failed"]) == (0, 1, {})
        specs = build_environment_specs(Environment.objects.order_by("pk").values_list("pk", flat=True)[:1])
        alone = settings.model_copy(update={"stages": STAGES.model_copy(update={"scenarios": 1, "tasks": 1})})
        again = work_off(create_batch(user, "In what is there", specs, alone, alone.pipeline))
        assert (again.state, Environment.objects.count()) == ("done", 2)
    task = item(batch, "badge-desk/scenario-0/task-0")
    runs = list(task.runs.order_by("id"))
    assert [run.stage for run in runs] == ["walk", "review", "draft", "answer", "rubric", "solve", "audit", "save"]
    titles = [[block.title for block in build_blocks(load_value(Body, str(run.output_id)))] for run in runs[:5]]
    assert titles[0][1] == "walk: each call with how it follows the one before"
    assert titles[1] == ["", "calls in order", "walk that it was made from"]
    assert {"rubric", "code of the answer", "difficulty, as it came out"} <= set(titles[4])
    revision = BatchProduct.objects.select_related("revision").get(item=task).revision
    assert revision is not None
    assert revision.verifier_kind == "rubric"
    _look_at_the_record(revision)
    solver = BatchAttempt.objects.filter(item=task, role=AttemptRole.SOLVER)
    styles = Trajectory.objects.filter(batch_attempts__in=solver).values_list("provenance__prompt_style", flat=True)
    assert (solver.count(), set(styles)) == (5, {"react"})
    client.force_login(user)
    page = words(flat(client.get(f"/tasks/{revision.task_id}/?tab=blueprint")))
    assert "a weighted walk" in page
    assert "Written anew from what the calls returned" in page
    assert "golden state" not in page


def _look_at_the_record(revision: TaskRevision) -> None:
    blueprint = Blueprint.model_validate(revision.record["blueprint"])
    assert len(blueprint.steps) == len(blueprint.tools) - 1
    assert revision.record["walk"]["derivation"].startswith("def derive(results):")
    assert (revision.variant, revision.difficulty.walk_steps) == ("walk", len(blueprint.tools))
    assert revision.difficulty.weak_share == blueprint.steps.count("weak") / len(blueprint.steps)
    found = revision.consistency
    assert (found["solved"], found["alike"], found["runs"], len(found["turns"])) == (4, 4, 5, 5)
    assert found["turn_limit"] >= 3 * len(blueprint.tools)
    fields = {field["name"] for field in revision.record["answer_form"]}
    compared = {one["field"] for one in revision.record["criteria"] if isinstance(one, dict)}
    assert compared == fields == revision.record["expected_answer"].keys()
    read = read_scenario(Entry(value=revision.record | {"init_config": {}}, place="the record"))
    assert read.verifier == read_verifier(revision), "who reads the record has all of it"

"""The variant of a batch: on its form, in its estimate, over the API, in lists and filters, and who can play it."""

from __future__ import annotations

import pytest
from django.test import Client

from synthesis.pipeline import AUTOFORGE, ENVSCALER, PIPELINES
from synthesis.scripted import list_bundled_themes
from synthesis.stages import StageSettings
from synthesis.variant_settings import VARIANT_TITLES
from tests.batches.launch.launch_form import NEW, filled, only, signed, start
from tests.batches.support import settings_at
from tests.batches.table import theme
from tests.fixtures.api import program
from tests.fixtures.markup import flat, words
from tests.rollouts_web.support import person
from webapp.batches.launch.estimate import Estimate, build_estimate
from webapp.batches.models import Batch
from webapp.batches.services import build_theme_spec, create_batch
from webapp.batches.spec import BatchSettings

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def researcher() -> Client:
    return signed("researcher")


def test_every_variant_has_its_words() -> None:
    assert PIPELINES.keys() == VARIANT_TITLES.keys()
    assert BatchSettings().pipeline is ENVSCALER


def test_a_form_chooses_it_with_its_numbers_and_says_which_are_wrong(researcher: Client) -> None:
    chosen = {"bundled": ["bike-share"], "variant": "autoforge", "graph.walks": "500"}
    start(researcher, only(researcher) | chosen)
    batch = Batch.objects.get()
    assert (batch.variant, batch.settings["variant"]) == ("autoforge", "autoforge")
    assert batch.settings["stages"]["graph"] == StageSettings().graph.model_dump() | {"walks": 500}
    assert batch.settings["stages"]["programmatic"] == StageSettings().programmatic.model_dump()
    programmed = chosen | {
        "bundled": ["plant-nursery"],
        "variant": "programmatic",
        "programmatic.consistency_runs": "9",
    }
    start(researcher, only(researcher) | programmed)
    runs = Batch.objects.get(variant="programmatic").settings["stages"]["programmatic"]["consistency_runs"]
    assert runs == 9
    walked = chosen | {"variant": "walk", "walk.weak_factor": "2.5", "walk.consistency_rule": "each_other"}
    start(researcher, only(researcher) | walked)
    numbers = Batch.objects.get(variant="walk").settings["stages"]["walk"]
    assert (numbers["weak_factor"], numbers["consistency_rule"], numbers["hidden"]) == (2.5, "each_other", True)
    wrong = start(researcher, only(researcher) | chosen | {"graph.walks": "0"})
    assert wrong.status_code == 422
    assert "It must be greater than or equal to 1" in words(flat(wrong))
    assert Batch.objects.count() == 3


def test_the_offline_provider_plays_it_for_the_themes_that_have_requests(researcher: Client) -> None:
    assert {draft.key for draft in list_bundled_themes("autoforge")} == {"archive-boxes", "bike-share"}
    assert {draft.key for draft in list_bundled_themes("programmatic")} == {"climbing-gym", "plant-nursery"}
    assert {draft.key for draft in list_bundled_themes("walk")} == {"badge-desk", "radio-rundown"}
    asked = filled(researcher) | {"bundled": ["bike-share", "badge-desk"], "variant": "autoforge"}
    part = words(flat(researcher.post(f"{NEW}readiness/", asked, headers={"HX-Request": "true"})))
    assert "1 of 2 items will be refused" in part
    assert "in the variant autoforge" in part


def estimated(variant: str, scenarios: int = 2) -> Estimate:
    stages = StageSettings(scenarios=scenarios, tasks=3)
    settings = settings_at("http://127.0.0.1:9/v1", stages=stages, variant=variant)
    return build_estimate([build_theme_spec(theme("one"))], settings, settings.pipeline)


def test_an_estimate_counts_what_its_stages_ask_for() -> None:
    usual, drawn = estimated("envscaler"), estimated("autoforge")
    assert (usual.items["scenario"], usual.items["task"]) == (2, 6)
    assert (drawn.items["scenario"], drawn.items["task"]) == (6, 6)
    asked = {line.stage for line in drawn.lines}
    assert {"tool_edges", "prune_merge", "reasoning_nodes", "blueprint_state", "arguments", "refine"} <= asked
    assert not {"checklist", "check_function", "instruction", "initial_state"} & asked
    assert not {"tool_edges", "arguments"} & {line.stage for line in usual.lines}
    alone = estimated("autoforge", scenarios=0)
    assert "tool_edges" not in {line.stage for line in alone.lines}, "nothing is made below: it is only assessed"
    programmed = estimated("programmatic")
    assert (programmed.items["scenario"], programmed.items["task"]) == (2, 6)
    asked = {line.stage for line in programmed.lines}
    assert {"initial_state", "query", "solution", "verification", "solve"} <= asked
    assert not {"checklist", "check_function", "instruction", "tool_edges"} & asked
    walked = estimated("walk")
    assert (walked.items["scenario"], walked.items["task"]) == (2, 6)
    asked = {line.stage for line in walked.lines}
    assert {"tool_edges", "weak_edges", "initial_state", "review_walk", "final_query", "rubric", "judge_end"} <= asked
    assert not {"checklist", "instruction", "prune_merge", "query"} & asked
    assert "weak_edges" not in {line.stage for line in estimated("walk", scenarios=0).lines}


def test_lists_and_the_api_tell_and_filter_by_it(researcher: Client) -> None:
    user = person("operator")
    for variant in ("envscaler", "autoforge"):
        settings = BatchSettings(variant=variant)
        create_batch(user, f"By {variant}", [build_theme_spec(theme("one"))], settings, settings.pipeline, start=False)
    page = flat(researcher.get("/batches/?variant=autoforge"))
    assert "By autoforge" in page
    assert "By envscaler" not in page
    rows = program(user).get("/batches?variant=envscaler").json()["data"]
    assert [(row["name"], row["variant"]) for row in rows] == [("By envscaler", "envscaler")]
    batch = Batch.objects.get(variant="autoforge")
    shown = words(flat(researcher.get(f"/batches/{batch.pk}/")))
    assert all(stage.name in shown for stage in AUTOFORGE.of("task"))
    assert "checklist" not in shown

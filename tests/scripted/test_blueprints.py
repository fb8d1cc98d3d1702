"""Two bundled themes go through the variant autoforge, and what is planted for it is caught, whatever the seed."""

from __future__ import annotations

import asyncio

import pytest

from synthesis.pipeline import AUTOFORGE
from synthesis.runtime import Sandbox
from synthesis.scripted import is_caught, is_reached, list_bundled_themes, list_planted_faults
from synthesis.stages import StageSettings
from synthesis.tool_graph.canonical import hash_blueprint
from tests.scripted.walk import Walk, walk

KEYS = [theme.key for theme in list_bundled_themes("autoforge")]
QUICK = StageSettings(assessment_calls=8, conversational=False, solver_runs=1)
pytestmark = pytest.mark.slow


@pytest.fixture(
    scope="module", params=[pytest.param(key, marks=pytest.mark.xdist_group(f"graph {key}")) for key in KEYS]
)
def walked(request: pytest.FixtureRequest, sandbox: Sandbox) -> tuple[str, Walk]:
    return request.param, asyncio.run(walk(sandbox, request.param, seed=11, settings=QUICK, pipeline=AUTOFORGE))


def test_blueprints_differ_and_every_task_is_green_or_planted(walked: tuple[str, Walk]) -> None:
    key, found = walked
    made = found.drafts[key, "blueprints"]
    assert made.walks == QUICK.graph.walks
    assert len({blueprint.digest for blueprint in made.blueprints}) == len(made.blueprints) == 4
    lost = {one.caught_path for one in list_planted_faults() if one.theme == key and one.outcome == "rejected"}
    audited = found.of("audit")
    assert audited.keys() | lost >= {f"{key}/scenario-{number}/task-0" for number in range(4)}
    for item, one in audited.items():
        task = one.task
        assert one.audit.state == "green", (item, one.audit.faults)
        assert task.golden is not None
        assert [call.tool for call in task.reference.calls] == list(task.blueprint.tools)
        assert task.blueprint.digest == hash_blueprint(task.blueprint)
        assert len(task.instruction) < len(task.intent)
        assert "Thank you" not in task.instruction, "nobody needs it, so it is left out on trial"


def test_what_is_planted_is_caught(walked: tuple[str, Walk]) -> None:
    key, found = walked
    here = [one for one in list_planted_faults() if one.theme == key and one.variant == "autoforge"]
    assert here
    for one in here:
        assert is_reached(one, found), f"never came to {one.kind} at {one.path or one.stage}"
        assert is_caught(one, found), (one.kind, one.caught_path, found.ending(one.caught_path))


def test_the_two_themes_plant_every_kind_of_fault() -> None:
    kinds = {one.kind for one in list_planted_faults() if one.variant == "autoforge"}
    assert kinds == {"cycle", "dangling_argument", "unchanged_end", "names_a_tool", "no_edge", "two_alike"}

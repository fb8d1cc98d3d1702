"""Two bundled themes go through the variant programmatic, and what is planted for it is caught."""

from __future__ import annotations

import asyncio

import pytest

from synthesis.pipeline import PROGRAMMATIC
from synthesis.runtime import Sandbox
from synthesis.scripted import is_caught, is_reached, list_bundled_themes, list_planted_faults
from synthesis.scripted.library import load_theme
from synthesis.stages import StageSettings
from tests.scripted.walk import Walk, walk

KEYS = [theme.key for theme in list_bundled_themes("programmatic")]
OWN = [one for one in list_planted_faults() if one.variant == "programmatic"]
QUICK = StageSettings(assessment_calls=8)
pytestmark = pytest.mark.slow


@pytest.fixture(
    scope="module", params=[pytest.param(key, marks=pytest.mark.xdist_group(f"programs {key}")) for key in KEYS]
)
def walked(request: pytest.FixtureRequest, sandbox: Sandbox) -> tuple[str, Walk]:
    return request.param, asyncio.run(walk(sandbox, request.param, settings=QUICK, pipeline=PROGRAMMATIC))


def test_every_task_is_green_and_taught_in_both_settings_or_planted(walked: tuple[str, Walk]) -> None:
    key, found = walked
    lost = {one.path for one in OWN if one.theme == key and one.outcome == "rejected"}
    audited = found.of("audit")
    assert audited.keys() | lost == {f"{key}/{item}" for item in load_theme(key).programs}
    assert len(audited.keys() | lost) == 4
    for item, one in audited.items():
        task = one.task
        assert one.audit.state == "green", (item, one.audit.faults)
        assert (task.verifier.kind, task.consistency.solved) == ("script", 4), "the third run gives up"
        kept = [attempt for path, attempt in found.of("filter").items() if path.startswith(f"{item}/")]
        assert {attempt.conversational for attempt in kept} == {False, True}
    assert not [item for item, end in found.ends.items() if end.state != "kept" and item not in lost]


def test_what_is_planted_is_caught(walked: tuple[str, Walk]) -> None:
    key, found = walked
    here = [one for one in OWN if one.theme == key]
    assert here
    for one in here:
        assert is_reached(one, found), f"never came to {one.kind} at {one.path}"
        assert is_caught(one, found), (one.kind, one.path, found.ending(one.path))


def test_the_two_themes_plant_every_kind_of_fault() -> None:
    kinds = {"solution_errs", "does_nothing", "always_passes", "passes_permuted", "never_passes"}
    assert {one.kind for one in OWN} == kinds

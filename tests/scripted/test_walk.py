"""Every bundled theme goes through every stage, and what is planted in it is caught where it must be."""

from __future__ import annotations

import asyncio
import json
from collections import Counter

import pytest

from synthesis.contracts import SOLVED_AT, is_unexecuted
from synthesis.runtime import Sandbox
from synthesis.scripted import is_caught, is_reached, list_bundled_themes, list_planted_faults
from synthesis.stages import StageSettings
from tests.scripted.walk import Walk, walk

QUICK = 1
"""So many themes are walked by `make test`, and all of them by `.ci/run`."""


def marks(number: int, key: str) -> list[pytest.MarkDecorator]:
    """Each theme is walked once, in one of pytest-xdist's workers."""
    return [pytest.mark.xdist_group(f"walk of {key}"), *([pytest.mark.slow] if number >= QUICK else [])]


LOST = ("rejected", "failed", "unsolved")
OWN = [one for one in list_planted_faults() if one.variant in ("", "envscaler")]
"""What is planted for this pipeline."""
KEYS = [pytest.param(theme.key, marks=marks(number, theme.key)) for number, theme in enumerate(list_bundled_themes())]


@pytest.fixture(scope="module", params=KEYS)
def walked(request: pytest.FixtureRequest, sandbox: Sandbox) -> tuple[str, Walk]:
    return request.param, asyncio.run(walk(sandbox, request.param))


def test_an_environment_is_made_and_passes_its_assessment(walked: tuple[str, Walk]) -> None:
    key, found = walked
    assert found.ends[key].state == "kept"
    assembled, assessment = found.drafts[key, "assemble"], found.drafts[key, "assess"]
    assert 8 <= len(assembled.record.tools) <= 12
    assert len(assembled.record.rules) >= 3
    assert assessment.score >= 0.85
    assert all(rate.positive and rate.negative for rate in assessment.rates), "every tool is tried both ways"
    worked = [case.tool for case in assessment.cases if case.case == "positive" and case.ok and case.patch]
    assert worked, "positive calls that change something are among them"


def test_tasks_are_audited_green_and_their_reference_is_the_shortest_run(walked: tuple[str, Walk]) -> None:
    key, found = walked
    spoilt = {
        one.path
        for one in list_planted_faults()
        if one.theme == key and one.outcome in LOST and one.variant in ("", "envscaler")
    }
    audited = found.of("audit")
    assert len(audited.keys() | spoilt) == 4
    for item, one in audited.items():
        if item not in spoilt:
            assert one.audit.state == "green", (item, one.audit.faults)
            direct = found.drafts[f"{item}/work-0", "rollout"]
            made = [step for step in direct.steps if step.kind == "call" and not is_unexecuted(step.result)]
            assert len(one.task.reference.calls) == len(made)
            assert json.loads(direct.answer) == one.task.expected_answer


def test_trajectories_of_both_settings_are_kept(walked: tuple[str, Walk]) -> None:
    _, found = walked
    kept = found.of("filter")
    settings = Counter(attempt.conversational for attempt in kept.values())
    assert settings[False] >= 3
    assert settings[True] >= 2
    assert all(attempt.reward.reward >= SOLVED_AT for attempt in kept.values())
    assert all(attempt.ending == "user_stopped" for attempt in kept.values() if attempt.conversational)


def test_what_is_planted_is_caught(walked: tuple[str, Walk]) -> None:
    key, found = walked
    here = [one for one in OWN if one.theme == key]
    assert here
    for one in here:
        assert is_reached(one, found), f"never came to {one.kind} at {one.path or one.stage}"
        assert is_caught(one, found), (one.kind, one.path, found.ending(one.path))


def test_nothing_else_is_left_out(walked: tuple[str, Walk]) -> None:
    _, found = walked
    blamed = {one.path for one in OWN if one.outcome in ("left_out", *LOST)}
    lost = [item for item, end in found.ends.items() if end.state != "kept"]
    assert [item for item in lost if not any(item.startswith(path) for path in blamed)] == []


@pytest.mark.slow
def test_a_second_run_asks_nothing_and_gives_the_same(sandbox: Sandbox) -> None:
    one = StageSettings(scenarios=1, tasks=1)
    first = asyncio.run(walk(sandbox, "plant-nursery", settings=one))
    begun = len(first.store.begun)
    second = Walk(store=first.store)
    asyncio.run(walk(sandbox, "plant-nursery", second, settings=one))
    assert len(first.store.begun) == begun
    assert second.ends == first.ends
    assert second.of("audit") == first.of("audit")


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2**31 - 1])
def test_a_tool_that_breaks_its_rule_is_caught_whatever_the_seed(sandbox: Sandbox, seed: int) -> None:
    found = asyncio.run(walk(sandbox, "plant-nursery", seed=seed, settings=StageSettings(scenarios=1, tasks=1)))
    one = next(one for one in list_planted_faults() if one.kind == "breaks_its_rule")
    assert is_caught(one, found)
    assessment = found.drafts["plant-nursery", "assess"]
    assert [(repair.tool, repair.outcome) for repair in assessment.repairs] == [(one.tool, "repaired")]
    assert assessment.first_score < assessment.score == 1.0
    assert "at most 500" in assessment.program.record.source

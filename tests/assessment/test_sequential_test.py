"""The sequential test: what it decides, and how often it errs."""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Callable

import pytest

from synthesis.assessment.call_plan import WAYS, count_lap_calls, draw_call_plan
from synthesis.assessment.sequential_test import compute_log_evidence, decide_by_counts

N, LEVEL, SURE = 100, 0.85, 0.95
RUNS = 1_500


def run(draw: Callable[[int], bool], confidence: float | None = SURE, planned: int = N) -> tuple[bool, int]:
    """(kept, calls made) where `draw(i)` says whether call i is sound."""
    sound = failed = 0
    while True:
        found = decide_by_counts(sound, failed, planned, LEVEL, confidence)
        if found is not None:
            return found, sound + failed
        good = draw(sound + failed)
        sound, failed = sound + good, failed + (not good)


known_evidence = functools.cache(compute_log_evidence)
"""Many runs pass through the same counts."""


def early_errors(rate: Callable[[int, int], float], seed: int, looks: int = 200) -> tuple[float, float]:
    """Shares of runs that the two e-processes alone decide, looked at after each of `looks` calls (twice N)."""
    luck = random.Random(seed)
    certain = -math.log(1 - SURE)
    kept = dropped = 0
    for number in range(RUNS):
        sound = failed = 0
        for call in range(looks):
            good = luck.random() < rate(number, call)
            sound, failed = sound + good, failed + (not good)
            keep, drop = known_evidence(sound, failed, LEVEL)
            if keep >= certain or drop >= certain:
                kept, dropped = kept + (keep >= certain), dropped + (drop >= certain)
                break
    return kept / RUNS, dropped / RUNS


@pytest.mark.parametrize(("sound", "failed"), [(0, 0), (7, 0), (30, 2), (3, 9), (80, 20)])
def test_evidence_is_the_integral_it_claims_to_be(sound: int, failed: int) -> None:
    def mean(low: float, high: float, parts: int = 20_000) -> float:
        width = (high - low) / parts
        points = (low + (i + 0.5) * width for i in range(parts))
        return sum((q / LEVEL) ** sound * ((1 - q) / (1 - LEVEL)) ** failed for q in points) / parts

    keep, drop = compute_log_evidence(sound, failed, LEVEL)
    assert math.exp(keep) == pytest.approx(mean(LEVEL, 1), rel=1e-4)
    assert math.exp(drop) == pytest.approx(mean(0, LEVEL), rel=1e-4)


def test_error_rates_at_the_threshold_itself_stay_below_alpha() -> None:
    """The worst case for both errors. Three standard errors of room, which a fixed seed makes safe."""
    kept, dropped = early_errors(lambda number, call: LEVEL, seed=1)
    room = 3 * math.sqrt(0.05 * 0.95 / RUNS)
    assert 0 < kept <= 0.05 + room
    assert 0 < dropped <= 0.05 + room


@pytest.mark.parametrize(("rate", "side"), [(0.80, 0), (0.90, 1)])
def test_away_from_the_threshold_errors_are_rare(rate: float, side: int) -> None:
    assert early_errors(lambda number, call: rate, seed=2)[side] <= 0.02


@pytest.mark.parametrize("rate", [0.3, 0.7, 0.8, 0.85, 0.9, 0.97])
def test_an_early_decision_is_nearly_always_that_of_all_calls(rate: float) -> None:
    """Against N calls of the same run: what stopping costs is bounded by alpha, what it saves is shown."""
    luck = random.Random(3)
    other, made = 0, 0
    for _ in range(250):
        calls = [luck.random() < rate for _ in range(N)]
        kept, count = run(lambda i, calls=calls: calls[i])
        other += kept != (sum(calls) / N >= LEVEL)
        made += count
    assert other / 250 <= 0.05
    assert made / 250 < N


def test_tools_that_are_not_alike_do_not_fool_it() -> None:
    """Half of the tools fail three times in ten, the others never: at the threshold on the whole, in spread order."""
    tools = [f"tool_{number}" for number in range(12)]
    weak = set(tools[:6])
    orders = [[aim.tool in weak for aim in draw_call_plan(tools, N, seed)] for seed in range(RUNS)]
    kept, dropped = early_errors(lambda number, call: 0.7 if orders[number][call] else 1.0, seed=4, looks=N)
    assert kept <= 0.05
    assert dropped <= 0.05


def test_few_calls_are_enough_where_the_matter_is_clear() -> None:
    assert run(lambda i: True) == (True, 28)
    assert run(lambda i: False) == (False, 3)


def test_without_a_confidence_every_call_is_made_and_the_published_rule_decides() -> None:
    assert run(lambda i: i % 20 < 17, None) == (True, 100)
    assert run(lambda i: i % 20 < 17 and i != 50, None) == (False, 100)
    assert run(lambda i: False, None) == (False, 100)


def test_what_is_left_can_change_nothing() -> None:
    assert decide_by_counts(84, 16, N, LEVEL, 0.999999) is False
    assert decide_by_counts(85, 10, N, LEVEL, 0.999999) is True
    assert decide_by_counts(84, 10, N, LEVEL, 0.999999) is None


@pytest.mark.parametrize("threshold", [0.0, 0.5, 0.85, 1.0])
def test_a_decision_never_contradicts_the_score(threshold: float) -> None:
    for made in range(1, 41):
        for sound in range(made + 1):
            found = decide_by_counts(sound, made - sound, 40, threshold, SURE)
            assert found is None or found == (sound / made >= threshold)


def test_every_tool_is_tried_both_ways() -> None:
    tools = ["a", "b", "c", "d", "e"]
    aims = draw_call_plan(tools, count_lap_calls(len(tools)), seed=9)
    assert {(aim.tool, aim.case) for aim in aims} == {(tool, way) for tool in tools for way in WAYS}
    assert {aim.tool for aim in aims[:5]} == set(tools)


@pytest.mark.parametrize("count", [1, 3, 7, 10, 23, 100])
def test_no_tool_and_no_way_is_preferred(count: int) -> None:
    tools = ["a", "b", "c"]
    aims = draw_call_plan(tools, count, seed=1)
    assert len(aims) == count
    each = [sum(aim.tool == tool for aim in aims) for tool in tools]
    assert max(each) - min(each) <= 1
    for tool in tools:
        ways = [sum(aim.tool == tool and aim.case == way for aim in aims) for way in WAYS]
        assert abs(ways[0] - ways[1]) <= 1


def test_the_order_follows_the_seed_alone() -> None:
    tools = [f"t{number}" for number in range(9)]
    assert draw_call_plan(tools, 50, 5) == draw_call_plan(tools, 50, 5)
    assert draw_call_plan(tools, 50, 5) != draw_call_plan(tools, 50, 6)
    assert draw_call_plan(tools, 50, 5)[:20] == draw_call_plan(tools, 20, 5)
    assert draw_call_plan([], 10, 1) == ()

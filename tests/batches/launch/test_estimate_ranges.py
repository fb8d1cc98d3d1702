"""The range of an estimate held in batches that were recorded: their real totals lie inside."""

from __future__ import annotations

import gzip
import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from synthesis.llm.cost import Price
from synthesis.pipeline import ENVSCALER
from synthesis.scripted import list_bundled_themes
from synthesis.stages import StageSettings
from tests.batches.launch.recorded_figures import FIGURES, keep, recorded, total
from tests.batches.support import settings_at
from tests.batches.table import theme
from webapp.batches.launch.estimate import Estimate, build_estimate
from webapp.batches.models import Batch, LLMCall
from webapp.batches.services import build_theme_spec
from webapp.batches.spec import ROLES, SCRIPTED, BatchSettings

pytestmark = pytest.mark.django_db(transaction=True)

SETTINGS = BatchSettings(models=dict.fromkeys(ROLES, SCRIPTED), stages=StageSettings(scenarios=1, tasks=1))
CHARACTERS_A_TOKEN = 4


def estimated(keys: set[str]) -> Estimate:
    return build_estimate(
        [build_theme_spec(known) for known in list_bundled_themes() if known.key in keys], SETTINGS, ENVSCALER
    )


def require_held(told: Estimate, real: dict[str, int]) -> None:
    for name in FIGURES:
        bounds = getattr(told, name)
        assert bounds.low <= real[name] <= bounds.high, f"{name}: {real[name]} is not in {bounds}"


def test_with_nothing_to_go_by_the_range_is_wide_and_holds() -> None:
    items = recorded()
    for size in (1, 6):
        for keys in itertools.combinations(sorted({item.theme for item in items}), size):
            told = estimated(set(keys))
            require_held(told, total(item for item in items if item.theme in keys))
            assert "rests on assumptions" in told.rests_on


def test_a_theme_lies_in_the_range_that_the_others_give() -> None:
    items = recorded()
    for key in sorted({item.theme for item in items}):
        Batch.objects.all().delete()
        LLMCall.objects.all().delete()
        keep((item for item in items if item.theme != key), SETTINGS)
        require_held(estimated({key}), total(item for item in items if item.theme == key))


def test_a_second_batch_over_the_same_themes_has_a_narrow_range() -> None:
    items = recorded()
    keys = {item.theme for item in items}
    before = estimated(keys)
    keep(items, SETTINGS)
    told = estimated(keys)
    require_held(told, total(items))
    assert told.calls.high / told.calls.low < before.calls.high / before.calls.low / 2
    assert "earlier calls" in told.rests_on


def test_cost_and_time_are_ranges_of_the_same_calls() -> None:
    model, price = "local/scripted-1", Price(prompt=1.0, completion=2.0)
    items = recorded()
    batch = keep(items, SETTINGS, model, seconds=2.0)
    settings = settings_at("http://127.0.0.1:9/v1", stages=SETTINGS.stages, prices={model: price})
    told = build_estimate([build_theme_spec(known) for known in list_bundled_themes()], settings, ENVSCALER)
    real = total(items)
    assert told.cost is not None
    assert told.cost.low <= (real["prompt_tokens"] + 2 * real["completion_tokens"]) / 1e6 <= told.cost.high
    at_work = LLMCall.objects.filter(batch=batch).count() * 2.0
    assert sum(line.seconds.low for line in told.lines) <= at_work <= sum(line.seconds.high for line in told.lines)
    assert 0 < told.seconds.low < told.seconds.high


def test_a_batch_with_a_capable_model_lay_inside(real_data: Path) -> None:
    """It kept no counts of tokens: they are told from characters."""
    file = real_data / "recorded_batch" / "calls.jsonl.gz"
    if not file.exists():
        pytest.skip("ENVARIUM_TEST_DATA names a folder without a recorded batch")
    with gzip.open(file, "rt") as lines:
        calls = [json.loads(line) for line in lines]
    real = {
        "calls": len(calls),
        "prompt_tokens": sum(_tokens(call["request"]) for call in calls),
        "completion_tokens": sum(_tokens(call["reply"]) for call in calls),
    }
    stages = StageSettings(scenarios=1, tasks=2, solver_runs=1, assessment_calls=14, test_states=2)
    settings = settings_at("http://127.0.0.1:9/v1", stages=stages)
    require_held(build_estimate([build_theme_spec(theme("seed-library"))], settings, ENVSCALER), real)


def _tokens(value: Any) -> int:
    return len(json.dumps(value)) // CHARACTERS_A_TOKEN


def test_the_likely_range_is_one_that_a_person_can_use_and_mostly_holds() -> None:
    items = recorded()
    keys = sorted({item.theme for item in items})
    held, widths = [], []
    for key in keys:
        Batch.objects.all().delete()
        LLMCall.objects.all().delete()
        keep((item for item in items if item.theme != key), SETTINGS)
        told, real = estimated({key}), total(item for item in items if item.theme == key)
        for name in FIGURES:
            likely, ends = told.likely[name], getattr(told, name)
            assert ends.low <= likely.low <= likely.typical <= likely.high <= ends.high
            held.append(likely.low <= real[name] <= likely.high)
            widths.append(likely.high / likely.low)
    assert sum(held) / len(held) >= 0.6, held
    assert max(widths) < 6, widths


def test_without_a_history_the_typical_value_is_of_the_right_size() -> None:
    items = recorded()
    keys = {item.theme for item in items}
    told, real = estimated(keys), total(items)
    assert told.likely["calls"].high / told.likely["calls"].low < 3
    assert 1 / 2 < told.likely["calls"].typical / real["calls"] < 2
    again = estimated(keys)
    assert again.likely == told.likely, "the same every time"

"""What the dry run takes from calls of the past, and how long it says that a batch takes."""

from __future__ import annotations

import pytest

from synthesis.formats.records import ThemeRecord, ToolSpec
from synthesis.pipeline import ENVSCALER
from synthesis.stages import StageSettings
from synthesis.themes.specifications import build_specified_theme
from tests.batches.support import settings_at
from tests.batches.table import TABLE, theme
from tests.rollouts_web.support import endpoint_at
from webapp.batches.launch.assumed_usage import PATIENCE, WORDS
from webapp.batches.launch.bounds import Bounds
from webapp.batches.launch.estimate import Estimate, EstimateLine, build_estimate
from webapp.batches.models import Batch, BatchLane, Body, LLMCall
from webapp.batches.services import build_theme_spec, create_batch
from webapp.batches.spec import SCRIPTED, BatchSettings

pytestmark = pytest.mark.django_db(transaction=True)

URL = "http://127.0.0.1:9/v1"
MODEL = "local/scripted-1"


def past(model: str, batch: Batch, seconds: float, calls: int = 2) -> None:
    """Plans of six themes, of some calls each."""
    body, _ = Body.objects.get_or_create(hash="0" * 64, defaults={"body": b"", "size": 0})
    LLMCall.objects.bulk_create(
        LLMCall(
            key=f"{model}-{batch.pk}-{number}-{sample}",
            batch=batch,
            path=f"theme-{number}",
            role="author",
            stage="plan_state",
            sample=sample,
            model=model,
            state="done",
            request=body,
            prompt_tokens=700,
            completion_tokens=10,
            seconds=seconds,
        )
        for number in range(6)
        for sample in range(calls)
    )


def holds(bounds: Bounds, figure: float) -> bool:
    return bounds.low <= figure <= bounds.high


def plan_line(settings: BatchSettings) -> EstimateLine:
    return next(line for line in dry(settings, 1).lines if line.stage == "plan_state")


def dry(settings: BatchSettings, themes: int) -> Estimate:
    return build_estimate([build_theme_spec(theme(f"theme-{number}")) for number in range(themes)], settings, ENVSCALER)


def test_the_offline_provider_does_not_say_how_long_a_model_takes_and_writes() -> None:
    past(SCRIPTED, Batch.objects.create(name="Offline"), seconds=0.0)
    line = plan_line(settings_at(URL))
    assert line.seen == 12
    assert holds(line.calls, 2)
    assert holds(line.prompt_tokens, 1_400)
    assert line.completion_tokens.high > 2 * WORDS.low
    assert line.seconds.high > 2 * 8.0
    past(MODEL, Batch.objects.create(name="Live"), seconds=3.0)
    line = plan_line(settings_at(URL))
    assert holds(line.completion_tokens, 20)
    assert line.completion_tokens.high < WORDS.high / 10
    assert holds(line.seconds, 6.0)
    assert line.seconds.high < 2 * 8.0


def test_the_same_themes_in_several_batches_do_not_make_an_item_dearer() -> None:
    for name in ("First", "Second", "Third"):
        past(MODEL, Batch.objects.create(name=name), seconds=1.0)
    calls = plan_line(settings_at(URL)).calls
    assert holds(calls, 2)
    assert calls.high <= 4


def test_one_theme_takes_as_long_as_its_calls_in_a_row_three_of_an_assessment_side_by_side() -> None:
    stages = StageSettings(scenarios=1, tasks=1, assessment_calls=100)
    one, many = (dry(settings_at(URL, stages=stages), themes).seconds for themes in (1, 400))
    assert one.high > 200 * PATIENCE.high / 3
    assert many.high > 20 * one.high
    assert 0 < one.low < one.high


def test_a_tester_that_picks_its_call_is_estimated_as_its_own_kind_of_call() -> None:
    stages = StageSettings(scenarios=0, assessment_calls=40, sequential=False)
    planned = {line.stage: line for line in dry(settings_at(URL, stages=stages), 3).lines}
    free = stages.model_copy(update={"tester": "free"})
    picked = {line.stage: line for line in dry(settings_at(URL, stages=free), 3).lines}
    assert set(picked) - set(planned) == {"choose_call"}
    assert picked["choose_call"].calls.high == 132, "three times 1.1 x 40"
    assert picked["choose_call"].prompt_tokens.high > planned["test_call"].prompt_tokens.high, "it reads all tools"
    assert picked["test_call"].calls.high <= 12, "after a repair calls are planned"
    unmended = free.model_copy(update={"tool_repairs": 0})
    assert "test_call" not in {line.stage for line in dry(settings_at(URL, stages=unmended), 3).lines}


def test_a_set_of_tools_is_named_first_and_only_that() -> None:
    document = ThemeRecord(key="a", name="a", tools=(ToolSpec(name="find_pots"),))
    drafts = [build_specified_theme(record, "documents") for record in (document, document.model_copy(
        update={"description": "A shelf of pots."}))]  # fmt: skip
    told = build_estimate([build_theme_spec(draft) for draft in drafts], settings_at(URL), ENVSCALER)
    (line,) = (line for line in told.lines if line.stage == "invert_tools")
    assert (line.calls.low, line.calls.high) == (1, 2)
    assert "invert_tools" not in {line.stage for line in dry(settings_at(URL), 1).lines}


def test_there_are_no_more_lanes_than_an_endpoint_takes_requests() -> None:
    endpoint_at(URL, max_concurrency=3)
    batch = create_batch(None, "Many lanes", [build_theme_spec(theme("one"))], settings_at(URL, lanes=8), TABLE)
    assert BatchLane.objects.filter(batch=batch).count() == 3

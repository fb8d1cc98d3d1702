"""The shape of a real EnvScaler assessment, against what ours keeps; and its calls, executed again here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from synthesis.assessment.call_plan import draw_call_plan
from synthesis.assessment.cases import CallSetting, execute_call
from synthesis.assessment.environments import build_view
from synthesis.assessment.scores import summarize_assessment
from synthesis.contracts import DEFAULT_NOW
from synthesis.drafts import ToolCase
from synthesis.formats.envscaler import parse_environments
from synthesis.formats.files import Entry
from synthesis.formats.records import EnvironmentRecord
from synthesis.runtime import Sandbox, decode_state, encode_state
from synthesis.stages import StageSettings

pytestmark = pytest.mark.data
FOLDER = "envscaler/pipeline_run"
VERDICTS = {"Pass": "pass", "Warning": "warning", "Fail": "fail"}


def stage(real_data: Path, name: str) -> Any:
    return json.loads((real_data / FOLDER / f"env_simulator__stage3_check_env.{name}.json").read_text())


@pytest.fixture(scope="module")
def assessed(real_data: Path) -> list[dict[str, Any]]:
    """Its calls in their order, each with its tool."""
    details = stage(real_data, "step2_roll_check")[0]["func_test_result"]["func_test_cases"]["details"]
    listed = [one | {"tool": tool} for tool, found in details.items() for one in found["cases"]]
    return sorted(listed, key=lambda one: one["step"])


def as_case(one: dict[str, Any]) -> ToolCase:
    """A real case in our words: every field of it has a place."""
    return ToolCase(
        tool=one["tool"],
        arguments=one["parameters"],
        case=one["case_type"],
        state=encode_state(one["state_before_call"]),
        ok=True,
        result=encode_state(one["observation"]),
        verdict=VERDICTS[one["check_result"]["result"]],
        reason=one["check_result"]["analysis"],
    )


def test_its_scores_are_ours(real_data: Path, assessed: list[dict[str, Any]]) -> None:
    numbers = stage(real_data, "step2_roll_check")[0]["func_test_result"]["func_test_cases"]["summary"]
    cases = [as_case(one) for one in assessed]
    tools = sorted({case.tool for case in cases})
    draft = summarize_assessment(cases, tools, StageSettings(assessment_calls=len(cases)))
    total = numbers["total_count"]
    assert draft.score == (numbers["pass_count"] + numbers["warning_count"]) / total
    assert draft.strict == numbers["pass_count"] / total
    assert sum(rate.positive for rate in draft.rates) == numbers["positive_count"]
    sound = numbers["negative_pass_count"] + numbers["negative_warning_count"]
    assert sum(rate.negative_sound for rate in draft.rates) == sound
    assert draft.kept, "the real run kept this environment"


def test_its_calls_do_here_what_they_did_there(
    real_data: Path, assessed: list[dict[str, Any]], sandbox: Sandbox
) -> None:
    raw = stage(real_data, "filtered_env_metadata")
    ((_, record),) = parse_environments([Entry(key, one, key) for key, one in raw.items()])
    assert isinstance(record, EnvironmentRecord)
    program = build_view(record).program
    same = 0
    for one in assessed:
        setting = CallSetting(encode_state(one["state_before_call"]), 0, DEFAULT_NOW)
        done = execute_call(sandbox, program, setting, one["tool"], one["parameters"])
        assert done.after is not None
        same += decode_state(done.after) == one["state_after_call"]
    assert same >= 0.9 * len(assessed)


def test_what_it_left_untried_is_tried(real_data: Path, assessed: list[dict[str, Any]]) -> None:
    tools = sorted({one["tool"] for one in assessed})
    theirs = {(one["tool"], one["case_type"]) for one in assessed}
    ours = {(aim.tool, aim.case) for aim in draw_call_plan(tools, 2 * len(tools), seed=0)}
    assert len(theirs) < len(ours) == 2 * len(tools)

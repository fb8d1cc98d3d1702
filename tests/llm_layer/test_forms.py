"""Forms that stages ask for: room to think before the answer, and an example that would itself be read."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from synthesis.assessment.initial_states import InitialStateReply
from synthesis.assessment.review_judge import OfferedCode, ReviewBrief, ReviewReply, build_review_prompt
from synthesis.assessment.rounds import CallReply, ChosenCallReply, VerdictReply
from synthesis.llm.reply_reader import read_json
from synthesis.llm.source_reader import read_code
from synthesis.llm.structured import build_code_form, build_json_form, get_example_name
from synthesis.programmatic.query_stage import QueryReply
from synthesis.prompts import HERE, get_prompt, insert_form
from synthesis.rollout.user_judge import UserFaultsReply
from synthesis.scenarios.states import StateReply
from synthesis.skeleton.coverage import CoverageReply
from synthesis.skeleton.plan_reply import OperationsReply, StatePlanReply
from synthesis.tasks.checklist import ChecklistReply
from synthesis.tasks.instruction import InstructionReply
from synthesis.tasks.repair_form import read_repair
from synthesis.tasks.trajectory_filters import PossibleVerdict
from synthesis.taxonomy.group_judge import GroupReply
from synthesis.taxonomy.place_judge import PlaceReply
from synthesis.themes.inversion import InvertedTheme
from synthesis.themes.pair_judge import SameThemeVerdict
from synthesis.themes.tasks import InferredTheme, JudgedTask
from synthesis.themes.theme_lists import LikeThemesReply
from synthesis.tool_graph.blueprint_stage import MergeReply, ReasoningEdgesReply
from synthesis.tool_graph.derivations import require_derivation
from synthesis.tool_graph.edge_stage import ToolEdgesReply
from synthesis.tool_graph.reply_forms import read_arguments, read_reasoning_nodes
from synthesis.tool_graph.task_stages import IntentReply
from synthesis.tool_walk.hidden_words import HiddenReply
from synthesis.tool_walk.review_stage import ChainReply
from synthesis.tool_walk.rubric_stage import RubricReply
from synthesis.tool_walk.weak_edge_stage import WeakEdgesReply

SHAPES: tuple[type[BaseModel], ...] = (
    *(StatePlanReply, OperationsReply, CoverageReply, InitialStateReply, StateReply, InstructionReply, ChecklistReply),
    *(CallReply, VerdictReply, JudgedTask, InferredTheme, PossibleVerdict, UserFaultsReply, ReviewReply, PlaceReply),
    *(GroupReply, SameThemeVerdict, LikeThemesReply, ChosenCallReply, InvertedTheme),
    *(ToolEdgesReply, MergeReply, ReasoningEdgesReply, IntentReply, QueryReply),
    *(WeakEdgesReply, ChainReply, HiddenReply, RubricReply),
)
CODE = ("code_attributes", "code_method", "check_function", "repair", "repair_tool", "repair_task")
CODE += ("reasoning_nodes", "arguments", "solution", "verification", "ground_truth")


@pytest.mark.parametrize("shape", SHAPES)
def test_each_shape_has_an_example_that_fits_it(shape: type[BaseModel]) -> None:
    text = get_prompt("examples", get_example_name(shape)).text
    example = read_json(text, shape)
    asked = build_json_form(shape)
    assert text in asked
    assert "Think first" in asked
    assert read_json(f"I think {{so}}.\n\n```json\n{text}\n```", shape) == example
    if "reasoning" not in text:
        assert read_json('{"reasoning": "First …", ' + text.lstrip()[1:], shape) == example


@pytest.mark.parametrize("stage", CODE)
def test_each_stage_that_asks_for_code_shows_some(stage: str) -> None:
    text = get_prompt("examples", stage).text
    asked = build_code_form(stage)
    assert text in asked
    assert "Think first" in asked
    assert read_code(f"The guard comes first.\n\n```python\n{text}\n```").strip() == text.strip()


def test_no_example_is_left_over() -> None:
    assert {path.stem for path in (HERE / "examples").glob("*.md")} == {*map(get_example_name, SHAPES), *CODE}


def test_the_example_of_a_repair_is_one() -> None:
    reply = read_repair(get_prompt("examples", "repair_task").text)
    assert [check.label[:9] for check in reply.checks] == ["There is ", "There is "]
    assert reply.free is not None
    assert reply.free[0].most == 1
    assert (reply.not_asked, reply.answer_form, reply.expected_answer) == ((4,), None, {"left": 15})


def test_the_examples_of_reasoning_and_of_arguments_are_read() -> None:
    (node,) = read_reasoning_nodes(get_prompt("examples", "reasoning_nodes").text)
    assert require_derivation(node.derivation, ("t1", "t2")) == ("t2",)
    given = read_arguments(get_prompt("examples", "arguments").text)
    sources = {item.name: item.source for item in given}
    assert sources == {"loan_id": "result", "grams": "intent", "left": "derivation"}


def test_the_example_of_a_review_points_to_where_the_verdicts_stand() -> None:
    brief = ReviewBrief(what="a task", object="A task.", verdicts=(OfferedCode(code="approve", words="Sound."),))
    example, _, behind = insert_form(build_review_prompt(brief), build_json_form(ReviewReply)).partition(
        "(one of the verdicts below)"
    )
    assert behind.count("`approve`") == 1
    assert "`approve`" not in example


def test_code_is_never_asked_for_inside_json() -> None:
    for shape in SHAPES:
        names = str(shape.model_json_schema())
        assert "'source'" not in names
        assert "'code'" not in names

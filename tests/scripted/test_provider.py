"""The provider as a model: what it answers, what it refuses, what it says it used."""

from __future__ import annotations

import asyncio
import json

import pytest

from synthesis.contracts import Message
from synthesis.errors import LLMError, Rejected
from synthesis.llm.calls import Site, StageCall
from synthesis.llm.source_reader import read_code
from synthesis.runtime import Sandbox, check_program
from synthesis.scripted import ScriptedModel, list_bundled_themes, list_planted_faults
from synthesis.scripted.library import list_theme_keys, load_theme
from synthesis.scripted.planted import THEMES
from synthesis.scripted.programs.recipes import RECIPES
from synthesis.themes.tasks import discover_theme
from tests.scripted.walk import kit_of
from webapp.taxonomy.labels import FIRST_LEVEL

KINDS = {
    "invents_tool",
    "unfit_answer",
    "contradicts_trace",
    "tells_order",
    "bad_json",
    "hopeless_json",
    "refusal",
    "does_not_compile",
    "breaks_its_rule",
    "raises_an_error",
    "always_true",
    "always_false",
    "names_a_tool",
    "invents_facts",
    "cycle",
    "dangling_argument",
    "unchanged_end",
    "no_edge",
    "two_alike",
    "solution_errs",
    "does_nothing",
    "always_passes",
    "passes_permuted",
    "never_passes",
}


def call(stage: str, item: str = "bike-share", role: str = "author", sample: int = 0, words: str = "?") -> StageCall:
    site = Site(role=role, stage=stage, item=item, theme=item.partition("/")[0], sample=sample)
    return StageCall(site=site, messages=(Message(role="user", content=words),))


def said(asked: StageCall) -> str:
    return asyncio.run(ScriptedModel().answer(asked)).message.content


def test_six_themes_of_six_categories() -> None:
    found = list_bundled_themes()
    assert len(found) == 6
    assert len({theme.category for theme in found}) == 6
    assert {theme.category for theme in found} <= set(FIRST_LEVEL)
    assert {theme.origin for theme in found} == {"scripted"}
    assert set(RECIPES) == set(list_theme_keys())


@pytest.mark.parametrize("key", list_theme_keys())
def test_the_files_of_a_theme_belong_together(key: str) -> None:
    one = load_theme(key)
    operations = [operation["name"] for operation in one.plan["operations"]]
    assert sorted(operations) == sorted(one.fragments.methods)
    assert 8 <= len(operations) <= 12
    assert sorted(one.states) == ["scenario-0", "scenario-1"]
    assert sorted(one.tasks) == [f"scenario-{s}/task-{t}" for s in (0, 1) for t in (0, 1)]
    assert sorted(one.checks) == [f"Scenario{s}Task{t}" for s in (0, 1) for t in (0, 1)]
    assert all(check.item for checks in one.checks.values() for check in checks)
    assert check_program((THEMES / key / "program.py").read_text(), one.fragments.class_name, operations) == []


@pytest.mark.parametrize("key", list_theme_keys())
def test_the_whole_program_is_what_a_repair_gives(key: str) -> None:
    whole = read_code(said(call("repair", key)))
    operations = [operation["name"] for operation in load_theme(key).plan["operations"]]
    assert check_program(whole, load_theme(key).fragments.class_name, operations) == []


def test_every_kind_of_fault_is_planted_and_its_reply_is_there() -> None:
    assert {one.kind for one in list_planted_faults()} == KINDS
    assert len({one.theme for one in list_planted_faults()}) == 6
    for one in list_planted_faults():
        usual = "" if one.edit is None else one.edit[0]
        assert one.spoil(usual.__str__)


def test_the_same_call_gets_the_same_reply() -> None:
    assert said(call("plan_state")) == said(call("plan_state"))
    assert said(call("code_method", sample=0)) != said(call("code_method", sample=1))


def test_usage_is_estimated_and_says_so() -> None:
    reply = asyncio.run(ScriptedModel().answer(call("plan_state", words="w" * 402)))
    assert reply.usage.prompt_tokens == 101
    assert reply.usage.completion_tokens == -(-len(reply.message.content) // 4)
    assert reply.usage.requests == 1
    assert "estimated" in reply.model


@pytest.mark.parametrize("role", ["author", "teacher"])
def test_an_unknown_theme_is_refused_in_words(role: str) -> None:
    with pytest.raises(LLMError) as caught:
        said(call("plan_state", "space-elevator", role))
    assert caught.value.reason == "refused"
    assert "space-elevator" in str(caught.value)
    assert "bike-share" in str(caught.value)
    assert "live model" in str(caught.value)


@pytest.mark.parametrize(
    ("stage", "item", "role", "sample"),
    [
        ("initial_state", "bike-share/scenario-7", "author", 0),
        ("instruction", "bike-share/scenario-0/task-9", "author", 0),
        ("checklist", "bike-share", "author", 0),
        ("code_method", "bike-share", "author", 99),
        ("check_function", "bike-share/scenario-0/task-0", "author", 99),
        ("no_such_stage", "bike-share", "author", 0),
        ("plan_state", "bike-share", "no_such_role", 0),
    ],
)
def test_what_is_not_written_is_refused(stage: str, item: str, role: str, sample: int) -> None:
    with pytest.raises(LLMError) as caught:
        said(call(stage, item, role, sample))
    assert caught.value.reason == "refused"


@pytest.mark.parametrize("key", list_theme_keys())
def test_a_theme_is_found_again_in_the_task_it_was_inferred_from(key: str, sandbox: Sandbox) -> None:
    theme = next(one for one in list_bundled_themes() if one.key == key)
    with kit_of(sandbox, key) as kit:
        found = asyncio.run(discover_theme(kit, theme.origin_text, key))
    assert (found.name, found.category) == (theme.name, theme.category)


def test_another_task_gets_no_theme(sandbox: Sandbox) -> None:
    with kit_of(sandbox, "task-17") as kit, pytest.raises((LLMError, Rejected)):
        asyncio.run(discover_theme(kit, "Write me a poem about the sea.", "task-17"))


def test_replies_are_json_or_code() -> None:
    assert json.loads(said(call("plan_state")))["rules"]
    assert "class BikeShare" in read_code(said(call("code_attributes")))

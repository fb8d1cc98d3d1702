"""What consecutive prompts of a stage have in common stands at their beginning, where a server's prefix cache helps."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise, takewhile
from pathlib import Path

import pytest

from synthesis.assessment.dual_agent import assess_program
from synthesis.llm.calls import StageCall
from synthesis.prompts import FORM_PLACE, HERE, SEPARATOR, fence_text, get_prompt, insert_form
from synthesis.runtime import Sandbox
from synthesis.skeleton.code import write_code
from tests.assessment.support import assembled, bench
from tests.skeleton.support import ATTRIBUTES, Author, kit, planned

ENVIRONMENT = {"about", "plan", "attributes", "schema", "program", "source", "tools", "modules", "rules", "guideline"}
ENVIRONMENT |= {"what", "verdicts", "reasons", "places", "most", "least", "guards", "theme", "class_name"}
"""Variables that are the same in every call of a stage for one environment, or one kind of subject."""
ITEM = {"assessment/check_call": {"source"}}
"""By prompt, variables that there belong to one item after all."""
CALL = {"asked", "call", "cases", "item", "problem", "problems", "faults", "whose", "operation", "object", "around"}
CALL |= {"answer"}
"""Variables that belong to one call alone."""
WITH_FORM = sorted(path for path in HERE.glob("*/*.md") if SEPARATOR in path.read_text(encoding="utf-8"))


def common(one: str, other: str) -> str:
    pairs = zip(one, other, strict=False)
    return "".join(left for left, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def words(calls: Sequence[StageCall]) -> list[str]:
    return [call.messages[0].content for call in calls if len(call.messages) == 1]


@pytest.mark.parametrize("path", WITH_FORM, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_what_is_fixed_comes_first_and_what_belongs_to_one_call_last(path: Path) -> None:
    template = get_prompt(path.parent.name, path.stem)
    fixed, _, varying = template.text.partition(SEPARATOR)
    assert "{{" not in fixed
    places = {name: varying.index("{{" + name + "}}") for name in template.variables}
    shared = ENVIRONMENT - ITEM.get(template.name, set())
    ranks = [(name in CALL) - (name in shared) for name in sorted(places, key=lambda name: places[name])]
    assert ranks == sorted(ranks), "environment, then item, then call"


def test_every_stage_that_asks_in_a_form_has_a_place_for_it() -> None:
    stages = {f"{path.parent.name}/{path.stem}" for path in WITH_FORM}
    assert len(stages) >= 22
    assert {"assessment/test_call", "tasks/check", "skeleton/code_method", "themes/same_theme"} <= stages


def test_no_value_can_bring_a_place_for_the_form() -> None:
    hostile = f"A theme.{FORM_PLACE}\n\n---\n\nmore"
    asked = insert_form(get_prompt("skeleton", "plan_state").render(theme=fence_text("theme", hostile)), "THE FORM")
    assert asked.index("THE FORM") < asked.index("=== theme")
    assert asked.count(FORM_PLACE) == 0
    assert asked.endswith(get_prompt("reply", "now").render())
    assert insert_form("A question of one's own.", "THE FORM") == "A question of one's own.\n\nTHE FORM"


def test_rounds_of_an_assessment_share_instructions_and_environment(sandbox: Sandbox) -> None:
    made = bench(sandbox, ThreadPoolExecutor(2))
    asyncio.run(assess_program(made.kit, assembled()))
    for calls, wanted in ((made.tester.seen, "Names are unique."), (made.checker.seen, "Names are unique.")):
        for one, other in pairwise(words(calls)):
            shared = common(one, other)
            assert wanted in shared
            assert "in a fenced block" in shared
    of_one_tool = sorted(words(made.checker.seen), key=lambda text: text.split("=== tool")[1])
    for one, other in pairwise(text for text in of_one_tool if "def remove_item" in text):
        assert "def remove_item" in common(one, other), "calls of one tool share its source"


def test_methods_of_one_class_share_all_but_their_operation() -> None:
    author = Author()
    asyncio.run(write_code(kit(author), planned()))
    asked = [author.heard(f"code_method {number}")[0] for number in range(3)]
    for one, other in pairwise(asked):
        shared = common(one, other)
        assert ATTRIBUTES in shared
        assert len(shared) / max(len(one), len(other)) > 0.9

"""A tester that picks its own call: it sees all tools and the state, and what it replies is held to the tools."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from synthesis.assessment.dual_agent import assess_program
from synthesis.drafts import AssessmentDraft
from synthesis.errors import MalformedReply, Rejected
from synthesis.llm.calls import StageCall
from synthesis.runtime import Sandbox, apply_patch
from tests.assessment import support
from tests.assessment.support import SOURCE, Bench, assembled, bench, fences


def free(sandbox: Sandbox, threads: ThreadPoolExecutor, **changes: Any) -> Bench:
    made = bench(sandbox, threads, sequential=False, assessment_calls=24, **changes)
    made.kit = replace(made.kit, settings=made.kit.settings.model_copy(update={"tester": "free"}))
    return made


BROKEN = SOURCE.replace('if key not in self.items:\n            return {"success": False, "error": "unknown key"}', "")
BROKEN = BROKEN.replace("del self.items[key]", "self.items.pop(key, None); self.log.append(key)")


def choose(call: StageCall) -> dict[str, Any]:
    """Mostly one tool, as a tester left to itself does."""
    told = fences(call)
    tool = "count_items" if call.site.sample % 4 == 3 else "remove_item"
    state = json.loads(told["state"])
    good = call.site.sample % 2 == 0
    if tool == "count_items":
        return {"tool": tool, "case": "Negative", "arguments": {"needless": True}}
    key = next(name for name in state["items"] if name != "(fields)") if good else "nobody"
    return {"tool": tool, "case": "positive" if good else "negative", "arguments": {"key": key}, "expectation": "so"}


def play(call: StageCall) -> Any:
    return choose(call) if call.site.stage == "choose_call" else support.tester(call)


def go(made: Bench, mend: bool = False, **changes: Any) -> AssessmentDraft:
    return asyncio.run(assess_program(made.kit, assembled(**changes), mend=mend))


def test_the_tester_chooses_tool_case_and_arguments(sandbox: Sandbox, threads: ThreadPoolExecutor) -> None:
    made = free(sandbox, threads, tester=play)
    draft = go(made)
    assert draft.kept
    assert Counter(case.tool for case in draft.cases) == {"remove_item": 18, "count_items": 6}
    assert [rate.positive + rate.negative for rate in draft.rates] == [0, 6, 18], "no plan spreads its calls"
    assert set(draft.prompts) == {"assessment/test_state", "assessment/choose_call", "assessment/check_call"}
    for number, call in enumerate(made.tester.seen):
        assert (call.site.stage, call.site.sample) == ("choose_call", number)
        told = fences(call)
        assert [tool["name"] for tool in json.loads(told["tools"])] == ["add_item", "count_items", "remove_item"]
        assert set(told) == {"tools", "state", "asked"}, "Eq. 5: the tools and the state, and neither rules nor a case"
        assert told["asked"] == f"Round {number + 1} of 24"
        assert "def " not in call.messages[0].content
    for before, after in zip(draft.cases, draft.cases[6:], strict=False):
        assert apply_patch(before.state, list(before.patch)) == after.state, "S_j goes on to S_j+1"
    again = free(sandbox, threads, tester=play, store=made.store)
    assert go(again) == draft
    assert not again.tester.seen


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"tool": "burn_item", "case": "positive", "arguments": {}}, "there is no tool 'burn_item'; take one of add_"),
        ({"tool": "add_item", "case": "sideways", "arguments": {}}, "case"),
        ({"case": "positive", "arguments": {}}, "tool"),
        ({"tool": "add_item", "case": "positive", "arguments": [1]}, "arguments"),
        ({"tool": "add_item", "case": "positive", "arguments": {"name": "x" * 20_000}}, "at most 8,000"),
    ],
)
def test_a_reply_that_is_no_call_is_asked_for_again_and_never_stored(
    sandbox: Sandbox, threads: ThreadPoolExecutor, wrong: Any, said: str
) -> None:
    def once(call: StageCall) -> Any:
        return wrong if call.site.sample == 2 and len(call.messages) == 1 else play(call)

    made = free(sandbox, threads, tester=once)
    draft = go(made)
    assert (len(draft.cases), draft.lost) == (24, 0)
    asked = [call for call in made.tester.seen if call.site.sample == 2]
    assert len(asked) == 2
    assert said in asked[1].messages[-1].content
    with pytest.raises(MalformedReply, match="tester gave no usable reply"):
        go(free(sandbox, threads, tester=lambda call: wrong))


def test_a_broken_tool_is_found_and_a_repair_is_tried_on_calls_of_its_own(
    sandbox: Sandbox, threads: ThreadPoolExecutor
) -> None:
    with pytest.raises(Rejected) as caught:
        go(free(sandbox, threads, tester=play), source=BROKEN)
    assert caught.value.reason == "assessment_below_threshold"

    def author(call: StageCall) -> Any:
        if call.site.stage != "repair_tool":
            return support.author(call)
        lines = SOURCE.split("    def remove_item")[1].splitlines()
        return "```python\n" + "\n".join(["def remove_item" + lines[0], *(line[4:] for line in lines[1:])]) + "\n```"

    made = free(sandbox, threads, tester=play, author=author)
    draft = go(made, mend=True, source=BROKEN)
    assert [(repair.tool, repair.outcome) for repair in draft.repairs] == [("remove_item", "repaired")]
    stages = Counter(call.site.stage for call in made.tester.seen)
    assert stages == {"choose_call": 24, "test_call": 2}, "the mended tool is tried both ways"
    assert set(draft.prompts) >= {"assessment/choose_call", "assessment/test_call"}

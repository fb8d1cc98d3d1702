"""Tools that fail their assessment: mended by the author, cleared by a second look, taken out, or the end of it all."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from synthesis.assessment.cases import rerun_case
from synthesis.assessment.dual_agent import assess_program
from synthesis.assessment.environments import build_view
from synthesis.drafts import AssessmentDraft
from synthesis.errors import Rejected
from synthesis.llm.calls import StageCall
from synthesis.runtime import Sandbox, outline_program
from synthesis.runtime.method_source import get_method_source
from tests.assessment import support
from tests.assessment.support import SOURCE, Bench, assembled, bench, fences

GUARD = """if key not in self.items:
            return {"success": False, "error": "unknown key"}
        del self.items[key]"""
BROKEN = SOURCE.replace(GUARD, "self.items.pop(key, None)\n        self.log.append(key)")
RIGHT = get_method_source(SOURCE, "StockRoom", "remove_item").text
WRONG = get_method_source(BROKEN, "StockRoom", "remove_item").text


def author(reply: str | Callable[[StageCall], str]) -> Callable[[StageCall], Any]:
    """One who writes states as ever, and this when a tool is to be mended."""

    def play(call: StageCall) -> Any:
        if call.site.stage != "repair_tool":
            return support.author(call)
        return f"```python\n{reply if isinstance(reply, str) else reply(call)}\n```"

    return play


def go(made: Bench, source: str = BROKEN) -> AssessmentDraft:
    return asyncio.run(assess_program(made.kit, assembled(source=source), mend=True))


def repairs(made: Bench) -> list[StageCall]:
    return [call for call in made.author.seen if call.site.stage == "repair_tool"]


def test_a_tool_is_mended_and_tried_again(sandbox: Sandbox, threads: ThreadPoolExecutor) -> None:
    made = bench(sandbox, threads, author=author(RIGHT))
    draft = go(made)
    (repair,) = draft.repairs
    assert (repair.tool, repair.outcome, repair.tries) == ("remove_item", "repaired", 1)
    assert repair.before.failed > 0
    assert repair.after is not None
    assert (repair.after.failed, draft.kept, draft.score) == (0, True, 1.0)
    assert draft.first_score is not None
    assert draft.first_score < 1.0
    assert "remove_item was repaired after 1 round of repair" in draft.notes[0]
    assert draft.program is not None
    assert draft.program.record.source == SOURCE
    assert "unknown key" in draft.program.record.raw["env_class_code"]
    assert "self.items.pop(key, None)" in repair.source_before
    assert "self.items.pop(key, None)" not in repair.source
    assert len(repair.failed_before) == repair.before.failed
    assert all(call.reason and "key" in call.arguments for call in repair.failed_before)
    told = fences(repairs(made)[0])
    assert "remove_item" in told["tool"]
    assert "Nothing may change." in told["cases"]
    program = build_view(draft.program.record).program
    assert all(rerun_case(sandbox, program, case).same for case in draft.cases), "cases are of the program that is kept"
    asked = [json.loads(fences(call)["call"])["tool"] for call in made.checker.seen if call.site.sample >= 10_000]
    assert set(asked) == {"remove_item"}, "what came out as before is not asked about again"


def test_a_tool_that_stays_broken_is_taken_out(sandbox: Sandbox, threads: ThreadPoolExecutor) -> None:
    made = bench(sandbox, threads, author=author(WRONG), least_tools=2)
    draft = go(made)
    (repair,) = draft.repairs
    assert (repair.outcome, repair.tries, repair.after, repair.source) == ("removed", 2, None, "")
    assert len(repairs(made)) == 2
    assert draft.kept
    assert draft.program is not None
    record = draft.program.record
    assert [tool.name for tool in record.tools] == [rate.tool for rate in draft.rates] == ["add_item", "count_items"]
    assert [method.name for method in outline_program(record.source, "StockRoom").methods] == [
        "add_item",
        "count_items",
    ]
    assert {case.tool for case in draft.cases} == {"add_item", "count_items"}


@pytest.mark.parametrize(
    ("threshold", "reason"), [(0.85, "assessment_below_threshold"), (0.5, "tools_fail")], ids=["score", "tools"]
)
def test_without_room_to_take_it_out_the_environment_is_rejected(
    sandbox: Sandbox, threads: ThreadPoolExecutor, threshold: float, reason: str
) -> None:
    made = bench(sandbox, threads, author=author("I am at a loss."), assessment_threshold=threshold)
    with pytest.raises(Rejected) as caught:
        go(made)
    assert caught.value.reason == reason
    draft = AssessmentDraft.model_validate(caught.value.evidence)
    assert (draft.kept, draft.repairs[0].outcome) == (False, "broken")


def test_a_tool_that_another_uses_stays(sandbox: Sandbox, threads: ThreadPoolExecutor) -> None:
    counting = 'return {"success": True, "count": len(self.items)}'
    source = BROKEN.replace(counting, "return self.remove_item('k0') | {'count': 1}")
    with pytest.raises(Rejected):
        go(bench(sandbox, threads, author=author(WRONG), least_tools=1), source=source)


def test_a_checker_may_take_a_fail_back(sandbox: Sandbox, threads: ThreadPoolExecutor) -> None:
    """The author finds nothing wrong, and the same call is judged a second time."""

    def checker(call: StageCall) -> Any:
        return {"verdict": "fail", "reason": "Odd."} if call.site.sample == 2 else support.checker(call)

    made = bench(sandbox, threads, author=author(lambda call: fences(call)["tool"]), checker=checker)
    draft = go(made, source=SOURCE)
    (repair,) = draft.repairs
    assert (repair.outcome, repair.before.failed, draft.score) == ("cleared", 1, 1.0)
    assert draft.program is None, "nothing was changed"


@pytest.mark.parametrize(
    "reply",
    [
        RIGHT.replace("key: str", "key: str, more: int"),
        RIGHT.replace("Remove an item by its key.", "Remove anything."),
        RIGHT.replace("def remove_item", "def other"),
    ],
    ids=["parameters", "docstring", "name"],
)
def test_a_repair_changes_what_a_tool_does_and_not_what_it_promises(
    sandbox: Sandbox, threads: ThreadPoolExecutor, reply: str
) -> None:
    made = bench(sandbox, threads, author=author(reply), least_tools=2, tool_repairs=1)
    assert go(made).repairs[0].outcome == "removed"
    assert len(repairs(made)) == 3


def test_where_most_tools_fail_nobody_mends(sandbox: Sandbox, threads: ThreadPoolExecutor) -> None:
    made = bench(sandbox, threads, author=author(RIGHT), checker=lambda call: {"verdict": "fail", "reason": "No."})
    with pytest.raises(Rejected) as caught:
        go(made)
    assert caught.value.reason == "assessment_below_threshold"
    assert repairs(made) == []


IMPORTING = """import copy; import math
from datetime import (
    timedelta,
)


def remove_item(self, key: str) -> dict:
    \"\"\"Remove an item by its key.\"\"\"
    if key not in self.items:
        return {"success": False, "error": "unknown key"}
    gone = copy.deepcopy(self.items.pop(key))
    days = timedelta(hours=math.ceil(gone["count"] + 0.5)).total_seconds()
    return {"success": True, "seconds": days}"""


def test_imports_of_a_repair_are_at_hand_where_the_method_runs(sandbox: Sandbox, threads: ThreadPoolExecutor) -> None:
    made = bench(sandbox, threads, author=author(IMPORTING))
    draft = go(made, source=BROKEN.replace("import uuid\n", "import uuid\nimport copy as math\n", 1))
    assert draft.repairs[0].outcome == "repaired"
    assert draft.program is not None
    source = draft.program.record.source
    head, _, rest = source.partition("class StockRoom")
    assert head.strip().splitlines() == [
        "import uuid",
        "import copy as math",
        "import copy",
        "from datetime import timedelta",
    ]
    assert "\n        import math\n" in rest, "the name means something else in the module"
    program = build_view(draft.program.record).program
    with sandbox.reset(program, support.STATE) as episode:
        assert episode.call("remove_item", {"key": "k2"}).result == {"success": True, "seconds": 10800.0}


def test_an_author_sees_what_the_tool_uses_and_no_more(sandbox: Sandbox, threads: ThreadPoolExecutor) -> None:
    source = BROKEN.replace("import uuid\n", 'import uuid\n\nWORD = "unknown"\nUNUSED = "not needed"\n', 1)
    source = source.replace("self.items.pop(key, None)", "self._take(key)")
    source += "\n    def _take(self, key):\n        return self.items.pop(key, WORD)\n"
    made = bench(sandbox, threads, author=author(RIGHT))
    go(made, source=source)
    told = fences(repairs(made)[0])
    assert "def _take" in told["uses"]
    assert 'WORD = "unknown"' in told["uses"]
    assert "def __init__" in told["uses"]
    assert "Item (name, count)" in told["schema"]
    words = repairs(made)[0].messages[0].content
    assert "def add_item" not in words
    assert "UNUSED" not in words


@pytest.mark.parametrize("more", ["MOST = 3\n\n\n", "from math import *\n\n\n"], ids=["constant", "star"])
def test_a_repair_brings_nothing_but_imports(sandbox: Sandbox, threads: ThreadPoolExecutor, more: str) -> None:
    made = bench(sandbox, threads, author=author(more + RIGHT), least_tools=2, tool_repairs=1)
    assert go(made).repairs[0].outcome == "removed"
    assert len(repairs(made)) == 3

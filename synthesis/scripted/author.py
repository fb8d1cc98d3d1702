"""What the author of a theme replies at each stage, out of the theme's files."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from synthesis.llm.calls import StageCall
from synthesis.prompts import prompt
from synthesis.scripted import blueprint_author
from synthesis.scripted.fragments import WrittenCheck
from synthesis.scripted.library import MissingReply, ThemeFiles, WrittenProgram
from synthesis.scripted.programs.prompt_reader import unrendered

_TASK = re.compile(r"scenario-(\d+)/task-(\d+)")


def reply(shelf: ThemeFiles, call: StageCall) -> str:
    """The author's reply. Raises MissingReply."""
    stage = call.site.stage
    if stage not in STAGES:
        raise MissingReply(f"nothing is written for the stage {stage!r} of the theme {shelf.key!r}")
    return STAGES[stage](shelf, call)


def below(item: str) -> str:
    """The part of an item's path below its theme (`scenario-0/task-1`)."""
    return item.partition("/")[2]


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1)


def _code(source: str) -> str:
    return f"```python\n{source}```"


def _judged(shelf: ThemeFiles, call: StageCall) -> str:
    judged = shelf.theme["judged"]
    return _json({"reasoning": judged["analysis"], "stateful": True, "domain_specific": True})


def _inferred(shelf: ThemeFiles, call: StageCall) -> str:
    judged, about = shelf.theme["judged"], shelf.theme
    scores = {name: judged[name] for name in ("usefulness", "modelability")}
    words = {name: about[name] for name in ("name", "description", "category")}
    return _json({"reasoning": judged["analysis"], **words, **scores})


def _inverted(shelf: ThemeFiles, call: StageCall) -> str:
    words = {name: shelf.theme[name] for name in ("name", "description", "category")}
    return _json({"reasoning": shelf.theme["judged"]["analysis"], **words})


def _state_plan(shelf: ThemeFiles, call: StageCall) -> str:
    parts = {name: shelf.plan[name] for name in ("introduction", "entities", "rules", "time") if name in shelf.plan}
    return _json({"name": shelf.theme["name"], "category": shelf.theme["category"], **parts})


def _operations(shelf: ThemeFiles, call: StageCall) -> str:
    asked = [operation for operation in shelf.plan["operations"] if not operation.get("added")]
    told_by = shelf.plan.get("time_told_by", "")
    known = told_by in [operation["name"] for operation in asked]
    return _json({"operations": asked, "time_told_by": told_by if known else ""})


def _documented(shelf: ThemeFiles, call: StageCall) -> str:
    """The kinds and rules of the tools that the theme's documents name."""
    wanted = ("name", "kind", "rules")
    named = [{name: tool[name] for name in wanted if name in tool} for tool in shelf.plan["operations"]]
    return _json({"tools": named, "time_told_by": shelf.plan.get("time_told_by", "")})


def _coverage(shelf: ThemeFiles, call: StageCall) -> str:
    """What the first list of operations left out."""
    added = [operation for operation in shelf.plan["operations"] if operation.get("added")]
    return _json({"operations": added, "time_told_by": shelf.plan.get("time_told_by", "")})


def _method(shelf: ThemeFiles, call: StageCall) -> str:
    operations, index = shelf.plan["operations"], call.site.sample
    if index >= len(operations):
        raise MissingReply(
            f"the theme {shelf.key!r} has {len(operations)} operations, and number {index + 1} was asked for"
        )
    return _code(shelf.fragments.methods[operations[index]["name"]])


def _test_state(shelf: ThemeFiles, call: StageCall) -> str:
    states = list(shelf.states.values())
    return _json({"state": states[call.site.sample % len(states)]["state"]})


def _initial_state(shelf: ThemeFiles, call: StageCall) -> str:
    return _json(_of(shelf.states, below(call.site.item), shelf.key))


def _instruction(shelf: ThemeFiles, call: StageCall) -> str:
    return _json(_of(shelf.tasks, below(call.site.item), shelf.key))


def _checklist(shelf: ThemeFiles, call: StageCall) -> str:
    return _json({"items": [check.item for check in _checks(shelf, call)]})


def _check(shelf: ThemeFiles, call: StageCall) -> str:
    checks = _checks(shelf, call)
    if call.site.sample >= len(checks):
        raise MissingReply(
            f"{call.site.item} has {len(checks)} checks, and number {call.site.sample + 1} was asked for"
        )
    return _code(checks[call.site.sample].source)


def _repaired_task(shelf: ThemeFiles, call: StageCall) -> str:
    return _code("\n\n".join(f"# Condition: {check.item}\n{check.source}" for check in _checks(shelf, call)))


def _repaired(shelf: ThemeFiles, call: StageCall) -> str:
    methods = [shelf.fragments.methods[operation["name"]] for operation in shelf.plan["operations"]]
    inner = ["".join(f"    {line}" if line.strip() else line for line in m.splitlines(keepends=True)) for m in methods]
    return _code("\n".join([shelf.fragments.attributes, *inner]))


def _repaired_tool(shelf: ThemeFiles, call: StageCall) -> str:
    asked = unrendered(prompt("assessment", "repair_tool"), call.messages[0].content) or {}
    return _code(_of(shelf.fragments.methods, asked.get("tool_name", ""), shelf.key))


def _checks(shelf: ThemeFiles, call: StageCall) -> list[WrittenCheck]:
    place = _TASK.match(below(call.site.item))
    name = f"Scenario{place[1]}Task{place[2]}" if place else ""
    return _of(shelf.checks, name, shelf.key)


def _of(written: dict[str, Any], name: str, theme: str) -> Any:
    if name not in written:
        raise MissingReply(
            f"the theme {theme!r} holds {', '.join(sorted(written))}, and {name or 'nothing'} was asked for"
        )
    return written[name]


def _program(shelf: ThemeFiles, call: StageCall) -> WrittenProgram:
    return _of(shelf.programs, below(call.site.item), shelf.key)


STAGES: dict[str, Callable[[ThemeFiles, StageCall], str]] = {
    "judge_task": _judged,
    "infer_theme": _inferred,
    "invert_tools": _inverted,
    "plan_state": _state_plan,
    "plan_operations": _operations,
    "plan_documented": _documented,
    "plan_coverage": _coverage,
    "code_attributes": lambda shelf, call: _code(shelf.fragments.attributes),
    "code_method": _method,
    "repair": _repaired,
    "repair_tool": _repaired_tool,
    "test_state": _test_state,
    "initial_state": _initial_state,
    "instruction": _instruction,
    "checklist": _checklist,
    "check_function": _check,
    "repair_task": _repaired_task,
    "query": lambda shelf, call: _json(_program(shelf, call).query),
    "solution": lambda shelf, call: _code(_program(shelf, call).solution),
    "verification": lambda shelf, call: _code(_program(shelf, call).verification),
    **blueprint_author.STAGES,
}

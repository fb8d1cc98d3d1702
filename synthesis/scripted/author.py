"""Replies of the author of a theme at each stage, from the theme's files."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from synthesis.llm.calls import StageCall
from synthesis.prompts import get_prompt
from synthesis.scripted import blueprint_author, walk_author
from synthesis.scripted.errors import MissingReply
from synthesis.scripted.fragments import WrittenCheck
from synthesis.scripted.library import ThemeFiles, WrittenProgram
from synthesis.scripted.programs.prompt_reader import parse_rendered

_TASK = re.compile(r"scenario-(\d+)/task-(\d+)")


def write_reply(shelf: ThemeFiles, call: StageCall) -> str:
    """Return the author's reply. Raise MissingReply if there is none."""
    stage = call.site.stage
    if stage not in STAGES:
        raise MissingReply(f"nothing is written for the stage {stage!r} of the theme {shelf.key!r}")
    return STAGES[stage](shelf, call)


def get_item_path(item: str) -> str:
    """Return the part of an item's path below its theme (`scenario-0/task-1`)."""
    return item.partition("/")[2]


def _dump_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1)


def _format_code(source: str) -> str:
    return f"```python\n{source}```"


def _judge_task(shelf: ThemeFiles, call: StageCall) -> str:
    judged = shelf.theme["judged"]
    return _dump_json({"reasoning": judged["analysis"], "stateful": True, "domain_specific": True})


def _infer_theme(shelf: ThemeFiles, call: StageCall) -> str:
    judged, about = shelf.theme["judged"], shelf.theme
    scores = {name: judged[name] for name in ("usefulness", "modelability")}
    words = {name: about[name] for name in ("name", "description", "category")}
    return _dump_json({"reasoning": judged["analysis"], **words, **scores})


def _invert_tools(shelf: ThemeFiles, call: StageCall) -> str:
    words = {name: shelf.theme[name] for name in ("name", "description", "category")}
    return _dump_json({"reasoning": shelf.theme["judged"]["analysis"], **words})


def _plan_state(shelf: ThemeFiles, call: StageCall) -> str:
    parts = {name: shelf.plan[name] for name in ("introduction", "entities", "rules", "time") if name in shelf.plan}
    return _dump_json({"name": shelf.theme["name"], "category": shelf.theme["category"], **parts})


def _plan_operations(shelf: ThemeFiles, call: StageCall) -> str:
    first_operations = [operation for operation in shelf.plan["operations"] if not operation.get("added")]
    told_by = shelf.plan.get("time_told_by", "")
    is_listed = told_by in [operation["name"] for operation in first_operations]
    return _dump_json({"operations": first_operations, "time_told_by": told_by if is_listed else ""})


def _plan_documented(shelf: ThemeFiles, call: StageCall) -> str:
    """Return the kinds and rules of the tools that the theme's documents name."""
    reply_fields = ("name", "kind", "rules")
    tool_replies = [{name: tool[name] for name in reply_fields if name in tool} for tool in shelf.plan["operations"]]
    return _dump_json({"tools": tool_replies, "time_told_by": shelf.plan.get("time_told_by", "")})


def _plan_coverage(shelf: ThemeFiles, call: StageCall) -> str:
    """Return the operations that the first list omitted."""
    added = [operation for operation in shelf.plan["operations"] if operation.get("added")]
    return _dump_json({"operations": added, "time_told_by": shelf.plan.get("time_told_by", "")})


def _write_method(shelf: ThemeFiles, call: StageCall) -> str:
    operations, index = shelf.plan["operations"], call.site.sample
    if index >= len(operations):
        raise MissingReply(
            f"the theme {shelf.key!r} has {len(operations)} operations, and number {index + 1} was asked for"
        )
    return _format_code(shelf.fragments.methods[operations[index]["name"]])


def _write_test_state(shelf: ThemeFiles, call: StageCall) -> str:
    states = list(shelf.states.values())
    return _dump_json({"state": states[call.site.sample % len(states)]["state"]})


def _write_initial_state(shelf: ThemeFiles, call: StageCall) -> str:
    return _dump_json(_get_written(shelf.states, get_item_path(call.site.item), shelf.key))


def _write_instruction(shelf: ThemeFiles, call: StageCall) -> str:
    return _dump_json(_get_written(shelf.tasks, get_item_path(call.site.item), shelf.key))


def _write_checklist(shelf: ThemeFiles, call: StageCall) -> str:
    return _dump_json({"items": [check.item for check in _get_checks(shelf, call)]})


def _write_check(shelf: ThemeFiles, call: StageCall) -> str:
    checks = _get_checks(shelf, call)
    if call.site.sample >= len(checks):
        raise MissingReply(
            f"{call.site.item} has {len(checks)} checks, and number {call.site.sample + 1} was asked for"
        )
    return _format_code(checks[call.site.sample].source)


def _repair_task(shelf: ThemeFiles, call: StageCall) -> str:
    return _format_code("\n\n".join(f"# Condition: {check.item}\n{check.source}" for check in _get_checks(shelf, call)))


def _repair_program(shelf: ThemeFiles, call: StageCall) -> str:
    methods = [shelf.fragments.methods[operation["name"]] for operation in shelf.plan["operations"]]
    inner = ["".join(f"    {line}" if line.strip() else line for line in m.splitlines(keepends=True)) for m in methods]
    return _format_code("\n".join([shelf.fragments.attributes, *inner]))


def _repair_tool(shelf: ThemeFiles, call: StageCall) -> str:
    prompt_values = parse_rendered(get_prompt("assessment", "repair_tool"), call.messages[0].content) or {}
    return _format_code(_get_written(shelf.fragments.methods, prompt_values.get("tool_name", ""), shelf.key))


def _get_checks(shelf: ThemeFiles, call: StageCall) -> list[WrittenCheck]:
    place = _TASK.match(get_item_path(call.site.item))
    name = f"Scenario{place[1]}Task{place[2]}" if place else ""
    return _get_written(shelf.checks, name, shelf.key)


def _get_written(written: dict[str, Any], name: str, theme: str) -> Any:
    if name not in written:
        raise MissingReply(
            f"the theme {theme!r} holds {', '.join(sorted(written))}, and {name or 'nothing'} was asked for"
        )
    return written[name]


def _get_program(shelf: ThemeFiles, call: StageCall) -> WrittenProgram:
    return _get_written(shelf.programs, get_item_path(call.site.item), shelf.key)


STAGES: dict[str, Callable[[ThemeFiles, StageCall], str]] = {
    "judge_task": _judge_task,
    "infer_theme": _infer_theme,
    "invert_tools": _invert_tools,
    "plan_state": _plan_state,
    "plan_operations": _plan_operations,
    "plan_documented": _plan_documented,
    "plan_coverage": _plan_coverage,
    "code_attributes": lambda shelf, call: _format_code(shelf.fragments.attributes),
    "code_method": _write_method,
    "repair": _repair_program,
    "repair_tool": _repair_tool,
    "test_state": _write_test_state,
    "initial_state": _write_initial_state,
    "instruction": _write_instruction,
    "checklist": _write_checklist,
    "check_function": _write_check,
    "repair_task": _repair_task,
    "query": lambda shelf, call: _dump_json(_get_program(shelf, call).query),
    "solution": lambda shelf, call: _format_code(_get_program(shelf, call).solution),
    "verification": lambda shelf, call: _format_code(_get_program(shelf, call).verification),
    **blueprint_author.STAGES,
    **walk_author.STAGES,
}

"""What the author of a theme replies at each stage, out of the theme's files."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from synthesis.llm.calls import StageCall
from synthesis.scripted.fragments import WrittenCheck
from synthesis.scripted.library import Shelf, Wanting

_TASK = re.compile(r"scenario-(\d+)/task-(\d+)")


def reply(one: Shelf, call: StageCall) -> str:
    """The author's reply. Raises Wanting."""
    stage = call.site.stage
    if stage not in STAGES:
        raise Wanting(f"nothing is written for the stage {stage!r} of the theme {one.key!r}")
    return STAGES[stage](one, call)


def below(item: str) -> str:
    """The part of an item's path below its theme (`scenario-0/task-1`)."""
    return item.partition("/")[2]


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1)


def _code(source: str) -> str:
    return f"```python\n{source}```"


def _judged(one: Shelf, call: StageCall) -> str:
    said = one.theme["judged"]
    return _json({"reasoning": said["analysis"], "stateful": True, "domain_specific": True})


def _inferred(one: Shelf, call: StageCall) -> str:
    said, about = one.theme["judged"], one.theme
    scores = {name: said[name] for name in ("usefulness", "modelability")}
    words = {name: about[name] for name in ("name", "description", "category")}
    return _json({"reasoning": said["analysis"], **words, **scores})


def _state_plan(one: Shelf, call: StageCall) -> str:
    parts = {name: one.plan[name] for name in ("introduction", "entities", "rules")}
    return _json({"name": one.theme["name"], "category": one.theme["category"], **parts})


def _operations(one: Shelf, call: StageCall) -> str:
    return _json({"operations": one.plan["operations"]})


def _method(one: Shelf, call: StageCall) -> str:
    operations, index = one.plan["operations"], call.site.sample
    if index >= len(operations):
        raise Wanting(f"the theme {one.key!r} has {len(operations)} operations, and number {index + 1} was asked for")
    return _code(one.fragments.methods[operations[index]["name"]])


def _test_state(one: Shelf, call: StageCall) -> str:
    states = list(one.states.values())
    return _json({"state": states[call.site.sample % len(states)]["state"]})


def _initial_state(one: Shelf, call: StageCall) -> str:
    return _json(_of(one.states, below(call.site.item), one.key))


def _instruction(one: Shelf, call: StageCall) -> str:
    return _json(_of(one.tasks, below(call.site.item), one.key))


def _checklist(one: Shelf, call: StageCall) -> str:
    return _json({"items": [check.item for check in _checks(one, call)]})


def _check(one: Shelf, call: StageCall) -> str:
    checks = _checks(one, call)
    if call.site.sample >= len(checks):
        raise Wanting(f"{call.site.item} has {len(checks)} checks, and number {call.site.sample + 1} was asked for")
    return _code(checks[call.site.sample].source)


def _repaired_task(one: Shelf, call: StageCall) -> str:
    return _json({"checks": [{"item": check.item, "source": check.source} for check in _checks(one, call)]})


def _repaired(one: Shelf, call: StageCall) -> str:
    methods = [one.fragments.methods[operation["name"]] for operation in one.plan["operations"]]
    inner = ["".join(f"    {line}" if line.strip() else line for line in m.splitlines(keepends=True)) for m in methods]
    return _code("\n".join([one.fragments.attributes, *inner]))


def _checks(one: Shelf, call: StageCall) -> list[WrittenCheck]:
    place = _TASK.match(below(call.site.item))
    name = f"Scenario{place[1]}Task{place[2]}" if place else ""
    return _of(one.checks, name, one.key)


def _of(written: dict[str, Any], name: str, theme: str) -> Any:
    if name not in written:
        raise Wanting(f"the theme {theme!r} holds {', '.join(sorted(written))}, and {name or 'nothing'} was asked for")
    return written[name]


STAGES: dict[str, Callable[[Shelf, StageCall], str]] = {
    "judge_task": _judged,
    "infer_theme": _inferred,
    "plan_state": _state_plan,
    "plan_operations": _operations,
    "code_attributes": lambda one, call: _code(one.fragments.attributes),
    "code_method": _method,
    "repair": _repaired,
    "test_state": _test_state,
    "initial_state": _initial_state,
    "instruction": _instruction,
    "checklist": _checklist,
    "check_function": _check,
    "repair_task": _repaired_task,
}

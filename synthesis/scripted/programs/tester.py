"""Tester: one call from the tools, the rules and the state in its prompt.

In free mode it goes through the tools in shuffled laps, each tool both ways in a lap, by the round's number.

Positive calls take ids, words and amounts from the state; negative ones break one thing. Rules come first (an amount
that is not positive or far too large, a word of no list), then unknown ids, then types.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from typing import Any

from synthesis.llm.calls import StageCall
from synthesis.prompts import get_prompt
from synthesis.scripted.programs.prompt_reader import parse_json, parse_rendered

_QUOTED = re.compile(r'"([^"\s]{1,40})"')
_MOST = re.compile(r"at most (\d+)")
_AMOUNT = re.compile(r"\b(positive|at most)\b")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
NOWHERE = "X-404"
Schema = dict[str, Any]


def write_reply(call: StageCall) -> str:
    """Return the reply to `assessment/test_call` or `assessment/choose_call`."""
    if call.site.stage == "choose_call":
        return _choose_call(call)
    prompt_values = parse_rendered(get_prompt("assessment", "test_call"), call.messages[0].content) or {}
    planned_call = parse_json(prompt_values.get("asked", "")) or {}
    tool: dict[str, Any] = parse_json(prompt_values.get("tool", "")) or {}
    return json.dumps(
        _write_call(call, tool, str(planned_call.get("tool")), str(planned_call.get("case")), prompt_values)
    )


def _choose_call(call: StageCall) -> str:
    prompt_values = parse_rendered(get_prompt("assessment", "choose_call"), call.messages[0].content) or {}
    listed = parse_json(prompt_values.get("tools", ""))
    tools = [tool for tool in listed if isinstance(tool, dict)] if isinstance(listed, list) else []
    tool_cases = [(tool, case) for tool in tools for case in ("positive", "negative")]
    if not tool_cases:
        return json.dumps({"tool": "", "case": "positive", "arguments": {}})
    lap, place = divmod(call.site.sample, len(tool_cases))
    random.Random(f"{call.site.item}\0{lap}").shuffle(tool_cases)
    tool, case = tool_cases[place]
    chosen = {"tool": tool.get("name"), "case": case}
    return json.dumps(chosen | _write_call(call, tool, str(tool.get("name")), case, prompt_values))


def _write_call(call: StageCall, tool: dict[str, Any], name: str, case: str, shown: dict[str, str]) -> dict[str, Any]:
    rules = tool.get("parameters") or {}
    luck = random.Random(f"{call.site.item}\0{call.site.sample}")
    state_values = StateValues(parse_json(shown.get("state", "")))
    arguments = {
        parameter: draw_value(parameter, rule, state_values, luck) for parameter, rule in _iter_wanted(rules, luck)
    }
    if case == "negative":
        arguments, expectation = spoil_arguments(arguments, rules, luck)
    else:
        expectation = f"{name} succeeds with values that stand in the state."
    return {"arguments": arguments, "expectation": expectation}


def _iter_wanted(rules: Schema, luck: random.Random) -> Iterator[tuple[str, Schema]]:
    """Yield every argument that is required, and some of the others."""
    needed = rules.get("required") or ()
    for name, rule in (rules.get("properties") or {}).items():
        if name in needed or luck.random() < 0.4:
            yield name, rule


class StateValues:
    """Values of a state: the records of each collection by their ids, and every value by its name."""

    def __init__(self, state: Any) -> None:
        self.records: dict[str, dict[str, Any]] = {}
        self.named: dict[str, list[Any]] = {}
        for name, part in state.items() if isinstance(state, dict) else ():
            if isinstance(part, dict) and all(isinstance(record, dict) for record in part.values()):
                self.records[name] = {key: record for key, record in part.items() if key != "…"}
            self._gather(name, part)

    def _gather(self, name: str, part: Any) -> None:
        if isinstance(part, dict):
            for key, inner in part.items():
                self._gather(key, inner)
        elif isinstance(part, list):
            for inner in part:
                self._gather(name, inner)
        elif part is not None:
            values = self.named.setdefault(name, [])
            if part not in values:
                values.append(part)

    def keys(self, parameter: str, about: str) -> list[str]:
        """Return ids that an argument such as `bike_id` may take.

        They come from the collection `bikes`; if the description names a status that some of the records have (`it must
        be ready`), only from those.
        """
        stem = parameter.removesuffix("_id")
        records = next((collection for name, collection in self.records.items() if name.startswith(stem[:4])), {})
        return [key for key, record in records.items() if _mentions_status(about, record)] or list(records)


def _mentions_status(about: str, record: dict[str, Any]) -> bool:
    """Return whether the words contain one of the record's statuses."""
    return any(
        isinstance(status, str) and status.islower() and re.search(rf"\b{re.escape(status)}\b", about)
        for status in record.values()
    )


def draw_value(name: str, rule: Schema, seen: StateValues, luck: random.Random) -> Any:
    """Return a value for an argument as the state and the schema suggest it."""
    kind, about = _get_kind(rule), str(rule.get("description", ""))
    if kind == "boolean":
        return luck.random() < 0.5
    if kind in ("integer", "number"):
        most = _MOST.search(about)
        return luck.randint(1, min(int(most[1]) if most else 20, luck.choice((2, 20))))
    if kind == "array":
        return [draw_value(name.removesuffix("s"), rule.get("items") or {}, seen, luck)]
    if kind == "object":
        return {field: draw_value(field, inner, seen, luck) for field, inner in (rule.get("properties") or {}).items()}
    if name.endswith("_id") and (ids := seen.keys(name, about)):
        return luck.choice(ids)
    if _DATE.search(about) or "YYYY-MM-DD" in about:
        days = [
            day for values in seen.named.values() for day in values if isinstance(day, str) and _DATE.fullmatch(day)
        ]
        return luck.choice(days or ["2026-03-02"])
    words = _QUOTED.findall(about) or [word for word in seen.named.get(name, ()) if isinstance(word, str)]
    words = words or [word for word in seen.named.get("name", ()) if isinstance(word, str)]
    return luck.choice(words or ["a"])


def _get_kind(rule: Schema) -> str:
    listed = rule.get("type")
    for variant in rule.get("anyOf") or ():
        if variant.get("type") != "null":
            listed = listed or variant.get("type")
    if isinstance(listed, list):
        listed = next((kind for kind in listed if kind != "null"), "string")
    return str(listed or "string")


def spoil_arguments(arguments: dict[str, Any], rules: Schema, luck: random.Random) -> tuple[dict[str, Any], str]:
    """Return the arguments with one thing broken, and the expected outcome."""
    properties, needed = rules.get("properties") or {}, list(rules.get("required") or ())
    broken_arguments: list[tuple[dict[str, Any], str]] = []
    unknown: list[tuple[dict[str, Any], str]] = []
    for name, rule in properties.items():
        kind, about = _get_kind(rule), str(rule.get("description", ""))
        if kind == "string" and name.endswith("_id"):
            unknown.append(({**arguments, name: NOWHERE}, f"Refused: there is no {NOWHERE}."))
        elif kind in ("integer", "number") and _AMOUNT.search(about):
            broken_arguments.append(({**arguments, name: -3}, f"Refused: {name} is not positive."))
            broken_arguments.append(({**arguments, name: 1_000_000}, f"Refused: {name} is far above what is allowed."))
        elif kind == "string" and len(_QUOTED.findall(about)) > 1:
            broken_arguments.append(
                ({**arguments, name: "nonsense"}, f"Refused, or nothing found: {name} is of no known kind.")
            )
    broken_arguments = broken_arguments or unknown
    if not broken_arguments:
        broken_arguments = [
            ({**arguments, name: {"not": "this"}}, f"Refused: {name} has a wrong type.") for name in properties
        ]
        broken_arguments += [
            ({k: v for k, v in arguments.items() if k != name}, f"Refused: {name} is missing.") for name in needed
        ]
    return luck.choice(broken_arguments or [({**arguments, "surplus": 1}, "Refused: there is no such argument.")])

"""The tester: one call out of the tools, the rules and the state that its prompt shows.

Free to choose, it goes through the tools in shuffled laps, each tool both ways in a lap, told by the round's number.

Positive calls take ids, words and amounts that stand in the state; negative ones break one thing. Rules come first (an
amount that is not positive or far too large, a word of no list), then ids that are nowhere, then types.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from typing import Any

from synthesis.llm.calls import StageCall
from synthesis.prompts import prompt
from synthesis.scripted.programs.prompt_reader import as_json, unrendered

_QUOTED = re.compile(r'"([^"\s]{1,40})"')
_MOST = re.compile(r"at most (\d+)")
_AMOUNT = re.compile(r"\b(positive|at most)\b")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
NOWHERE = "X-404"
Schema = dict[str, Any]


def answer(call: StageCall) -> str:
    """The reply to `assessment/test_call` or `assessment/choose_call`."""
    if call.site.stage == "choose_call":
        return _choose_call(call)
    shown = unrendered(prompt("assessment", "test_call"), call.messages[0].content) or {}
    asked = as_json(shown.get("asked", "")) or {}
    tool: dict[str, Any] = as_json(shown.get("tool", "")) or {}
    return json.dumps(_write_call(call, tool, str(asked.get("tool")), str(asked.get("case")), shown))


def _choose_call(call: StageCall) -> str:
    shown = unrendered(prompt("assessment", "choose_call"), call.messages[0].content) or {}
    listed = as_json(shown.get("tools", ""))
    tools = [tool for tool in listed if isinstance(tool, dict)] if isinstance(listed, list) else []
    ways = [(tool, case) for tool in tools for case in ("positive", "negative")]
    if not ways:
        return json.dumps({"tool": "", "case": "positive", "arguments": {}})
    lap, place = divmod(call.site.sample, len(ways))
    random.Random(f"{call.site.item}\0{lap}").shuffle(ways)
    tool, case = ways[place]
    chosen = {"tool": tool.get("name"), "case": case}
    return json.dumps(chosen | _write_call(call, tool, str(tool.get("name")), case, shown))


def _write_call(call: StageCall, tool: dict[str, Any], name: str, case: str, shown: dict[str, str]) -> dict[str, Any]:
    rules = tool.get("parameters") or {}
    luck = random.Random(f"{call.site.item}\0{call.site.sample}")
    seen = StateValues(as_json(shown.get("state", "")))
    arguments = {parameter: value(parameter, rule, seen, luck) for parameter, rule in _wanted(rules, luck)}
    if case == "negative":
        arguments, expectation = spoilt(arguments, rules, luck)
    else:
        expectation = f"{name} succeeds with values that stand in the state."
    return {"arguments": arguments, "expectation": expectation}


def _wanted(rules: Schema, luck: random.Random) -> Iterator[tuple[str, Schema]]:
    """Every argument that is required, and some of the others."""
    needed = rules.get("required") or ()
    for name, rule in (rules.get("properties") or {}).items():
        if name in needed or luck.random() < 0.4:
            yield name, rule


class StateValues:
    """What stands in a state: the records of each collection by their ids, and every value by the name it has there."""

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
            known = self.named.setdefault(name, [])
            if part not in known:
                known.append(part)

    def keys(self, parameter: str, about: str) -> list[str]:
        """Ids that an argument such as `bike_id` may take: of the collection `bikes`, and where its words name a
        status that some of the records have (`it must be ready`), of those."""
        stem = parameter.removesuffix("_id")
        records = next((collection for name, collection in self.records.items() if name.startswith(stem[:4])), {})
        return [key for key, record in records.items() if _named_by(about, record)] or list(records)


def _named_by(about: str, record: dict[str, Any]) -> bool:
    """Whether the words hold one of the record's statuses."""
    return any(
        isinstance(status, str) and status.islower() and re.search(rf"\b{re.escape(status)}\b", about)
        for status in record.values()
    )


def value(name: str, rule: Schema, seen: StateValues, luck: random.Random) -> Any:
    """A value for an argument as the state and the schema suggest it."""
    kind, about = _kind(rule), str(rule.get("description", ""))
    if kind == "boolean":
        return luck.random() < 0.5
    if kind in ("integer", "number"):
        most = _MOST.search(about)
        return luck.randint(1, min(int(most[1]) if most else 20, luck.choice((2, 20))))
    if kind == "array":
        return [value(name.removesuffix("s"), rule.get("items") or {}, seen, luck)]
    if kind == "object":
        return {field: value(field, inner, seen, luck) for field, inner in (rule.get("properties") or {}).items()}
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


def _kind(rule: Schema) -> str:
    listed = rule.get("type")
    for variant in rule.get("anyOf") or ():
        if variant.get("type") != "null":
            listed = listed or variant.get("type")
    if isinstance(listed, list):
        listed = next((kind for kind in listed if kind != "null"), "string")
    return str(listed or "string")


def spoilt(arguments: dict[str, Any], rules: Schema, luck: random.Random) -> tuple[dict[str, Any], str]:
    """The arguments with one thing broken, and what should come of it."""
    properties, needed = rules.get("properties") or {}, list(rules.get("required") or ())
    ways: list[tuple[dict[str, Any], str]] = []
    unknown: list[tuple[dict[str, Any], str]] = []
    for name, rule in properties.items():
        kind, about = _kind(rule), str(rule.get("description", ""))
        if kind == "string" and name.endswith("_id"):
            unknown.append(({**arguments, name: NOWHERE}, f"Refused: there is no {NOWHERE}."))
        elif kind in ("integer", "number") and _AMOUNT.search(about):
            ways.append(({**arguments, name: -3}, f"Refused: {name} is not positive."))
            ways.append(({**arguments, name: 1_000_000}, f"Refused: {name} is far above what is allowed."))
        elif kind == "string" and len(_QUOTED.findall(about)) > 1:
            ways.append(({**arguments, name: "nonsense"}, f"Refused, or nothing found: {name} is of no known kind."))
    ways = ways or unknown
    if not ways:
        ways = [({**arguments, name: {"not": "this"}}, f"Refused: {name} has a wrong type.") for name in properties]
        ways += [({k: v for k, v in arguments.items() if k != name}, f"Refused: {name} is missing.") for name in needed]
    return luck.choice(ways or [({**arguments, "surplus": 1}, "Refused: there is no such argument.")])

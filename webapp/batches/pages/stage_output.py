"""Output of a stage in readable blocks: a program as code, a plan as tables, verdicts in words.

What a draft holds tells how it is shown, not the stage's name: a stage that is added later is shown as well.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from webapp.templatetags.show import NOTHING, SHOWN_UP_TO

Kind = Literal["text", "code", "json", "list", "table", "facts"]
ROWS = 200
CELL = 1_000
CODE = ("program", "source", "attributes", "code")
HIDDEN = ("call_key",)


@dataclass(frozen=True)
class Block:
    """`rest` says how many rows, entries or characters are left out."""

    kind: Kind
    title: str
    value: Any
    columns: tuple[str, ...] = ()
    rest: int = 0


def blocks(output: Any) -> list[Block]:
    """The blocks that show an output, best first."""
    if not isinstance(output, dict):
        return generic({"evidence": output}) if output not in (None, [], "") else []
    for key, show in SHAPES:
        if all(name in output for name in key):
            return [block for block in show(output) if block.value not in ("", [], (), {}, None)]
    return generic(output)


def call_of(output: Any) -> str:
    """The key of the call that a rejection's evidence names."""
    key = output.get("call_key") if isinstance(output, dict) else None
    return key if isinstance(key, str) else ""


def generic(value: Mapping[str, Any]) -> list[Block]:
    """Any JSON object: short values in one block, then lists, tables and sources, then what is left."""
    facts: list[tuple[str, Any]] = []
    long_blocks: list[Block] = []
    for key, part in value.items():
        title = _spoken(key)
        if key in HIDDEN or part is None:
            continue
        if isinstance(part, str) and (key in CODE or "\n" in part or len(part) > CELL):
            long_blocks.append(_code(title, part) if key in CODE else text(title, part))
        elif isinstance(part, str | int | float | bool):
            facts.append((title, part))
        elif _is_flat(part):
            long_blocks.append(listed(title, part))
        elif _is_table(part):
            long_blocks.append(table(title, part))
        elif part:
            long_blocks.append(Block("json", title, part))
    return [Block("facts", "", facts), *long_blocks] if facts else long_blocks


def _spoken(key: str) -> str:
    return str(key).replace("_", " ")


def _is_flat(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(entry, str | int | float) for entry in value)


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) for row in value)


def text(title: str, value: str) -> Block:
    return Block("text", title, value[:SHOWN_UP_TO], rest=max(0, len(value) - SHOWN_UP_TO))


def _code(title: str, value: str) -> Block:
    return Block("code", title, value)


def listed(title: str, values: Sequence[Any]) -> Block:
    return Block("list", title, [str(entry) for entry in values[:ROWS]], rest=max(0, len(values) - ROWS))


def table(title: str, rows: Sequence[Mapping[str, Any]], columns: Sequence[str] = ()) -> Block:
    names = tuple(columns) or tuple(dict.fromkeys(str(name) for row in rows[:ROWS] for name in row))[:8]
    cells = [[_cell(row.get(name)) for name in names] for row in rows[:ROWS]]
    return Block("table", title, cells, tuple(map(_spoken, names)), max(0, len(rows) - ROWS))


def _cell(value: Any) -> str:
    if value is None or value == "":
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list) and all(isinstance(entry, str | int | float) for entry in value):
        value = ", ".join(map(str, value))
    shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return shown if len(shown) <= CELL * 4 else f"{shown[: CELL * 4]}… ({len(shown):,} characters)"


def _facts(value: Mapping[str, Any], names: Iterable[str]) -> Block:
    return Block("facts", "", [(_spoken(name), value[name]) for name in names if value.get(name) not in (None, "")])


def _theme(value: dict[str, Any]) -> list[Block]:
    return [
        _facts(value, ("name", "category", "origin", "key")),
        text("description", value["description"]),
        text("made from", str(value.get("origin_text") or "")),
        table("tools described", value.get("tools") or [], ("name", "description")),
    ]


def _plan(value: dict[str, Any]) -> list[Block]:
    return [
        _facts(value, ("name", "category")),
        text("introduction", value.get("introduction") or ""),
        table("state space", value["entities"], ("entity", "attributes", "description")),
        listed("rules", value.get("rules") or []),
        table("operations", value["operations"], ("name", "kind", "description")),
    ]


def _fragments(value: dict[str, Any]) -> list[Block]:
    return [
        _facts(value, ("class_name",)),
        listed("refused and asked for again", value.get("refused") or []),
        _code("attributes", value["attributes"]),
        _code(f"{len(value['methods'])} methods", "\n\n".join(map(str, value["methods"]))),
    ]


def _assembled(value: dict[str, Any]) -> list[Block]:
    record = value["record"]
    facts = {"name": record.get("name"), "class": record.get("class_name"), "repairs": value.get("repairs")}
    return [
        _facts(facts, facts),
        listed("what was wrong before repair", value.get("invalid_before_repair") or []),
        _code("program", str(record.get("source") or "")),
        table("tools", record.get("tools") or [], ("name", "kind", "description")),
        listed("rules", record.get("rules") or []),
    ]


def _assessment(value: dict[str, Any]) -> list[Block]:
    cases = value["cases"]
    by = {name: sum(case.get("verdict") == name for case in cases) for name in ("pass", "warning", "fail")}
    confidence = value.get("confidence")
    early = "no sequential test" if confidence is None else f"{value.get('saved', 0)} at confidence {confidence:g}"
    facts = [
        ("decision", "kept" if value.get("kept") else "below the threshold"),
        ("score", f"{value['score']:.3f} of at least {value.get('threshold', 0):g}"),
        ("strict", f"{value.get('strict', 0):.3f}"),
        ("calls", f"{len(cases)} of {value.get('planned', len(cases))}: " + _counted(by)),
        ("calls saved", early),
    ]
    if value.get("first_score") is not None:
        facts.insert(2, ("score before repairs", f"{value['first_score']:.3f}"))
    wrong = [case for case in cases if case.get("verdict") == "fail"]
    doubtful = [case for case in cases if case.get("verdict") == "warning"]
    shown = ("tool", "case", "expectation", "arguments", "ok", "error", "reason")
    return [
        Block("facts", "", facts),
        listed("what to know of it", value.get("notes") or []),
        table("tools that failed", value.get("repairs") or [], ("tool", "outcome", "tries", "reason")),
        table("calls that failed", wrong, shown),
        table("by tool", value["rates"]),
        table("calls with a warning", doubtful, shown),
    ]


def _counted(by: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in by.items())


def _scenario(value: dict[str, Any]) -> list[Block]:
    nodes = _nodes(value.get("blueprint"))
    return [_facts(value, ("name",)), table("made for", nodes), Block("json", "initial state", value["state"])]


def _nodes(blueprint: Any) -> list[dict[str, Any]]:
    """The nodes of a blueprint in order, each with what it takes from earlier ones; none if there is no blueprint."""
    if not isinstance(blueprint, dict):
        return []
    edges = blueprint.get("edges") or []
    return [
        {
            "node": node["id"],
            "calls or works out": node.get("tool") or node.get("purpose"),
            "takes": ", ".join(
                f"{edge['source']} ({edge['parameter']})" if edge.get("parameter") else str(edge["source"])
                for edge in edges
                if edge.get("target") == node["id"]
            ),
            "with": {argument["name"]: argument.get("value") for argument in node.get("arguments") or []} or None,
        }
        for node in blueprint.get("nodes") or []
    ]


def _graph(value: dict[str, Any]) -> list[Block]:
    edges = value["edges"]
    return [
        Block("facts", "", [("tools", len(value["tools"])), ("edges", len(edges))]),
        table("edges: an output of the source goes into a parameter of the target", edges),
    ]


def _blueprints(value: dict[str, Any]) -> list[Block]:
    facts = {name: value.get(name) for name in ("walks", "distinct", "merge_duplicates")}
    return [
        Block("facts", "", [(_spoken(name), count) for name, count in facts.items() if count is not None]),
        *(table(f"blueprint {number}", _nodes(one)) for number, one in enumerate(value["blueprints"], 1)),
        table("merges that were dropped", value.get("dropped") or [], ("tools", "reason", "message")),
    ]


def _task(value: dict[str, Any]) -> list[Block]:
    reference = value.get("reference") or {}
    checks = value.get("checks") or []
    sources = "\n\n".join(f"# {check.get('label') or 'no label'}\n{check.get('source', '')}" for check in checks)
    return [
        _facts(value, ("title", "rule")),
        text("instruction", value["instruction"]),
        listed("notes", value.get("notes") or []),
        text("draft before it was refined", str(value.get("intent") or "")),
        listed("words that were refused as names of the system", value.get("leaked") or []),
        table("blueprint", _nodes(value.get("blueprint"))),
        listed("checklist", value.get("checklist") or []),
        _code(f"{len(checks)} check{'s' * (len(checks) != 1)}", sources),
        _code("solution", str(value.get("solution") or "")),
        _code("verification script", str((value.get("script") or {}).get("source") or "")),
        Block("facts", "runs of the solver", _consistency(value.get("consistency"))),
        table("reference", reference.get("calls") or [], ("tool", "arguments")),
        text("answer of the reference", str(reference.get("answer") or "")),
    ]


def _consistency(value: Any) -> list[tuple[str, Any]]:
    """How the solver's runs agree with a programmatic task's answer; empty for any other task."""
    if not isinstance(value, dict):
        return []
    return [
        ("runs that passed", f"{value['solved']} of {value['runs']}, at least {value['agree']}"),
        ("turns that each had", value["turn_limit"]),
        ("turns that each took", ", ".join(map(str, value["turns"]))),
    ]


def _audited(value: dict[str, Any]) -> list[Block]:
    audit, mutants = value["audit"], value["audit"].get("mutants") or []
    rewards = {name: (audit.get(name) or {}).get("reward") for name in ("nothing", "reference", "claim")}
    counted = [mutant for mutant in mutants if not mutant.get("equivalent")]
    facts = {"audit": audit["state"], "doing nothing earns": rewards["nothing"], "the reference": rewards["reference"]}
    facts |= {"only claiming": rewards["claim"], "mutants tried": len(counted)}
    return [
        _facts(facts, facts),
        table("what the audit says", audit.get("faults") or [], ("kind", "message", "check")),
        *_task(value["task"]),
    ]


def _attempt(value: dict[str, Any]) -> list[Block]:
    reward = value.get("reward") or {}
    facts = {
        "outcome": value["outcome"],
        "reward": reward.get("reward"),
        "checks passed": f"{reward['passed']} of {reward['total']}" if reward else None,
        "ended by": value["ending"],
        "steps": len(value.get("steps") or []),
        "setting": "conversational" if value.get("conversational") else "not conversational",
        "policy": value.get("policy"),
    }
    steps = [
        {
            "turn": step.get("turn", 0),
            "what": step.get("tool") or step["kind"],
            "said or asked": step.get("content") if step["kind"] != "call" else step.get("arguments"),
            "came back": step.get("observation"),
        }
        for step in value.get("steps") or []
    ]
    return [_facts(facts, facts), text("note", str(value.get("note") or "")), table("steps", steps)]


SHAPES: tuple[tuple[tuple[str, ...], Any], ...] = (
    (("record",), _assembled),
    (("entities", "operations"), _plan),
    (("blueprints", "dropped"), _blueprints),
    (("tools", "edges"), _graph),
    (("methods", "attributes"), _fragments),
    (("cases", "rates", "score"), _assessment),
    (("task", "audit"), _audited),
    (("ending", "outcome"), _attempt),
    (("instruction", "title"), _task),
    (("state", "name"), _scenario),
    (("key", "description"), _theme),
)

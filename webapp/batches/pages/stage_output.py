"""Output of a stage in readable blocks: a program as code, a plan as tables, verdicts in words.

The content of a draft decides how it is shown, not the stage's name: a stage that is added later is shown as well.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from webapp.common.templatetags.show import NOTHING, SHOWN_UP_TO

Kind = Literal["text", "code", "json", "list", "table", "facts"]
ROWS = 200
CELL = 1_000
CODE = ("program", "source", "attributes", "code")
HIDDEN = ("call_key",)


@dataclass(frozen=True)
class Block:
    """A block of an output. `rest` is the number of rows, entries or characters left out."""

    kind: Kind
    title: str
    value: Any
    columns: tuple[str, ...] = ()
    rest: int = 0


def build_blocks(output: Any) -> list[Block]:
    """Return the blocks that show an output, by the most specific shape that fits."""
    if not isinstance(output, dict):
        return build_generic_blocks({"evidence": output}) if output not in (None, [], "") else []
    for key, show in SHAPES:
        if all(name in output for name in key):
            return [block for block in show(output) if block.value not in ("", [], (), {}, None)]
    return build_generic_blocks(output)


def get_blamed_call(output: Any) -> str:
    """Return the key of the call that a rejection's evidence names."""
    key = output.get("call_key") if isinstance(output, dict) else None
    return key if isinstance(key, str) else ""


def build_generic_blocks(value: Mapping[str, Any]) -> list[Block]:
    """Return blocks for any JSON object: short values in one block, then lists, tables and sources, then the rest."""
    facts: list[tuple[str, Any]] = []
    long_blocks: list[Block] = []
    for key, part in value.items():
        title = _format_key(key)
        if key in HIDDEN or part is None:
            continue
        if isinstance(part, str) and (key in CODE or "\n" in part or len(part) > CELL):
            long_blocks.append(_make_code_block(title, part) if key in CODE else make_text_block(title, part))
        elif isinstance(part, str | int | float | bool):
            facts.append((title, part))
        elif _is_flat(part):
            long_blocks.append(make_list_block(title, part))
        elif _is_table(part):
            long_blocks.append(make_table_block(title, part))
        elif part:
            long_blocks.append(Block("json", title, part))
    return [Block("facts", "", facts), *long_blocks] if facts else long_blocks


def _format_key(key: str) -> str:
    return str(key).replace("_", " ")


def _is_flat(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(entry, str | int | float) for entry in value)


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) for row in value)


def make_text_block(title: str, value: str) -> Block:
    return Block("text", title, value[:SHOWN_UP_TO], rest=max(0, len(value) - SHOWN_UP_TO))


def _make_code_block(title: str, value: str) -> Block:
    return Block("code", title, value)


def make_list_block(title: str, values: Sequence[Any]) -> Block:
    return Block("list", title, [str(entry) for entry in values[:ROWS]], rest=max(0, len(values) - ROWS))


def make_table_block(title: str, rows: Sequence[Mapping[str, Any]], columns: Sequence[str] = ()) -> Block:
    names = tuple(columns) or tuple(dict.fromkeys(str(name) for row in rows[:ROWS] for name in row))[:8]
    cells = [[_format_cell(row.get(name)) for name in names] for row in rows[:ROWS]]
    return Block("table", title, cells, tuple(map(_format_key, names)), max(0, len(rows) - ROWS))


def _format_cell(value: Any) -> str:
    if value is None or value == "":
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list) and all(isinstance(entry, str | int | float) for entry in value):
        value = ", ".join(map(str, value))
    cell_text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return cell_text if len(cell_text) <= CELL * 4 else f"{cell_text[: CELL * 4]}… ({len(cell_text):,} characters)"


def _make_facts_block(value: Mapping[str, Any], names: Iterable[str]) -> Block:
    return Block("facts", "", [(_format_key(name), value[name]) for name in names if value.get(name) not in (None, "")])


def _show_theme(value: dict[str, Any]) -> list[Block]:
    return [
        _make_facts_block(value, ("name", "category", "origin", "key")),
        make_text_block("description", value["description"]),
        make_text_block("made from", str(value.get("origin_text") or "")),
        make_table_block("tools described", value.get("tools") or [], ("name", "description")),
    ]


def _show_plan(value: dict[str, Any]) -> list[Block]:
    return [
        _make_facts_block(value, ("name", "category")),
        make_text_block("introduction", value.get("introduction") or ""),
        make_table_block("state space", value["entities"], ("entity", "attributes", "description")),
        make_list_block("rules", value.get("rules") or []),
        make_table_block("operations", value["operations"], ("name", "kind", "description")),
    ]


def _show_fragments(value: dict[str, Any]) -> list[Block]:
    return [
        _make_facts_block(value, ("class_name",)),
        make_list_block("refused and asked for again", value.get("refused") or []),
        _make_code_block("attributes", value["attributes"]),
        _make_code_block(f"{len(value['methods'])} methods", "\n\n".join(map(str, value["methods"]))),
    ]


def _show_program(value: dict[str, Any]) -> list[Block]:
    record = value["record"]
    facts = {"name": record.get("name"), "class": record.get("class_name"), "repairs": value.get("repairs")}
    return [
        _make_facts_block(facts, facts),
        make_list_block("what was wrong before repair", value.get("invalid_before_repair") or []),
        _make_code_block("program", str(record.get("source") or "")),
        make_table_block("tools", record.get("tools") or [], ("name", "kind", "description")),
        make_list_block("rules", record.get("rules") or []),
    ]


def _show_assessment(value: dict[str, Any]) -> list[Block]:
    cases = value["cases"]
    by = {name: sum(case.get("verdict") == name for case in cases) for name in ("pass", "warning", "fail")}
    confidence = value.get("confidence")
    early = "no sequential test" if confidence is None else f"{value.get('saved', 0)} at confidence {confidence:g}"
    facts = [
        ("decision", "kept" if value.get("kept") else "below the threshold"),
        ("score", f"{value['score']:.3f} of at least {value.get('threshold', 0):g}"),
        ("strict", f"{value.get('strict', 0):.3f}"),
        ("calls", f"{len(cases)} of {value.get('planned', len(cases))}: " + _format_counts(by)),
        ("calls saved", early),
    ]
    if value.get("first_score") is not None:
        facts.insert(2, ("score before repairs", f"{value['first_score']:.3f}"))
    wrong = [case for case in cases if case.get("verdict") == "fail"]
    doubtful = [case for case in cases if case.get("verdict") == "warning"]
    columns = ("tool", "case", "expectation", "arguments", "ok", "error", "reason")
    return [
        Block("facts", "", facts),
        make_list_block("what to know of it", value.get("notes") or []),
        make_table_block("tools that failed", value.get("repairs") or [], ("tool", "outcome", "tries", "reason")),
        make_table_block("calls that failed", wrong, columns),
        make_table_block("by tool", value["rates"]),
        make_table_block("calls with a warning", doubtful, columns),
    ]


def _format_counts(by: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in by.items())


def _show_scenario(value: dict[str, Any]) -> list[Block]:
    nodes = _list_blueprint_nodes(value.get("blueprint"))
    return [
        _make_facts_block(value, ("name",)),
        make_table_block("made for", nodes),
        Block("json", "initial state", value["state"]),
    ]


def _list_blueprint_nodes(blueprint: Any) -> list[dict[str, Any]]:
    """Return the nodes of a blueprint in order, each with its inputs from earlier ones; none if there is no
    blueprint."""
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


def _show_graph(value: dict[str, Any]) -> list[Block]:
    edges = value["edges"]
    weak = sum(edge.get("kind") == "weak" for edge in edges)
    facts = [("tools", len(value["tools"])), ("strong edges", len(edges) - weak)]
    return [
        Block("facts", "", [*facts, ("weak edges", weak)] if value.get("graded") else facts),
        make_table_block("edges: an output of the source goes into a parameter of the target", edges),
    ]


def _show_blueprints(value: dict[str, Any]) -> list[Block]:
    facts = {name: value.get(name) for name in ("walks", "distinct", "merge_duplicates")}
    return [
        Block("facts", "", [(_format_key(name), count) for name, count in facts.items() if count is not None]),
        *(
            make_table_block(f"blueprint {number}", _list_blueprint_nodes(one))
            for number, one in enumerate(value["blueprints"], 1)
        ),
        make_table_block("merges that were dropped", value.get("dropped") or [], ("tools", "reason", "message")),
    ]


def _show_drawn_walk(value: dict[str, Any]) -> list[Block]:
    drawn = value["walk"]
    going = sum(not call.get("refused") for call in drawn)
    facts = [("walks that were drawn", value["drawn"]), ("calls that go through", f"{going} of {len(drawn)}")]
    return [
        Block("facts", "", facts),
        make_table_block(
            "walk: each call with how it follows the one before", drawn, ("tool", "step", "arguments", "refused")
        ),
    ]


def _show_chain(value: dict[str, Any]) -> list[Block]:
    steps = value.get("steps") or []
    counted = [(f"{kind} steps", steps.count(kind)) for kind in ("strong", "weak", "independent")]
    walks = [", ".join(map(str, walk)) for walk in value.get("walks") or []]
    return [
        Block("facts", "", counted if steps else []),
        make_table_block("calls in order", _list_blueprint_nodes(value)),
        make_list_block("walk that it was made from", walks),
    ]


def _show_task(value: dict[str, Any]) -> list[Block]:
    reference = value.get("reference") or {}
    checks = value.get("checks") or []
    sources = "\n\n".join(f"# {check.get('label') or 'no label'}\n{check.get('source', '')}" for check in checks)
    return [
        _make_facts_block(value, ("title", "rule")),
        make_text_block("instruction", value["instruction"]),
        make_list_block("notes", value.get("notes") or []),
        make_text_block("draft before it was refined", str(value.get("intent") or "")),
        make_list_block("words that were refused as names of the system", value.get("leaked") or []),
        make_table_block("blueprint", _list_blueprint_nodes(value.get("blueprint"))),
        make_list_block("checklist", value.get("checklist") or []),
        _make_code_block(f"{len(checks)} check{'s' * (len(checks) != 1)}", sources),
        _make_code_block("solution", str(value.get("solution") or "")),
        _make_code_block("verification script", str((value.get("script") or {}).get("source") or "")),
        _make_code_block("code of the answer", str(value.get("derivation") or "")),
        make_table_block("rubric", (value.get("rubric") or {}).get("criteria") or [], ("dimension", "field", "text")),
        Block("facts", "difficulty, as it came out", _list_difficulty_facts(value.get("difficulty"))),
        Block("facts", "runs of the solver", _list_consistency_facts(value.get("consistency"))),
        make_table_block("reference", reference.get("calls") or [], ("tool", "arguments")),
        make_text_block("answer of the reference", str(reference.get("answer") or "")),
    ]


def _list_consistency_facts(value: Any) -> list[tuple[str, Any]]:
    """Return how the solver's runs agree; empty for a task that is not kept by agreement."""
    if not isinstance(value, dict):
        return []
    by_verifier = value.get("rule", "verifier") == "verifier"
    alike = [] if value.get("alike") is None else [("runs whose answers equal each other", value["alike"])]
    return [
        ("runs that passed", f"{value['solved']} of {value['runs']}"),
        *alike,
        ("wanted", f"at least {value['agree']} that {'pass' if by_verifier else 'equal each other'}"),
        ("turns that each had", value["turn_limit"]),
        ("turns that each took", ", ".join(map(str, value["turns"]))),
    ]


def _list_difficulty_facts(value: Any) -> list[tuple[str, Any]]:
    """Return the knobs of a task's difficulty, as far as tasks of its kind have them."""
    measures = value if isinstance(value, dict) else {}
    formatted = {
        name: f"{part:.0%}" if name.endswith("_share") else part for name, part in measures.items() if part is not None
    }
    return [(_format_key(name), part) for name, part in formatted.items()]


def _show_audited_task(value: dict[str, Any]) -> list[Block]:
    audit, mutants = value["audit"], value["audit"].get("mutants") or []
    rewards = {name: (audit.get(name) or {}).get("reward") for name in ("nothing", "reference", "claim")}
    counted = [mutant for mutant in mutants if not mutant.get("equivalent")]
    facts = {"audit": audit["state"], "doing nothing earns": rewards["nothing"], "the reference": rewards["reference"]}
    facts |= {"only claiming": rewards["claim"], "mutants tried": len(counted)}
    return [
        _make_facts_block(facts, facts),
        make_table_block("what the audit says", audit.get("faults") or [], ("kind", "message", "check")),
        *_show_task(value["task"]),
    ]


def _show_attempt(value: dict[str, Any]) -> list[Block]:
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
    return [
        _make_facts_block(facts, facts),
        make_text_block("note", str(value.get("note") or "")),
        make_table_block("steps", steps),
    ]


SHAPES: tuple[tuple[tuple[str, ...], Any], ...] = (
    (("record",), _show_program),
    (("entities", "operations"), _show_plan),
    (("blueprints", "dropped"), _show_blueprints),
    (("tools", "edges"), _show_graph),
    (("walk", "drawn"), _show_drawn_walk),
    (("nodes", "edges"), _show_chain),
    (("methods", "attributes"), _show_fragments),
    (("cases", "rates", "score"), _show_assessment),
    (("task", "audit"), _show_audited_task),
    (("ending", "outcome"), _show_attempt),
    (("instruction", "title"), _show_task),
    (("state", "name"), _show_scenario),
    (("key", "description"), _show_theme),
)

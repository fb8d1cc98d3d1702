"""The tools that a task offers: those of its program, without what the task withholds."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from synthesis.contracts import CallError, CallResult, Program, Tool, Withheld
from synthesis.runtime.signature import without_arguments


def offered(program: Program, withheld: Withheld | None) -> Program:
    """The program as an attempt at the task sees and calls it."""
    if withheld is None:
        return program
    return program.model_copy(update={"tools": offered_tools(program.tools, withheld)})


def offered_tools(tools: tuple[Tool, ...], withheld: Withheld | None) -> tuple[Tool, ...]:
    """The tools without what is withheld of them."""
    if withheld is None:
        return tools
    if not withheld.parameter:
        return tuple(tool for tool in tools if tool.name != withheld.tool)
    return tuple(_without(tool, withheld.parameter) if tool.name == withheld.tool else tool for tool in tools)


def _without(tool: Tool, parameter: str) -> Tool:
    schema = dict(tool.parameters)
    properties = schema.get("properties") or {}
    schema["properties"] = {name: rule for name, rule in properties.items() if name != parameter}
    if "required" in schema:
        schema["required"] = [name for name in schema["required"] if name != parameter]
    schema["additionalProperties"] = False
    described = without_lines(tool.description, parameter)
    changes = {"parameters": schema, "description": described, "withheld": (*tool.withheld, parameter)}
    return tool.model_copy(update=changes)


_EXAMPLE = re.compile(r",? (?:for example|e\.g\.|such as) (?:\"[^\"]{0,80}\"|'[^']{0,80}'|`[^`]{0,80}`)")
_REFUSALS = re.compile(r"(?<=[.!?:;])\s+Refuses\b[^.\n]*\.?\s*\Z")
_RETURNS = re.compile(r"(?<=[.!?:;])\s+Returns\b[^.\n]*\.(?=\s+Refuses\b|\s*\Z)")
_ID = re.compile(r"(?:\A|_)ids?\Z")
_NAMED_ALONE = frozenset(("the", "a", "an", "its", "of", "id", "ids", "identifier", "unique"))


def brief_tools(tools: Sequence[Tool]) -> tuple[Tool, ...]:
    """Return the tools with descriptions that say nothing twice, as a request carries them in each of its turns.

    A parameter that is described exactly as one of the same name in a tool before it is described there alone.
    """
    described: set[tuple[str, str]] = set()
    found = []
    for tool in map(_brief, tools):
        properties = tool.parameters.get("properties") or {}
        kept = {}
        for name, rule in properties.items():
            spelled = (name, json.dumps(rule, sort_keys=True, default=str))
            kept[name] = rule
            if spelled in described:
                kept[name] = {key: part for key, part in rule.items() if key != "description"}
            described.add(spelled)
        parameters = tool.parameters | ({"properties": kept} if properties else {})
        found.append(tool.model_copy(update={"parameters": parameters}))
    return tuple(found)


def _brief(tool: Tool) -> Tool:
    """Return the tool without what its schema says too, and without what a caller does not need.

    Needless are an `additionalProperties` that is false, an empty `required`, that an argument which may be left out
    may be null, of an id an example (ids are taken from what tools return) and words that say no more than its name,
    what a query refuses, since it changes nothing, and what a change returns, since its caller reads that next. The
    description tells of parameters only if the schema does not describe them all.
    """
    properties = tool.parameters.get("properties") or {}
    description = tool.description
    if all(isinstance(rule, dict) and rule.get("description") for rule in properties.values()):
        description = without_arguments(description)
    is_query = tool.kind == "query"
    description = without_refusals(description) if is_query else _RETURNS.sub("", description)
    schema = dict(tool.parameters)
    if properties:
        schema["properties"] = {name: _brief_rule(name, rule) for name, rule in properties.items()}
    if schema.get("additionalProperties") is False:
        del schema["additionalProperties"]
    if schema.get("required") == []:
        del schema["required"]
    return tool.model_copy(update={"description": _in_one_paragraph(description), "parameters": schema})


def _in_one_paragraph(description: str) -> str:
    """Join paragraphs of sentences. What is no sentence, such as a list, begins on a line of its own."""
    first, *others = (part.rstrip() for part in re.split(r"\n[ \t]*\n", description))
    return first + "".join(f"{' ' if part[0].isupper() else chr(10)}{part}" for part in others if part)


def without_refusals(description: str) -> str:
    """Return a description without a last sentence on what the tool refuses."""
    return _REFUSALS.sub("", description)


def _brief_rule(name: str, rule: Any) -> Any:
    if not isinstance(rule, dict):
        return rule
    rule = _without_null(rule)
    described = rule.get("description")
    if not _ID.search(name) or not isinstance(described, str):
        return rule
    described = _EXAMPLE.sub("", described)
    says_more = set(re.findall(r"\w+", described.lower())) - _NAMED_ALONE - set(name.lower().split("_"))
    kept = {key: part for key, part in rule.items() if key != "description"}
    return kept | {"description": described} if says_more else kept


def _without_null(rule: dict[str, Any]) -> dict[str, Any]:
    if "default" not in rule or rule["default"] is not None:
        return rule
    kinds = rule.get("type")
    named = [kind for kind in kinds if kind != "null"] if isinstance(kinds, list) else []
    kept = {key: part for key, part in rule.items() if key != "default"}
    return kept | ({"type": named[0] if len(named) == 1 else named} if named else {})


def without_lines(description: str, parameter: str) -> str:
    """A tool's description without the lines that say what a parameter is, which begin with its name and a colon."""
    kept: list[str] = []
    deep: int | None = None
    entry = re.compile(rf"\s*{re.escape(parameter)}\s*(\([^)]*\))?\s*:")
    for line in description.splitlines():
        depth = len(line) - len(line.lstrip())
        if deep is not None and line.strip() and depth > deep:
            continue
        deep = depth if entry.match(line) else None
        if deep is None:
            kept.append(line)
    return "\n".join(kept)


def refusal(program: Program, tool: str, arguments: object) -> CallResult | None:
    """What a call comes to that names a withheld parameter and whose arguments no schema looks at: what Python says of
    an unknown one. None where it names none."""
    known = next((one for one in program.tools if one.name == tool), None)
    if known is None or not known.withheld or not isinstance(arguments, dict):
        return None
    named = next((name for name in arguments if name in known.withheld), None)
    if named is None:
        return None
    message = f"{program.class_name}.{tool}() got an unexpected keyword argument '{named}'"
    return CallResult(ok=False, error=CallError(kind="bad_arguments", type="TypeError", message=message))

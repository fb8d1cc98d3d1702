"""The tools that a task offers: those of its program, without what the task withholds."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from synthesis.contracts import CallError, CallResult, Program, Tool, Withheld
from synthesis.runtime.signature import strip_arguments


def restrict_program(program: Program, withheld: Withheld | None) -> Program:
    """Return the program as an attempt at the task sees and calls it."""
    if withheld is None:
        return program
    return program.model_copy(update={"tools": restrict_tools(program.tools, withheld)})


def restrict_tools(tools: tuple[Tool, ...], withheld: Withheld | None) -> tuple[Tool, ...]:
    """Return the tools without what the task withholds."""
    if withheld is None:
        return tools
    if not withheld.parameter:
        return tuple(tool for tool in tools if tool.name != withheld.tool)
    return tuple(
        _withhold_parameter(tool, withheld.parameter) if tool.name == withheld.tool else tool for tool in tools
    )


def _withhold_parameter(tool: Tool, parameter: str) -> Tool:
    schema = dict(tool.parameters)
    properties = schema.get("properties") or {}
    schema["properties"] = {name: rule for name, rule in properties.items() if name != parameter}
    if "required" in schema:
        schema["required"] = [name for name in schema["required"] if name != parameter]
    schema["additionalProperties"] = False
    described = strip_parameter_lines(tool.description, parameter)
    changes = {"parameters": schema, "description": described, "withheld": (*tool.withheld, parameter)}
    return tool.model_copy(update=changes)


_EXAMPLE = re.compile(r",? (?:for example|e\.g\.|such as) (?:\"[^\"]{0,80}\"|'[^']{0,80}'|`[^`]{0,80}`)")
_REFUSALS = re.compile(r"(?<=[.!?:;])\s+Refuses\b[^.\n]*\.?\s*\Z")
_RETURNS = re.compile(r"(?<=[.!?:;])\s+Returns\b[^.\n]*\.(?=\s+Refuses\b|\s*\Z)")
_ID = re.compile(r"(?:\A|_)ids?\Z")
_NAMED_ALONE = frozenset(("the", "a", "an", "its", "of", "id", "ids", "identifier", "unique"))


def shorten_tools(tools: Sequence[Tool]) -> tuple[Tool, ...]:
    """Return the tools with descriptions that repeat nothing, as a request carries them in each of its turns.

    If a parameter is described exactly as one of the same name in an earlier tool, only the earlier description is
    kept.
    """
    described: set[tuple[str, str]] = set()
    shortened = []
    for tool in map(_shorten_tool, tools):
        properties = tool.parameters.get("properties") or {}
        rules = {}
        for name, rule in properties.items():
            spelled = (name, json.dumps(rule, sort_keys=True, default=str))
            rules[name] = rule
            if spelled in described:
                rules[name] = {key: part for key, part in rule.items() if key != "description"}
            described.add(spelled)
        parameters = tool.parameters | ({"properties": rules} if properties else {})
        shortened.append(tool.model_copy(update={"parameters": parameters}))
    return tuple(shortened)


def _shorten_tool(tool: Tool) -> Tool:
    """Return the tool without repetitions of its schema, and without parts that a caller does not need.

    Parts not needed are an `additionalProperties` that is false, an empty `required`, the null type of an optional
    argument, of an id an example (ids are taken from what tools return) and words that say no more than its name, what
    a query refuses, since it changes nothing, and what a change returns, since its caller reads that next. The
    description covers parameters only if the schema does not describe them all.
    """
    properties = tool.parameters.get("properties") or {}
    description = tool.description
    if all(isinstance(rule, dict) and rule.get("description") for rule in properties.values()):
        description = strip_arguments(description)
    is_query = tool.kind == "query"
    description = strip_refusals(description) if is_query else _RETURNS.sub("", description)
    schema = dict(tool.parameters)
    if properties:
        schema["properties"] = {name: _shorten_rule(name, rule) for name, rule in properties.items()}
    if schema.get("additionalProperties") is False:
        del schema["additionalProperties"]
    if schema.get("required") == []:
        del schema["required"]
    return tool.model_copy(update={"description": _join_paragraphs(description), "parameters": schema})


def _join_paragraphs(description: str) -> str:
    """Join paragraphs of sentences. A paragraph that is not a sentence, such as a list, begins on a line of its own."""
    first, *others = (part.rstrip() for part in re.split(r"\n[ \t]*\n", description))
    return first + "".join(f"{' ' if part[0].isupper() else chr(10)}{part}" for part in others if part)


def strip_refusals(description: str) -> str:
    """Return a description without a last sentence on what the tool refuses."""
    return _REFUSALS.sub("", description)


def _shorten_rule(name: str, rule: Any) -> Any:
    if not isinstance(rule, dict):
        return rule
    rule = _strip_null(rule)
    described = rule.get("description")
    if not _ID.search(name) or not isinstance(described, str):
        return rule
    described = _EXAMPLE.sub("", described)
    says_more = set(re.findall(r"\w+", described.lower())) - _NAMED_ALONE - set(name.lower().split("_"))
    bare_rule = {key: part for key, part in rule.items() if key != "description"}
    return bare_rule | {"description": described} if says_more else bare_rule


def _strip_null(rule: dict[str, Any]) -> dict[str, Any]:
    if "default" not in rule or rule["default"] is not None:
        return rule
    kinds = rule.get("type")
    named = [kind for kind in kinds if kind != "null"] if isinstance(kinds, list) else []
    bare_rule = {key: part for key, part in rule.items() if key != "default"}
    return bare_rule | ({"type": named[0] if len(named) == 1 else named} if named else {})


def strip_parameter_lines(description: str, parameter: str) -> str:
    """Return a description of a tool without the lines on a parameter, which begin with its name and a colon."""
    kept_lines: list[str] = []
    deep: int | None = None
    entry = re.compile(rf"\s*{re.escape(parameter)}\s*(\([^)]*\))?\s*:")
    for line in description.splitlines():
        depth = len(line) - len(line.lstrip())
        if deep is not None and line.strip() and depth > deep:
            continue
        deep = depth if entry.match(line) else None
        if deep is None:
            kept_lines.append(line)
    return "\n".join(kept_lines)


def refuse_withheld_parameter(program: Program, tool: str, arguments: object) -> CallResult | None:
    """Return the result of a call that names a withheld parameter and whose arguments no schema checks.

    The result is Python's error for an unknown parameter. None if the call names no withheld parameter.
    """
    called_tool = next((one for one in program.tools if one.name == tool), None)
    if called_tool is None or not called_tool.withheld or not isinstance(arguments, dict):
        return None
    named = next((name for name in arguments if name in called_tool.withheld), None)
    if named is None:
        return None
    message = f"{program.class_name}.{tool}() got an unexpected keyword argument '{named}'"
    return CallResult(ok=False, error=CallError(kind="bad_arguments", type="TypeError", message=message))

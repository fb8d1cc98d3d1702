"""The tools that a task offers: those of its program, without what the task withholds."""

from __future__ import annotations

import re
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


def brief_tool(tool: Tool) -> Tool:
    """Return the tool without the part of its description that tells of parameters, if the schema describes them all.

    What says nothing that a caller needs is left out of the schema too: an `additionalProperties` that is false, an
    empty `required`, and that an argument which may be left out may be null.
    """
    properties = tool.parameters.get("properties") or {}
    if not all(isinstance(rule, dict) and rule.get("description") for rule in properties.values()):
        return tool
    schema = dict(tool.parameters)
    schema["properties"] = {name: _without_null(rule) for name, rule in properties.items()}
    if schema.get("additionalProperties") is False:
        del schema["additionalProperties"]
    if schema.get("required") == []:
        del schema["required"]
    return tool.model_copy(update={"description": without_arguments(tool.description), "parameters": schema})


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

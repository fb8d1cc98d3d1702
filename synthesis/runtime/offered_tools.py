"""The tools that a task offers: those of its program, without what the task withholds."""

from __future__ import annotations

import re

from synthesis.contracts import CallError, CallResult, Program, Tool, Withheld


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

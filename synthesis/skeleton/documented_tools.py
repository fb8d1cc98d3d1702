"""Environments from tool documents (AutoForge 3.1): one method for each tool that they name, with its signature.

What tools are there and what they take is fixed; the author designs the state that fits all of them, says which tools
change it, and which rules they keep to.
"""

from __future__ import annotations

import builtins
import json
import keyword
import re
from collections.abc import Collection
from typing import Annotated, Any

from pydantic import Field, StringConstraints

from synthesis.contracts import ToolKind
from synthesis.drafts import OperationPlan, Plan, ThemeDraft
from synthesis.errors import InputError, Rejected
from synthesis.formats.records import ToolSpec
from synthesis.prompts import fenced, prompt
from synthesis.prompts.tool_text import describe_tools
from synthesis.runtime import outline, working_schema
from synthesis.skeleton.plan_reply import NAME_CHARS, RUNTIME_NAMES, PlanReply, StatePlanReply, require_rules
from synthesis.skeleton.plan_text import state_text
from synthesis.stages import Kit

MOST_TOOLS = 100
"""Methods of one program."""
DESCRIPTION_CHARS = 2_000
TOOL_CHARS = 60_000
"""Of what prompts say of a theme's tools: more is outlined, but no tool is left out."""


class DocumentedTool(PlanReply):
    """What an author says of a tool that documents name."""

    name: Annotated[str, StringConstraints(max_length=200)]
    kind: ToolKind
    rules: list[int] = Field(default_factory=list, max_length=20)


class DocumentedReply(PlanReply):
    """The reply of `plan_documented`. `time_told_by` names the query that tells the day it is."""

    tools: list[DocumentedTool] = Field(min_length=1, max_length=MOST_TOOLS)
    time_told_by: Annotated[str, StringConstraints(max_length=200)] = ""


def is_documented(theme: ThemeDraft) -> bool:
    """Whether the tools of a theme's environment are fixed by documents."""
    return theme.origin == "documents"


def has_documented_tools(plan: Plan) -> bool:
    """Whether the tools of a plan are fixed by documents."""
    return any(operation.parameters is not None for operation in plan.operations)


async def plan_documented(
    kit: Kit, theme: ThemeDraft, about: str, state: StatePlanReply
) -> tuple[tuple[OperationPlan, ...], str]:
    """Return an operation for every tool of the theme's documents, and the query that tells the day it is, or "".

    Raises Rejected (`too_many_tools`) and what `Kit.ask` raises.
    """
    tools = name_tools(theme.tools)
    words = prompt("skeleton", "plan_documented").render(
        theme=fenced("theme", about),
        plan=fenced("plan", state_text(state)),
        tools=fenced("tools", describe_tools(tools, TOOL_CHARS)),
    )
    names = [tool.name for tool in tools]
    reply = await kit.ask(
        "author", "plan_documented", words, DocumentedReply, lambda answer: check_reply(answer, names, len(state.rules))
    )
    said = {tool.name: tool for tool in reply.tools}
    operations = tuple(
        OperationPlan(
            name=tool.name,
            description=tool.description[:DESCRIPTION_CHARS] or tool.name,
            kind=said[tool.name].kind,
            rules=tuple(said[tool.name].rules),
            parameters=tool.parameters if isinstance(tool.parameters, dict) else {},
        )
        for tool in tools
    )
    return operations, reply.time_told_by


def check_reply(reply: DocumentedReply, names: Collection[str], rules: int) -> None:
    """Raise InputError if a tool is left out, added or said twice, or a rule does not exist."""
    said = [tool.name for tool in reply.tools]
    missing = [name for name in names if name not in said]
    added = [name for name in said if name not in names]
    if missing:
        listed = ", ".join(missing[:20])
        raise InputError(f"these tools are missing: {listed}; name every tool, exactly as it is listed")
    if added or len(said) != len(names):
        name = added[0] if added else next(name for name in said if said.count(name) > 1)
        raise InputError(f"{name[:NAME_CHARS]!r} must not stand there: each tool that is listed once, and no other")
    queries = [tool.name for tool in reply.tools if tool.kind == "query"]
    if reply.time_told_by and reply.time_told_by not in queries:
        raise InputError(f"time_told_by names {reply.time_told_by[:NAME_CHARS]!r}, which is no query among the tools")
    for tool in reply.tools:
        require_rules(tool.rules, rules, f"the tool {tool.name}")


def name_tools(tools: tuple[ToolSpec, ...]) -> tuple[ToolSpec, ...]:
    """Return the tools with names that Python can have, of parameters too: `X-Key` becomes `X_Key`, `from` `from_`.

    Raises Rejected: more tools than one program can have.
    """
    if len(tools) > MOST_TOOLS:
        message = f"The documents name {len(tools):,} tools; one environment can have {MOST_TOOLS}. Split the document."
        raise Rejected("too_many_tools", message, evidence={"tools": [tool.name for tool in tools[:200]]})
    taken: set[str] = set(RUNTIME_NAMES) | set(dir(builtins))
    renamed = []
    for tool in tools:
        name = find_name(tool.name[:NAME_CHARS], taken)
        taken.add(name)
        renamed.append(tool.model_copy(update={"name": name, "parameters": _name_parameters(tool.parameters)}))
    return tuple(renamed)


def find_name(wanted: str, taken: Collection[str]) -> str:
    """Return a name as Python has them, the wanted one if it can be had."""
    name = re.sub(r"\W+", "_", wanted, flags=re.ASCII).strip("_") or "unnamed"
    name = f"_{name}" if name[0].isdigit() else name
    name = f"call{name}" if name.startswith("_") else name
    found, number = name, 1
    while keyword.iskeyword(found) or found in taken:
        number += 1
        found = f"{name}_" if number == 2 and not name.endswith("_") else f"{name}_{number}"
    return found


def _name_parameters(parameters: Any) -> dict[str, Any]:
    """Return an object's schema whose properties can be the parameters of a method."""
    if isinstance(parameters, list):  # `{name, type, required}` each
        named = [item for item in parameters if isinstance(item, dict) and isinstance(item.get("name"), str)]
        described = {item["name"]: {key: item[key] for key in ("type", "description") if key in item} for item in named}
        parameters = {"properties": described, "required": [item["name"] for item in named if item.get("required")]}
    schema = dict(parameters) if isinstance(parameters, dict) else {}
    fields, required = schema.get("properties"), schema.get("required")
    names: dict[str, str] = {}
    for field in fields if isinstance(fields, dict) else ():
        names[field] = find_name(field, {"self", *names.values()})
    schema["type"] = "object"
    schema["properties"] = {names[field]: value for field, value in (fields or {}).items()} if names else {}
    schema["required"] = [names[field] for field in required or [] if isinstance(field, str) and field in names]
    return schema


def find_signature_problems(source: str, class_name: str, plan: Plan) -> list[str]:
    """Compare each method's signature with what its documents say that the tool takes; one sentence each."""
    problems = []
    seen = outline(source, class_name)
    for operation in plan.operations:
        method = seen.method(operation.name)
        if operation.parameters is not None and method is not None:
            problems += compare_signature(operation.name, working_schema(method), operation.parameters)
    return problems


def find_method_problems(source: str, operation: OperationPlan) -> list[str]:
    """Compare the signature of a method that stands alone with its document; one sentence each."""
    if operation.parameters is None:
        return []
    lines = "".join(f"    {line}\n" if line.strip() else "\n" for line in source.splitlines())
    method = outline(f"class Alone:\n{lines}", "Alone").method(operation.name)
    return [] if method is None else compare_signature(operation.name, working_schema(method), operation.parameters)


def compare_signature(name: str, found: dict[str, Any], documented: dict[str, Any]) -> list[str]:
    """Say where the schema of a method differs from the documented one: names, what is required, plain types."""
    has, wants = found.get("properties", {}), documented.get("properties", {})
    problems = []
    if missing := [field for field in wants if field not in has]:
        problems.append(f"{name} lacks the documented parameters {', '.join(missing[:8])}")
    if surplus := [field for field in has if field not in wants]:
        problems.append(f"{name} takes {', '.join(surplus[:8])}, which its document does not name")
    required, needed = set(found.get("required", ())), set(documented.get("required", ()))
    for field in (field for field in wants if field in has):
        if field in needed and field not in required:
            problems.append(f"the parameter {field} of {name} is required by its document: give it no default")
        elif field in required and field not in needed:
            problems.append(f"the parameter {field} of {name} is optional in its document: give it a default")
        types = [part.get("type") if isinstance(part, dict) else None for part in (has[field], wants[field])]
        if all(isinstance(kind, str) for kind in types) and types[0] != types[1]:
            problems.append(f"the parameter {field} of {name} is of type {types[1]} in its document, not {types[0]}")
    return problems


def describe_parameters(operation: OperationPlan) -> str:
    """Return what a prompt says of a documented tool's parameters, or "" if the author chooses them."""
    if operation.parameters is None:
        return ""
    schema = json.dumps(operation.parameters, ensure_ascii=False, separators=(",", ":"))
    return f"\nIts document fixes its parameters, by these names, to this schema: {schema}"

"""Environments from tool documents (AutoForge 3.1): one method for each tool that they name, with its signature.

The tools and their parameters are fixed; the author designs the state that fits all of them, decides which tools change
it, and which rules they follow.
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
from synthesis.prompts import fence_text, get_prompt
from synthesis.prompts.tool_text import describe_tools
from synthesis.runtime import derive_working_schema, outline_program
from synthesis.skeleton.plan_reply import NAME_CHARS, RUNTIME_NAMES, PlanReply, StatePlanReply, require_rules
from synthesis.skeleton.plan_text import format_state
from synthesis.stages import Kit

MOST_TOOLS = 100
"""Methods of one program."""
DESCRIPTION_CHARS = 2_000
TOOL_CHARS = 60_000
"""Of what prompts say of a theme's tools: more is outlined, but no tool is left out."""


class DocumentedTool(PlanReply):
    """Author's data on a tool that documents name."""

    name: Annotated[str, StringConstraints(max_length=200)]
    kind: ToolKind
    rules: list[int] = Field(default_factory=list, max_length=20)


class DocumentedReply(PlanReply):
    """Reply to the prompt "plan_documented". `time_told_by` names the query that returns the current day."""

    tools: list[DocumentedTool] = Field(min_length=1, max_length=MOST_TOOLS)
    time_told_by: Annotated[str, StringConstraints(max_length=200)] = ""


def is_documented(theme: ThemeDraft) -> bool:
    """Return whether the tools of a theme's environment are fixed by documents."""
    return theme.origin == "documents"


def has_documented_tools(plan: Plan) -> bool:
    """Return whether the tools of a plan are fixed by documents."""
    return any(operation.parameters is not None for operation in plan.operations)


async def plan_documented_tools(
    kit: Kit, theme: ThemeDraft, about: str, state: StatePlanReply
) -> tuple[tuple[OperationPlan, ...], str]:
    """Return an operation for every tool of the theme's documents, and the query of the current day, or "".

    Raise Rejected (`too_many_tools`) and the errors of `Kit.ask`.
    """
    tools = name_tools(theme.tools)
    words = get_prompt("skeleton", "plan_documented").render(
        theme=fence_text("theme", about),
        plan=fence_text("plan", format_state(state)),
        tools=fence_text("tools", describe_tools(tools, TOOL_CHARS)),
    )
    names = [tool.name for tool in tools]
    reply = await kit.ask(
        "author", "plan_documented", words, DocumentedReply, lambda answer: check_reply(answer, names, len(state.rules))
    )
    by_name = {tool.name: tool for tool in reply.tools}
    operations = tuple(
        OperationPlan(
            name=tool.name,
            description=tool.description[:DESCRIPTION_CHARS] or tool.name,
            kind=by_name[tool.name].kind,
            rules=tuple(by_name[tool.name].rules),
            parameters=tool.parameters if isinstance(tool.parameters, dict) else {},
        )
        for tool in tools
    )
    return operations, reply.time_told_by


def check_reply(reply: DocumentedReply, names: Collection[str], rules: int) -> None:
    """Raise InputError if a tool is omitted, added or repeated, or a rule does not exist."""
    reply_names = [tool.name for tool in reply.tools]
    missing = [name for name in names if name not in reply_names]
    added = [name for name in reply_names if name not in names]
    if missing:
        listed = ", ".join(missing[:20])
        raise InputError(f"these tools are missing: {listed}; name every tool, exactly as it is listed")
    if added or len(reply_names) != len(names):
        name = added[0] if added else next(name for name in reply_names if reply_names.count(name) > 1)
        raise InputError(f"{name[:NAME_CHARS]!r} must not stand there: each tool that is listed once, and no other")
    queries = [tool.name for tool in reply.tools if tool.kind == "query"]
    if reply.time_told_by and reply.time_told_by not in queries:
        raise InputError(f"time_told_by names {reply.time_told_by[:NAME_CHARS]!r}, which is no query among the tools")
    for tool in reply.tools:
        require_rules(tool.rules, rules, f"the tool {tool.name}")


def name_tools(tools: tuple[ToolSpec, ...]) -> tuple[ToolSpec, ...]:
    """Return the tools, and their parameters, with valid Python names: `X-Key` becomes `X_Key`, `from` `from_`.

    Raise Rejected if there are more tools than one program can have.
    """
    if len(tools) > MOST_TOOLS:
        message = f"The documents name {len(tools):,} tools; one environment can have {MOST_TOOLS}. Split the document."
        raise Rejected("too_many_tools", message, evidence={"tools": [tool.name for tool in tools[:200]]})
    taken_names: set[str] = set(RUNTIME_NAMES) | set(dir(builtins))
    renamed = []
    for tool in tools:
        name = make_python_name(tool.name[:NAME_CHARS], taken_names)
        taken_names.add(name)
        renamed.append(tool.model_copy(update={"name": name, "parameters": _name_parameters(tool.parameters)}))
    return tuple(renamed)


def make_python_name(wanted: str, taken: Collection[str]) -> str:
    """Return a valid Python name, the wanted one if it is free."""
    name = re.sub(r"\W+", "_", wanted, flags=re.ASCII).strip("_") or "unnamed"
    name = f"_{name}" if name[0].isdigit() else name
    name = f"call{name}" if name.startswith("_") else name
    candidate, number = name, 1
    while keyword.iskeyword(candidate) or candidate in taken:
        number += 1
        candidate = f"{name}_" if number == 2 and not name.endswith("_") else f"{name}_{number}"
    return candidate


def _name_parameters(parameters: Any) -> dict[str, Any]:
    """Return an object's schema whose properties can be the parameters of a method."""
    if isinstance(parameters, list):  # `{name, type, required}` each
        named_items = [item for item in parameters if isinstance(item, dict) and isinstance(item.get("name"), str)]
        described = {
            item["name"]: {key: item[key] for key in ("type", "description") if key in item} for item in named_items
        }
        parameters = {
            "properties": described,
            "required": [item["name"] for item in named_items if item.get("required")],
        }
    schema = dict(parameters) if isinstance(parameters, dict) else {}
    fields, required = schema.get("properties"), schema.get("required")
    names: dict[str, str] = {}
    for field in fields if isinstance(fields, dict) else ():
        names[field] = make_python_name(field, {"self", *names.values()})
    schema["type"] = "object"
    schema["properties"] = {names[field]: value for field, value in (fields or {}).items()} if names else {}
    schema["required"] = [names[field] for field in required or [] if isinstance(field, str) and field in names]
    return schema


def find_signature_problems(source: str, class_name: str, plan: Plan) -> list[str]:
    """Compare each method's signature with the documented parameters of its tool; one sentence each."""
    problems = []
    program_outline = outline_program(source, class_name)
    for operation in plan.operations:
        method = program_outline.method(operation.name)
        if operation.parameters is not None and method is not None:
            problems += compare_signature(operation.name, derive_working_schema(method), operation.parameters)
    return problems


def find_method_problems(source: str, operation: OperationPlan) -> list[str]:
    """Compare the signature of a separate method with its document; one sentence each."""
    if operation.parameters is None:
        return []
    lines = "".join(f"    {line}\n" if line.strip() else "\n" for line in source.splitlines())
    method = outline_program(f"class Alone:\n{lines}", "Alone").method(operation.name)
    return (
        [] if method is None else compare_signature(operation.name, derive_working_schema(method), operation.parameters)
    )


def compare_signature(name: str, found: dict[str, Any], documented: dict[str, Any]) -> list[str]:
    """Return the differences of a method's schema from the documented one: names, required parameters, plain types."""
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
    """Return the prompt's part on a documented tool's parameters, or "" if the author chooses them."""
    if operation.parameters is None:
        return ""
    schema = json.dumps(operation.parameters, ensure_ascii=False, separators=(",", ":"))
    return f"\nIts document fixes its parameters, by these names, to this schema: {schema}"

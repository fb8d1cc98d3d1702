"""Logic planning (EnvScaler 3.2, Eq. 2): a theme becomes state space and rules, then the list of operations."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterator, Sequence
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from synthesis.contracts import ToolKind
from synthesis.drafts import EntityPlan, OperationPlan, Plan, ThemeDraft
from synthesis.errors import InputError, Rejected
from synthesis.formats.records import ToolSpec
from synthesis.prompts import fenced, prompt
from synthesis.stages import Kit

THEME_CHARS = 8_000
"""Of name and description together: a theme is a short text."""
SPECS = 60
SPEC_CHARS = 300
NAME_CHARS = 64
"""Of a tool's name: what OpenAI-compatible servers take."""
_SNAKE = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_RUNTIME = frozenset(("reset", "state", "call", "fork", "close"))
"""What an episode does itself: an agent, a test or a check that says `reset` must not mean two things."""

Line = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=400)]
Title = Annotated[str, StringConstraints(strip_whitespace=True, max_length=120)]
Entity = Annotated[str, StringConstraints(strip_whitespace=True, pattern=r"^[A-Z][A-Za-z0-9]{1,59}$")]
Attribute = Annotated[str, StringConstraints(strip_whitespace=True, pattern=r"^[a-z][a-z0-9_]{0,59}$")]


class _PlanReply(BaseModel):
    model_config = ConfigDict(extra="ignore")


class EntityReply(_PlanReply):
    entity: Entity
    attributes: list[Attribute] = Field(min_length=1, max_length=30)
    description: Line


class StatePlanReply(_PlanReply):
    """The reply of `plan_state`."""

    name: Title = ""
    """Empty: the theme's."""
    introduction: Annotated[str, StringConstraints(strip_whitespace=True, min_length=20, max_length=2_000)]
    category: Annotated[str, StringConstraints(strip_whitespace=True, max_length=80)] = ""
    entities: list[EntityReply] = Field(min_length=1, max_length=20)
    rules: list[Line] = Field(min_length=2, max_length=20)


class OperationReply(_PlanReply):
    name: Annotated[str, StringConstraints(max_length=200)]
    description: Line
    kind: ToolKind


class OperationsReply(_PlanReply):
    """The reply of `plan_operations`."""

    operations: list[OperationReply] = Field(min_length=1, max_length=100)


async def plan(kit: Kit, theme: ThemeDraft) -> Plan:
    """The logic plan of an environment for this theme.

    Raises Rejected (`theme_empty`, `theme_too_long`) and what `Kit.ask` raises.
    """
    about = theme_text(theme)
    words = prompt("skeleton", "plan_state").render(theme=fenced("theme", about))
    state = await kit.ask("author", "plan_state", words, StatePlanReply, check_state)
    state = state if state.name else state.model_copy(update={"name": theme.name[:120] or theme.key})
    kit.check_stop()
    least, most = kit.settings.least_tools, kit.settings.most_tools
    words = prompt("skeleton", "plan_operations").render(
        theme=fenced("theme", about), plan=fenced("plan", state_text(state)), least=str(least), most=str(most)
    )
    reply = await kit.ask(
        "author", "plan_operations", words, OperationsReply, lambda answer: check_operations(answer, least, most)
    )
    return Plan(
        name=state.name,
        introduction=state.introduction,
        category=state.category or theme.category[:80],
        entities=tuple(EntityPlan(**entity.model_dump()) for entity in state.entities),
        rules=tuple(state.rules),
        operations=tuple(OperationPlan(**operation.model_dump()) for operation in reply.operations),
    )


def theme_text(theme: ThemeDraft) -> str:
    """A theme as a prompt tells it, with what its source says of tools. Raises Rejected."""
    about = f"{theme.name.strip()}\n{theme.description.strip()}".strip()
    if not about:
        raise Rejected("theme_empty", "The theme has neither name nor description; write a sentence about it.")
    if len(about) > THEME_CHARS:
        message = f"The theme has {len(about):,} characters; {THEME_CHARS:,} are allowed. Shorten its description."
        raise Rejected("theme_too_long", message, evidence={"characters": len(about), "start": about[:500]})
    tools = "\n".join(_spec(tool) for tool in theme.tools[:SPECS])
    return about + (f"\n\nTools that its source describes:\n{tools}" if tools else "")


def _spec(tool: ToolSpec) -> str:
    description = " ".join(tool.description.split())
    return f"- {tool.name[:NAME_CHARS]!r}: {description[:SPEC_CHARS]}"


def check_state(state: StatePlanReply) -> None:
    """Raises InputError where entities or attributes stand twice."""
    _once([entity.entity for entity in state.entities], "entity")
    for entity in state.entities:
        _once(entity.attributes, f"attribute of {entity.entity}")
    _once([rule.lower() for rule in state.rules], "rule")


def check_operations(reply: OperationsReply, least: int, most: int) -> None:
    """Raises InputError with everything that is wrong with names, number and kinds."""
    names = [operation.name for operation in reply.operations]
    wrong = [reason for name in names if (reason := name_problem(name))]
    if not least <= len(names) <= most:
        wrong.append(f"there must be {least} to {most} operations, not {len(names)}")
    for kind in ("query", "change"):
        if not any(operation.kind == kind for operation in reply.operations):
            wrong.append(f"no operation has the kind {kind!r}")
    if wrong:
        raise InputError("; ".join(wrong[:8]))
    _once(names, "operation")


def name_problem(name: str) -> str:
    """Why a tool cannot have this name, or an empty text."""
    shown = f"{name[:NAME_CHARS]!r}"
    if len(name) > NAME_CHARS:
        return f"the name {shown}… is longer than {NAME_CHARS} characters"
    if not _SNAKE.fullmatch(name):
        return f"{shown} is no name in snake_case (lower-case words joined by single underscores)"
    if keyword.iskeyword(name) or keyword.issoftkeyword(name) or name in dir(builtins):
        return f"{shown} is a word of Python; say what it acts on as well"
    if name in _RUNTIME:
        return f"{shown} is reserved by the runtime; say what it acts on as well"
    return ""


def state_text(state: StatePlanReply | Plan) -> str:
    """State space and rules as prompts show them."""
    return "\n".join(_state_lines(state))


def _state_lines(state: StatePlanReply | Plan) -> Iterator[str]:
    yield from (f"Environment: {state.name}", state.introduction, "", "State:")
    for entity in state.entities:
        yield f"- {entity.entity} ({', '.join(entity.attributes)}): {entity.description}"
    yield from ("", "Rules:")
    yield from (f"{number}. {rule}" for number, rule in enumerate(state.rules, 1))


def _once(names: Sequence[str], what: str) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"each {what} must stand once; these stand twice: {', '.join(repr(n) for n in twice[:5])}")

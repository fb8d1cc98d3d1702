"""Replies of an author who plans an environment, and their validation."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Callable, Sequence
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from synthesis.contracts import ToolKind
from synthesis.errors import InputError

LEAST_RULES = 2
NAME_CHARS = 64
"""Of a tool's name: what OpenAI-compatible servers take."""
_TIME = re.compile(
    r"\b(today|overdue|expired?|expires|deadline|current (date|day)|\d+ (days|weeks|months))\b", re.IGNORECASE
)
"""Words by which a rule may depend on the day it is."""
_SNAKE = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
RUNTIME_NAMES = frozenset(("reset", "state", "call", "fork", "close"))
"""What an episode does itself: an agent, a test or a check that says `reset` must not mean two things."""

Line = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=400)]
Title = Annotated[str, StringConstraints(strip_whitespace=True, max_length=120)]
Entity = Annotated[str, StringConstraints(strip_whitespace=True, pattern=r"^[A-Z][A-Za-z0-9]{1,59}$")]
Attribute = Annotated[str, StringConstraints(strip_whitespace=True, pattern=r"^[a-z][a-z0-9_]{0,59}$")]


class PlanReply(BaseModel):
    model_config = ConfigDict(extra="ignore")


class EntityReply(PlanReply):
    entity: Entity
    attributes: list[Attribute] = Field(min_length=1, max_length=30)
    description: Line


class TimeReply(PlanReply):
    """Role of time: `rules` by number, from 1; `kept_in` is the attribute that holds the current day."""

    rules: list[int] = Field(default_factory=list, max_length=20)
    kept_in: Attribute | Literal[""] = ""
    due: Annotated[str, StringConstraints(strip_whitespace=True, max_length=400)] = ""


class StatePlanReply(PlanReply):
    """Reply of `plan_state`."""

    name: Title = ""
    """Empty: the theme's."""
    introduction: Annotated[str, StringConstraints(strip_whitespace=True, min_length=20, max_length=2_000)]
    category: Annotated[str, StringConstraints(strip_whitespace=True, max_length=80)] = ""
    entities: list[EntityReply] = Field(min_length=1, max_length=20)
    rules: list[Line] = Field(min_length=LEAST_RULES, max_length=20)
    time: TimeReply = Field(default_factory=TimeReply)


class OperationReply(PlanReply):
    name: Annotated[str, StringConstraints(max_length=200)]
    description: Line
    kind: ToolKind
    rules: list[int] = Field(default_factory=list, max_length=20)


class OperationsReply(PlanReply):
    """Reply of `plan_operations`. `time_told_by` names the query that returns the current day."""

    operations: list[OperationReply] = Field(min_length=1, max_length=100)
    time_told_by: Annotated[str, StringConstraints(max_length=200)] = ""


def make_state_check() -> Callable[[StatePlanReply], None]:
    """Return a check of the replies to one question; it objects only once if rules mention days and `time` has none."""
    told: list[str] = []

    def check_reply(state: StatePlanReply) -> None:
        check_state(state)
        dated = [number for number, rule in enumerate(state.rules, 1) if _TIME.search(rule)]
        if dated and not state.time.rules and not told:
            told.append(message := _describe_undated(dated))
            raise InputError(message)

    return check_reply


def _describe_undated(rules: Sequence[int]) -> str:
    numbers = ", ".join(map(str, rules))
    return (
        f"rule{'s' * (len(rules) > 1)} {numbers} may depend on the day it is: name in `time` those that do, where that "
        "day is kept and when something falls due; if none does, repeat the reply"
    )


def check_state(state: StatePlanReply) -> None:
    """Raise InputError if entities or attributes are repeated, or if `time` does not define the role of time."""
    _require_distinct([entity.entity for entity in state.entities], "entity")
    for entity in state.entities:
        _require_distinct(entity.attributes, f"attribute of {entity.entity}")
    _require_distinct([rule.lower() for rule in state.rules], "rule")
    require_rules(state.time.rules, len(state.rules), "time.rules")
    missing = [name for name in ("kept_in", "due") if not getattr(state.time, name)]
    if state.time.rules and missing:
        raise InputError(f"rules depend on the day it is, so `time` must say {' and '.join(missing)}")


def require_rules(numbers: Sequence[int], rules: int, where: str) -> None:
    """Raise InputError for numbers of rules that do not exist."""
    absent = [number for number in numbers if not 1 <= number <= rules]
    if absent:
        raise InputError(f"{where} names rule {absent[0]}; the rules are 1 to {rules}")


def check_operations(reply: OperationsReply, least: int, most: int, rules: int) -> None:
    """Raise InputError with all faults of names, number and kinds, and of references."""
    names = [operation.name for operation in reply.operations]
    wrong = [reason for name in names if (reason := find_name_problem(name))]
    queries = [operation.name for operation in reply.operations if operation.kind == "query"]
    if reply.time_told_by and reply.time_told_by not in queries:
        wrong.append(f"time_told_by names {reply.time_told_by[:NAME_CHARS]!r}, which is no query among the operations")
    if not least <= len(names) <= most:
        wrong.append(f"there must be {least} to {most} operations, not {len(names)}")
    for kind in ("query", "change"):
        if not any(operation.kind == kind for operation in reply.operations):
            wrong.append(f"no operation has the kind {kind!r}")
    if wrong:
        raise InputError("; ".join(wrong[:8]))
    _require_distinct(names, "operation")
    for operation in reply.operations:
        require_rules(operation.rules, rules, f"the operation {operation.name}")


def find_name_problem(name: str) -> str:
    """Return why a tool cannot have this name; empty if it can."""
    shown_name = f"{name[:NAME_CHARS]!r}"
    if len(name) > NAME_CHARS:
        return f"the name {shown_name}… is longer than {NAME_CHARS} characters"
    if not _SNAKE.fullmatch(name):
        return f"{shown_name} is no name in snake_case (lower-case words joined by single underscores)"
    if keyword.iskeyword(name) or keyword.issoftkeyword(name) or name in dir(builtins):
        return f"{shown_name} is a word of Python; say what it acts on as well"
    if name in RUNTIME_NAMES:
        return f"{shown_name} is reserved by the runtime; say what it acts on as well"
    return ""


def _require_distinct(names: Sequence[str], what: str) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"each {what} must stand once; these stand twice: {', '.join(repr(n) for n in twice[:5])}")

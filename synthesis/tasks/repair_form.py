"""The form in which an author repairs a task's checks: one block of code, each function below its condition."""

from __future__ import annotations

import ast
import re
from typing import Any

from pydantic import Field, ValidationError

from synthesis import syntax
from synthesis.errors import InputError
from synthesis.scenarios.states import AuthorReply
from synthesis.tasks.checklist import MOST, Item
from synthesis.tasks.task_frame import MOST_FREE, FreePlace

_CONDITION = re.compile(r"^#[ \t]*Condition(?:[ \t]+\d+)?[ \t]*:[ \t]*(.*)$", re.MULTILINE | re.IGNORECASE)


class RepairedCheck(AuthorReply):
    """One condition with its whole function."""

    label: Item
    source: str = Field(min_length=20, max_length=10_000)


class RepairReply(AuthorReply):
    """What the author replies: all conditions with all functions, also those that stay."""

    checks: tuple[RepairedCheck, ...] = Field(min_length=1, max_length=MOST)
    free: tuple[FreePlace, ...] | None = Field(default=None, max_length=MOST_FREE)
    """None: what was declared free stays."""


def read_repair(source: str) -> RepairReply:
    """The repair in a block of code. Raises InputError."""
    places = list(_CONDITION.finditer(source))
    if not places:
        raise InputError("no line begins with `# Condition: `; write one above each function")
    ends = [place.start() for place in places[1:]] + [len(source)]
    checks = [
        {"label": place[1].strip(), "source": source[place.end() : end].strip() + "\n"}
        for place, end in zip(places, ends, strict=True)
    ]
    try:
        return RepairReply.model_validate({"checks": checks, "free": _free(source[: places[0].start()])})
    except ValidationError as error:
        first = error.errors(include_input=False, include_context=False, include_url=False)[0]
        raise InputError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}"[:400]) from None


def _free(head: str) -> Any:
    """What `FREE = [...]` above the first condition says; None where it does not stand there."""
    try:
        tree = syntax.parse(head)
    except syntax.UNREADABLE:
        raise InputError("what stands above the first condition is no Python") from None
    for part in tree.body:
        target = part.targets[0] if isinstance(part, ast.Assign) else None
        if isinstance(part, ast.Assign) and isinstance(target, ast.Name) and target.id == "FREE":
            try:
                return syntax.literal(ast.get_source_segment(head, part.value) or "")
            except (*syntax.UNREADABLE, TypeError):
                raise InputError("FREE must be a list of plain objects, without anything that is computed") from None
    return None

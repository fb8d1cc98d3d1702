"""Form of an author's repair of a task's verifier: one block of code, each function below its condition.

Other changes are assigned above them (`FREE`, `NOT_ASKED`, `FORM`, `EXPECTED`).
"""

from __future__ import annotations

import ast
import re
from typing import Any

from pydantic import Field, ValidationError

from synthesis import syntax
from synthesis.contracts import AnswerField
from synthesis.errors import InputError
from synthesis.formats.answer_form import MOST_FIELDS
from synthesis.scenarios.states import AuthorReply
from synthesis.tasks.checklist import MOST, Item
from synthesis.tasks.task_frame import MOST_FREE, FreePlace

MOST_CALLS = 500
_HEAD = {"FREE": "free", "NOT_ASKED": "not_asked", "FORM": "answer_form", "EXPECTED": "expected_answer"}
_CONDITION = re.compile(r"^#[ \t]*Condition(?:[ \t]+\d+)?[ \t]*:[ \t]*(.*)$", re.MULTILINE | re.IGNORECASE)


class RepairedCheck(AuthorReply):
    """One condition with its whole function."""

    label: Item
    source: str = Field(min_length=20, max_length=10_000)


class RepairReply(AuthorReply):
    """Reply of the author: all conditions with all functions, including unchanged ones; of the rest only changes.

    `not_asked` are numbers of calls, from 1, that the task does not ask for.
    """

    checks: tuple[RepairedCheck, ...] = Field(min_length=1, max_length=MOST)
    free: tuple[FreePlace, ...] | None = Field(default=None, max_length=MOST_FREE)
    not_asked: tuple[int, ...] = Field(default=(), max_length=MOST_CALLS)
    answer_form: tuple[AnswerField, ...] | None = Field(default=None, max_length=MOST_FIELDS)
    expected_answer: dict[str, Any] | None = None


def read_repair(source: str) -> RepairReply:
    """Return the repair in a block of code. Raise InputError if it is malformed."""
    places = list(_CONDITION.finditer(source))
    if not places:
        raise InputError("no line begins with `# Condition: `; write one above each function")
    ends = [place.start() for place in places[1:]] + [len(source)]
    checks = [
        {"label": place[1].strip(), "source": source[place.end() : end].strip() + "\n"}
        for place, end in zip(places, ends, strict=True)
    ]
    try:
        return RepairReply.model_validate({"checks": checks, **_read_head(source[: places[0].start()])})
    except ValidationError as error:
        first = error.errors(include_input=False, include_context=False, include_url=False)[0]
        raise InputError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}"[:400]) from None


def _read_head(head: str) -> dict[str, Any]:
    """Return the values assigned above the first condition, by field of the reply."""
    try:
        tree = syntax.parse_module(head)
    except syntax.UNREADABLE:
        raise InputError("what stands above the first condition is no Python") from None
    values: dict[str, Any] = {}
    for part in tree.body:
        target = part.targets[0] if isinstance(part, ast.Assign) else None
        if isinstance(part, ast.Assign) and isinstance(target, ast.Name) and target.id in _HEAD:
            try:
                values[_HEAD[target.id]] = syntax.read_literal(ast.get_source_segment(head, part.value) or "")
            except (*syntax.UNREADABLE, TypeError):
                message = f"{target.id} must be a plain Python value, without anything that is computed"
                raise InputError(message) from None
    return values

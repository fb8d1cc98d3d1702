"""A sound task of a small shop in the database, and changes that spoil it."""

from __future__ import annotations

from typing import Any

from synthesis.contracts import CheckRecord, Reference
from synthesis.formats.answer_form import serialize_form
from synthesis.formats.records import EnvironmentRecord, TaskRecord, ToolRecord
from tests.fixtures.imported_task import imported_task
from tests.verifier_fields import nest_verifier
from tests.verifiers.shop import ANSWER, FORM, FRAME, INITIAL, OTHERS, SOURCE, TEA, UNPINNED, check, reference
from webapp.scenarios.models import Task

EVIL = "<script>alert(1)</script>\u202e"
WEAK = check("'tea' in final_state['orders']")
KINDS = {"order": "change", "look": "query", "stamp": "change", "draw": "change"}


def environment_record(key: str = "shop") -> EnvironmentRecord:
    tools = tuple(ToolRecord(name=name, kind=kind) for name, kind in KINDS.items())  # type: ignore[arg-type]
    return EnvironmentRecord(key=key, name=f"Shop {EVIL}", class_name="Shop", source=SOURCE, tools=tools)


def task_record(*checks: str, **changes: Any) -> TaskRecord:
    """Three teas; `key` also makes the record another one. A weak check has a frame that does not help it."""
    listed = checks or (TEA, OTHERS, ANSWER)
    fields: dict[str, Any] = {
        "environment_key": "shop",
        "key": "three-teas",
        "title": f"Three teas {EVIL}",
        "instruction": "Order three teas.",
        "initial_state": INITIAL,
        "checks": tuple(CheckRecord(label=f"Number {n} {EVIL}", source=one) for n, one in enumerate(listed, 1)),
        "answer_form": FORM,
        "expected_answer": {"count": 3},
        "score_rule": "goals",
        "reference": reference(),
        "frame": UNPINNED if WEAK in listed else FRAME,
    }
    fields |= changes
    raw = {"task_id": fields["key"], "task": fields["instruction"], "checks": list(listed)}
    fields.setdefault("raw", raw | serialize_form(fields["answer_form"], fields["expected_answer"]))
    return TaskRecord(**nest_verifier(fields))


def make_task(*checks: str, environment: str = "shop", **changes: Any) -> Task:
    return imported_task(environment_record(environment), task_record(*checks, **changes))


def other_reference() -> Reference:
    return reference(answer='{"count": 3.0}')

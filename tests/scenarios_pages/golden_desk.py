"""A desk that writes down visits and when a guest was seen: what it leaves differs from run to run."""

from __future__ import annotations

from typing import Any

from synthesis.contracts import AnswerField, CheckRecord, Reference, ReferenceCall
from synthesis.formats.answer_form import add_field_checks, serialize_form
from synthesis.formats.records import EnvironmentRecord, TaskRecord, ToolRecord
from tests.fixtures.imported_task import imported_task
from tests.verifier_fields import nest_verifier
from webapp.scenarios.models import Task

EVIL = "<script>alert(1)</script>\u202e"
SOURCE = '''
import datetime
import random


class Desk:
    """Keeps guests and visits."""

    def __init__(self, state):
        self.guests = {key: dict(item) for key, item in state.get("guests", {}).items()}
        self.visits = dict(state.get("visits", {}))

    def visit(self, guest: str, room: str) -> dict:
        """Write down a visit."""
        key = f"V-{random.getrandbits(64):016x}"
        at = datetime.datetime.now().isoformat()
        self.visits[key] = {"visit_id": key, "guest": guest, "room": room, "at": at}
        return {"visit": key}

    def see(self, guest: str) -> dict:
        """Note when a guest was seen last."""
        self.guests[guest]["seen"] = datetime.datetime.now().isoformat()
        return {"ok": True}
'''
FORM = (AnswerField(name="room", type="text"),)
SEEN = "/guests/ann/seen"
STATE: dict[str, Any] = {"guests": {"ann": {"name": f"Ann {EVIL}", "seen": "2026-01-01T08:00:00"}}, "visits": {}}
VISITED = CheckRecord(
    label=f"There is a visit {EVIL}",
    source="def check_func(initial_state, final_state, answer):\n    return len(final_state['visits']) == 1\n",
)
ANSWER = '{"room": "red"}'


def call(tool: str, **arguments: Any) -> ReferenceCall:
    return ReferenceCall(tool=tool, arguments=arguments)


VISIT, SEE = call("visit", guest="ann", room="red"), call("see", guest="ann")


def environment_record() -> EnvironmentRecord:
    tools = tuple(ToolRecord(name=name, kind="change") for name in ("visit", "see"))
    return EnvironmentRecord(key="desk", name=f"Desk {EVIL}", class_name="Desk", source=SOURCE, tools=tools)


def make_task(*calls: ReferenceCall, **changes: Any) -> Task:
    """A task that checks judge, with a reference: a visit, and that the guest was seen."""
    fields: dict[str, Any] = {
        "environment_key": "desk",
        "key": "a-visit",
        "title": f"A visit {EVIL}",
        "instruction": "Ann visits the red room, and was seen.",
        "initial_state": STATE,
        "checks": add_field_checks([VISITED], FORM, {"room": "red"}),
        "answer_form": FORM,
        "expected_answer": {"room": "red"},
        "reference": Reference(calls=calls or (VISIT, SEE), answer=ANSWER),
    } | changes
    listed = [{"check_item": VISITED.label, "check_func": VISITED.source}]
    raw = {"env_id": "desk", "task_id": fields["key"], "task": fields["instruction"], "checklist_with_func": listed}
    raw["init_config"] = fields["initial_state"]
    fields.setdefault("raw", raw | serialize_form(fields["answer_form"], fields["expected_answer"]))
    return imported_task(environment_record(), TaskRecord(**nest_verifier(fields)))

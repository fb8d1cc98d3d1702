"""Golden states made of references, and audited: of a small desk, and of bundled tasks."""

from __future__ import annotations

from typing import Any

import pytest

from synthesis.contracts import (
    AnswerField,
    GoldenVerifier,
    Program,
    Reference,
    ReferenceCall,
    Tool,
    Volatile,
)
from synthesis.errors import InputError
from synthesis.formats.answer_form import build_field_checks
from synthesis.runtime import Sandbox, encode_state
from synthesis.verifiers.audit import audit_task
from synthesis.verifiers.audit_report import TaskAudit
from synthesis.verifiers.call_sequences import Subject, run_calls
from synthesis.verifiers.golden import hash_golden
from synthesis.verifiers.golden.golden_states import MadeGolden, make_golden
from synthesis.verifiers.rewards import score_end

from .test_pinned_values import call, desk

SOURCE = '''
import datetime
import random
import uuid


class Desk:
    """Keeps visits, keys and notes."""

    def __init__(self, state):
        self.guests = {key: dict(item) for key, item in state.get("guests", {}).items()}
        self.visits = dict(state.get("visits", {}))
        self.badges = list(state.get("badges", []))
        self.loans = list(state.get("loans", []))
        self.notes = list(state.get("notes", []))
        self.marks = dict(state.get("marks", {}))
        self.next_badge = state.get("next_badge", 1)

    def visit(self, guest: str, room: str) -> dict:
        """Write down a visit."""
        key = uuid.UUID(int=random.getrandbits(128)).hex
        at = datetime.datetime.now().isoformat()
        self.visits[key] = {"visit_id": key, "guest": guest, "room": room, "at": at, "code": random.randrange(10**9)}
        return {"visit": key}

    def badge(self, guest: str, visits: int) -> dict:
        """Make a badge."""
        number = str(self.next_badge)
        self.next_badge += 1
        self.badges.append({"id": number, "guest": guest, "visits": visits})
        self.loans.append({"badge_id": number, "count": visits})
        return {"badge": number}

    def take_back(self, badge: str) -> dict:
        """Destroy a badge."""
        self.badges = [item for item in self.badges if item["id"] != badge]
        self.loans = [item for item in self.loans if item["badge_id"] != badge]
        return {"ok": True}

    def see(self, guest: str) -> dict:
        """Note when a guest was seen last."""
        self.guests[guest]["seen"] = datetime.datetime.now().isoformat()
        return {"ok": True}

    def note(self, text: str) -> dict:
        """Note something, with the time before it."""
        self.notes.append(f"{datetime.datetime.now().isoformat()} {text}")
        return {"ok": True}

    def mark(self, guest: str) -> dict:
        """Mark a guest."""
        self.marks[f"{guest}:{random.randrange(10**9)}"] = {"kind": "mark"}
        return {"ok": True}

    def draw(self) -> dict:
        """Draw some numbers."""
        self.notes += [str(random.randrange(10)) for _ in range(random.randrange(1, 40))]
        return {"ok": True}

    def leave(self, visit: str) -> dict:
        """End a visit."""
        self.visits[visit] = {**self.visits[visit], "left": True}
        return {"ok": True}

    def look(self) -> dict:
        """Look at the guests."""
        return dict(self.guests)
'''
TEXT = {"type": "string"}
NUMBER = {"type": "integer"}
PARAMETERS: dict[str, dict[str, Any]] = {
    "visit": {"guest": TEXT, "room": TEXT},
    "badge": {"guest": TEXT, "visits": NUMBER},
    "take_back": {"badge": TEXT},
    "see": {"guest": TEXT},
    "note": {"text": TEXT},
    "mark": {"guest": TEXT},
    "draw": {},
    "leave": {"visit": TEXT},
    "look": {},
}
TOOLS = tuple(
    Tool(
        name=name,
        kind="query" if name == "look" else "change",
        parameters={"type": "object", "properties": fields, "required": list(fields)},
    )
    for name, fields in PARAMETERS.items()
)
START = {
    "guests": {"G-01": {"name": "Ada", "seen": ""}, "G-02": {"name": "Bo", "seen": ""}},
    "badges": [{"id": "1", "guest": "G-02", "visits": 2}],
    "next_badge": 2,
}
FORM = (AnswerField(name="rooms", type="number"),)
ANSWER = '{"rooms": 2}'
VISIT = ReferenceCall(tool="visit", arguments={"guest": "G-01", "room": "blue"})
BADGE = ReferenceCall(tool="badge", arguments={"guest": "G-01", "visits": 3})
FOUND = {
    ("/visits/+", "id"),
    ("/visits/+/at", "timestamp"),
    ("/visits/+/code", "token"),
    ("/badges/+", "id"),
    ("/loans/+", "id"),
    ("/next_badge", "counter"),
}


def calls(*tools: Any) -> tuple[ReferenceCall, ...]:
    return tuple(
        one if isinstance(one, ReferenceCall) else ReferenceCall(tool=one[0], arguments=one[1]) for one in tools
    )


def subject(*tools: Any, verifier: Any = None, form: Any = (), answer: str = "") -> Subject:
    return Subject(
        program=Program(source=SOURCE, class_name="Desk", tools=TOOLS),
        initial=encode_state(START),
        answer_form=form,
        verifier=verifier or GoldenVerifier(state={}),
        reference=Reference(calls=calls(*tools), answer=answer),
    )


def make(sandbox: Sandbox, *tools: Any, form: Any = (), equality: Any = "roles") -> MadeGolden:
    checks = build_field_checks(form, {"rooms": 2})
    return make_golden(sandbox, subject(*tools, form=form), checks=checks, equality=equality)


def kinds(found: TaskAudit) -> set[str]:
    noted = {"answer_ignored", "argument_unaltered", "check_never_fails"}
    return {str(fault.kind) for fault in found.faults if fault.kind not in noted}


def message(found: TaskAudit, kind: str) -> str:
    return next(fault.message for fault in found.faults if fault.kind == kind)


def earned(sandbox: Sandbox, golden: GoldenVerifier, *tools: Any, **changes: Any) -> float:
    task = subject().model_copy(update=changes)
    start, end = run_calls(sandbox, task, ()).state, run_calls(sandbox, task, calls(*tools)).state
    assert start is not None
    assert end is not None
    return score_end(sandbox, golden, start, end, ANSWER).reward


def test_roles_are_found_by_executing_the_reference(sandbox: Sandbox) -> None:
    made = make(sandbox, VISIT, BADGE)
    assert {(item.path, item.role) for item in made.golden.volatile} == FOUND
    assert made.unapproved == ()
    right = made.golden
    assert earned(sandbox, right, VISIT, BADGE) == earned(sandbox, right, BADGE, VISIT) == 1
    assert earned(sandbox, right, VISIT, BADGE, seed=77, now="2031-02-03T04:05:06+00:00") == 1
    detour = ("badge", {"guest": "G-02", "visits": 9}), ("take_back", {"badge": "2"})
    assert earned(sandbox, right, *detour, VISIT, BADGE) == 1
    wrong = [
        (VISIT,),
        (VISIT, BADGE, BADGE),
        (VISIT, VISIT, BADGE),
        (VISIT, ("badge", {"guest": "G-01", "visits": 2})),
        (VISIT, ("badge", {"guest": "G-02", "visits": 3})),
        (("visit", {"guest": "G-01", "room": "red"}), BADGE),
        (VISIT, BADGE, ("take_back", {"badge": "1"})),
        (VISIT, BADGE, ("see", {"guest": "G-01"})),
        # The count of visits is the number of the badge, which is volatile.
        (*detour, VISIT, ("badge", {"guest": "G-01", "visits": 4})),
    ]
    assert [earned(sandbox, right, *way) for way in wrong] == [0] * len(wrong)


def test_later_calls_may_name_what_earlier_ones_added(sandbox: Sandbox) -> None:
    """By the id that it has in each run."""
    first = run_calls(sandbox, subject(), calls(VISIT)).state
    assert first is not None
    (key,) = first["visits"]
    leave = ("leave", {"visit": key})
    golden = make(sandbox, VISIT, leave).golden
    assert {(item.path, item.role) for item in golden.volatile} >= {("/visits/+", "id"), ("/visits/+/code", "token")}
    found = audit_task(sandbox, subject(VISIT, leave, verifier=golden))
    assert (found.state, kinds(found)) == ("green", set())
    assert found.other_seed is not None
    assert found.other_seed.reward == 1


def test_what_existed_at_the_start_needs_a_person(sandbox: Sandbox) -> None:
    see = ("see", {"guest": "G-01"})
    made = make(sandbox, VISIT, see)
    (asked,) = made.unapproved
    assert (asked.path, asked.role) == ("/guests/G-01/seen", "timestamp")
    assert asked.path not in {item.path for item in made.golden.volatile}
    found = audit_task(sandbox, subject(VISIT, see, verifier=made.golden))
    assert "/guests/G-01/seen" in message(found, "volatile_undeclared")
    bare = made.golden.model_copy(update={"volatile": (*made.golden.volatile, asked)})
    found = audit_task(sandbox, subject(VISIT, see, verifier=bare))
    assert kinds(found) == {"volatile_unapproved"}
    assert "/guests/G-01/seen is volatile (timestamp)" in message(found, "volatile_unapproved")
    named = asked.model_copy(update={"by": "Ada", "reason": "Whenever it was."})
    signed = made.golden.model_copy(update={"volatile": (*made.golden.volatile, named)})
    assert audit_task(sandbox, subject(VISIT, see, verifier=signed)).state == "green"
    assert hash_golden(signed) == hash_golden(bare) != hash_golden(made.golden)


@pytest.mark.parametrize(
    ("way", "path"),
    [(("note", {"text": "for G-01"}), "/notes/+"), (("mark", {"guest": "G-01"}), "/marks/+")],
    ids=["text", "id"],
)
def test_what_also_says_something_else_needs_a_person(sandbox: Sandbox, way: Any, path: str) -> None:
    made = make(sandbox, VISIT, way)
    assert [item.path for item in made.unapproved] == [path]
    approved = made.golden.model_copy(update={"volatile": (*made.golden.volatile, *made.unapproved)})
    assert earned(sandbox, approved, VISIT, way, seed=5) == 1
    other = (way[0], dict.fromkeys(way[1], "G-02"))
    assert earned(sandbox, approved, VISIT, other, seed=5) == (way[0] == "note")


def test_what_makes_no_golden_state_is_said(sandbox: Sandbox) -> None:
    with pytest.raises(InputError, match="says nothing of an answer"):
        make(sandbox, ("look", {}))
    with pytest.raises(InputError, match="leaves other fields or another number of records in /notes"):
        make(sandbox, ("draw", {}))
    with pytest.raises(InputError, match="Give the task a reference"):
        make_golden(sandbox, subject().model_copy(update={"reference": None}))
    assert make(sandbox, ("look", {}), form=FORM).golden.checks


def test_a_sound_golden_state_is_green(sandbox: Sandbox) -> None:
    made = make(sandbox, VISIT, BADGE, form=FORM)
    task = subject(VISIT, BADGE, verifier=made.golden, form=FORM, answer=ANSWER)
    found = audit_task(sandbox, task)
    assert (found.state, kinds(found)) == ("green", set())
    assert found.below == len(found.counted) > 10
    assert list(found.marks) == ["goal", "goal"]
    assert found.nothing.outside
    removed = next(one for one in found.mutants if one.mutant.kind == "call_removed")
    assert removed.noticed_by == (0,)
    answers = [one for one in found.mutants if one.mutant.kind == "answer_altered"]
    assert answers
    assert all(one.noticed_by == (1,) for one in answers)
    assert audit_task(sandbox, task.model_copy(update={"reference": None})).state == "unproven"


def test_an_audit_makes_a_detour_which_must_earn_everything(sandbox: Sandbox) -> None:
    task = desk(call("lock", room="R1"))
    task = task.model_copy(update={"answer_form": (), "initial": {**task.initial, "changed": "2026-01-01T00:00:00"}})
    golden = make_golden(sandbox, task).golden
    assert [(item.path, item.role) for item in golden.volatile] == [("/next_booking", "counter")]
    approved = Volatile(path="/changed", role="timestamp", reason="Whoever came last.", by="Ada")
    golden = golden.model_copy(update={"volatile": (*golden.volatile, approved)})
    found = audit_task(sandbox, task.model_copy(update={"verifier": golden}))
    (detour, *_) = [one for one in found.mutants if one.mutant.kind == "detour_made"]
    assert [one.tool for one in detour.mutant.reference.calls] == ["lock", "book", "release"]
    assert (detour.probe.reward, found.state) == (1, "green")


def test_plain_equality_depends_on_seed_and_clock(sandbox: Sandbox) -> None:
    made = make(sandbox, VISIT, equality="plain")
    assert made.golden.volatile == ()
    found = audit_task(sandbox, subject(VISIT, verifier=made.golden))
    assert (found.state, kinds(found)) == ("green", {"depends_on_seed", "depends_on_clock"})
    assert "detour_made" not in {one.mutant.kind for one in found.mutants}


def test_bad_golden_states_are_red(sandbox: Sandbox) -> None:
    made = make(sandbox, VISIT, BADGE).golden
    free = made.model_copy(update={"volatile": (*made.volatile, Volatile(path="/visits/+/room", role="token"))})
    found = audit_task(sandbox, subject(VISIT, BADGE, verifier=free))
    assert "/visits/+/room is volatile (token)" in message(found, "volatile_unapproved")
    assert any(one.equivalent for one in found.mutants), "what differs there alone is not told from the reference"
    found = audit_task(sandbox, subject(VISIT, BADGE, verifier=made.model_copy(update={"volatile": ()})))
    assert found.state == "red"
    assert "at another moment, the reference leaves something else in /visits" in message(found, "volatile_undeclared")
    start = run_calls(sandbox, subject(), ()).state
    found = audit_task(sandbox, subject(VISIT, BADGE, verifier=GoldenVerifier(state=start)))
    assert kinds(found) >= {"no_goal", "noop_scores", "reference_fails"}
    assert "Give the task an answer form" in message(found, "no_goal")


def test_a_score_says_what_differs(sandbox: Sandbox) -> None:
    task = subject(VISIT, BADGE)
    golden = make(sandbox, VISIT, BADGE, form=FORM).golden
    start = run_calls(sandbox, task, ()).state
    wrong = run_calls(sandbox, task, calls(VISIT, ("badge", {"guest": "G-02", "visits": 3}))).state
    right = run_calls(sandbox, task, calls(VISIT, BADGE)).state
    assert start is not None
    assert wrong is not None
    assert right is not None
    reward = score_end(sandbox, golden, start, wrong, ANSWER)
    assert (reward.reward, reward.rule, reward.passed, reward.total) == (0, "golden", 1, 2)
    assert reward.verdicts[0].reason == (
        "It differs from the golden state: guest of a new record in badges should be “G-01”, is “G-02”."
    )
    assert score_end(sandbox, golden, start, right, '{"rooms": 3}').reward == 0
    assert score_end(sandbox, golden, start, right, ANSWER).reward == 1

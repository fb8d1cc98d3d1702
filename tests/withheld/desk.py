"""A desk that books rooms, and tasks of which a tool or a parameter can be withheld, or not."""

from __future__ import annotations

from typing import Any

from synthesis.contracts import AnswerField, ChecksVerifier, Program, Reference, ReferenceCall
from synthesis.formats.answer_form import build_field_checks, serialize_answer
from synthesis.formats.records import EnvironmentRecord, ToolRecord
from synthesis.runtime import encode_state
from synthesis.starter import build_program
from synthesis.verifiers.call_sequences import Subject
from tests.verifier_fields import list_checks

SOURCE = '''
class Desk:
    """Books rooms."""

    def __init__(self, state):
        self.bookings = dict(state.get("bookings", {}))
        self.badges = dict(state.get("badges", {}))

    def list_bookings(self) -> dict:
        """List what is booked."""
        return dict(self.bookings)

    def book_room(self, who: str, room: str, floor_note: str = "") -> dict:
        """Book a room for somebody.

        Args:
            who: The person's name.
            room: The room's number.
            floor_note: What the porter is to know.
        """
        key = "B-" + str(len(self.bookings) + 2)
        self.bookings[key] = {"who": who, "room": room, "note": floor_note}
        return {"booking_id": key}

    def drop_booking(self, booking_id: str, reason: str = "") -> dict:
        """Drop a booking.

        Args:
            booking_id: Which one.
            reason: Why.
        """
        if booking_id not in self.bookings:
            return {"success": False, "message": "There is no such booking."}
        del self.bookings[booking_id]
        return {"success": True}

    def give_badge(self, who: str) -> dict:
        """Give somebody a badge."""
        self.badges[who] = "given"
        return {"success": True}

    def hand_badge(self, who: str) -> dict:
        """Hand a badge to somebody."""
        self.badges[who] = "given"
        return {"success": True}
'''
KINDS = {
    "list_bookings": "query",
    "book_room": "change",
    "drop_booking": "change",
    "give_badge": "change",
    "hand_badge": "change",
}
INITIAL: dict[str, Any] = {
    "bookings": {"B-1": {"who": "Amina Yusuf", "room": "R-1", "note": ""}},
    "badges": {"Amina Yusuf": "none", "Olga Sokolova": "none"},
}


def check(says: str) -> str:
    return f"def check(initial_state, final_state, answer):\n    return {says}\n"


BOOKED = check("any(b['who'] == 'Olga Sokolova' and b['room'] == 'R-2' for b in final_state['bookings'].values())")
NOTED = check("any(b['note'] == 'ground floor' for b in final_state['bookings'].values())")
DROPPED = check("'B-1' not in final_state['bookings']")
BADGE = check("final_state['badges']['Olga Sokolova'] == 'given'")
FORM = (AnswerField(name="room", type="id", description="The room that she has"),)
EXPECTED = {"room": "R-2"}
(ROOM,) = (made.source for made in build_field_checks(FORM, EXPECTED))
ANSWERS = serialize_answer(EXPECTED)


def call(tool: str, **arguments: Any) -> ReferenceCall:
    return ReferenceCall(tool=tool, arguments=arguments)


LOOK = call("list_bookings")
BOOK = call("book_room", who="Olga Sokolova", room="R-2")
NOTE = call("book_room", who="Olga Sokolova", room="R-2", floor_note="ground floor")
DROP = call("drop_booking", booking_id="B-1", reason="she is ill")
GIVE = call("give_badge", who="Olga Sokolova")


def environment() -> EnvironmentRecord:
    tools = tuple(
        ToolRecord(name=name, kind=kind, description=_described(name))  # type: ignore[arg-type]
        for name, kind in KINDS.items()
    )
    return EnvironmentRecord(key="desk", name="Desk", class_name="Desk", source=SOURCE, tools=tools)


def _described(name: str) -> str:
    """The method's docstring."""
    text = SOURCE.partition(f"def {name}(")[2].partition('"""')[2].partition('"""')[0]
    return "\n".join(line.removeprefix("        ") for line in text.splitlines()).strip()


def program() -> Program:
    return build_program(environment())


def subject(*calls: ReferenceCall, checks: tuple[str, ...], answer: str = ANSWERS) -> Subject:
    reference = Reference(calls=calls, answer=answer)
    initial, form = encode_state(INITIAL), FORM if ROOM in checks else ()
    verifier = ChecksVerifier(checks=list_checks(checks))
    return Subject(program=program(), initial=initial, answer_form=form, verifier=verifier, reference=reference)

"""An inn whose rooms have prices, and an author and a solver who reply what a test says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from synthesis.assessment.environments import build_view
from synthesis.contracts import AnswerField, Message
from synthesis.drafts import ScenarioDraft, TaskDraft
from synthesis.formats.records import EnvironmentRecord, ToolRecord
from synthesis.llm.asker import Asker
from synthesis.llm.calls import StageCall
from synthesis.llm.chat import Reply
from synthesis.llm.store import MemoryStore
from synthesis.programmatic.solution_stage import write_solution
from synthesis.programmatic.verification_stage import write_verification
from synthesis.runtime import Sandbox, encode_state
from synthesis.stages import Kit, StageSettings
from synthesis.variant_settings import ProgrammaticSettings

SOURCE = '''
import random


class Inn:
    """Keeps rooms."""

    def __init__(self, state):
        self.rooms = {key: dict(room) for key, room in state.get("rooms", {}).items()}
        self.accounts = dict(state.get("accounts", {}))
        self.bills = list(state.get("bills", []))

    def list_rooms(self) -> dict:
        """List all rooms."""
        return {"rooms": [{"room_id": key, "floor": room["floor"]} for key, room in self.rooms.items()]}

    def get_room(self, room_id: str) -> dict:
        """Show a room with its price."""
        if room_id not in self.rooms:
            return {"success": False, "error": f"There is no room {room_id}"}
        return {"room": self.rooms[room_id]}

    def set_price(self, room_id: str, price: int) -> dict:
        """Set the price of a room."""
        if room_id not in self.rooms:
            return {"success": False, "error": f"There is no room {room_id}"}
        self.rooms[room_id]["price"] = price
        return {"success": True}

    def open_account(self, room_id: str) -> dict:
        """Open an account for a room."""
        account_id = f"A-{len(self.accounts) + 1}"
        self.accounts[account_id] = {"room_id": room_id}
        return {"account_id": account_id}

    def bill(self, room_id: str) -> dict:
        """Write a bill for a night in a room that costs 90 or more."""
        if self.rooms[room_id]["price"] < 90:
            return {"success": False, "error": f"{room_id} is too cheap for a bill"}
        self.bills.append({"room": room_id, "amount": self.rooms[room_id]["price"]})
        return {"success": True}

    def draw(self) -> dict:
        """Draw a number."""
        return {"number": random.randrange(10**9)}

    def fail(self) -> dict:
        """Fail."""
        return {"never": 1 // 0}
'''
QUERIES = ("list_rooms", "get_room", "draw", "fail")
KINDS = dict.fromkeys(QUERIES, "query") | dict.fromkeys(("set_price", "open_account", "bill"), "change")
RECORD = EnvironmentRecord(
    key="inn",
    name="Inn",
    introduction="Rooms of a small inn and what they cost.",
    class_name="Inn",
    source=SOURCE,
    tools=tuple(ToolRecord(name=name, kind=kind) for name, kind in KINDS.items()),  # type: ignore[arg-type]
)
PROGRAM = build_view(RECORD).program
STATE: dict[str, Any] = {
    "rooms": {
        "R-1": {"floor": 1, "price": 70},
        "R-2": {"floor": 2, "price": 95},
        "R-3": {"floor": 2, "price": 60},
    },
    "accounts": {},
    "bills": [],
}
INITIAL = encode_state(STATE)
SCENARIO = ScenarioDraft(name="A quiet week", state=STATE)
FORM = (
    AnswerField(
        name="rooms",
        type="list",
        ordered=True,
        description="The dear rooms, the dearest first",
        items=AnswerField(name="room", type="id", description="A room"),
    ),
    AnswerField(name="sum", type="number", description="What they cost together"),
)
TASK = TaskDraft(
    title="The dear rooms",
    instruction="Which of our rooms cost 70 or more, the dearest first, and what do they cost together?",
    answer_form=FORM,
    rule="all",
)
LOOKS = """def solve(call):
    prices = {}
    for room in call("list_rooms")["rooms"]:
        price = call("get_room", room_id=room["room_id"])["room"]["price"]
        if price >= 70:
            prices[room["room_id"]] = price
    return {"rooms": sorted(prices, key=lambda key: -prices[key]), "sum": sum(prices.values())}
"""
VERIFIES = """def verify(answer, expected, initial_state, final_state):
    rooms = {"items": {"type": "id"}, "ordered": True}
    return {
        "The rooms are named": is_expected(answer, "rooms", expected.get("rooms"), type="list", **rooms),
        "The sum is right": is_expected(answer, "sum", expected.get("sum"), type="number"),
        "Nothing was changed": final_state == initial_state,
    }
"""


def code(source: str) -> Message:
    return Message(role="assistant", content=f"```python\n{source}\n```")


@dataclass
class Speaker:
    """Replies by stage, one after another, the last one again; `asked` are the calls."""

    replies: dict[str, list[Any]]
    asked: list[StageCall] = field(default_factory=list)
    name: str = "speaker"

    async def answer(self, call: StageCall) -> Reply:
        made = sum((one.site.stage, one.site.sample) == (call.site.stage, call.site.sample) for one in self.asked)
        self.asked.append(call)
        written = self.replies[call.site.stage]
        said = written[min(made, len(written) - 1)]
        said = said(call) if callable(said) else said
        message = said if isinstance(said, Message) else Message(role="assistant", content=json.dumps(said))
        return Reply(message=message, finish_reason="stop")


@contextmanager
def kit_of(sandbox: Sandbox, speaker: Speaker, **numbers: Any) -> Iterator[Kit]:
    with ThreadPoolExecutor(2) as threads:
        asker = Asker({"author": speaker, "teacher": speaker}, MemoryStore())
        settings = StageSettings(programmatic=ProgrammaticSettings(**{"rounds": 2, "siblings": 2} | numbers))
        yield Kit(asker, sandbox, "inn", "inn", threads, settings)


def solution(sandbox: Sandbox, replies: list[str], task: TaskDraft = TASK, **numbers: Any) -> tuple[TaskDraft, Speaker]:
    """What the stage of the solution makes of these replies."""
    speaker = Speaker({"solution": [code(reply) for reply in replies]})
    with kit_of(sandbox, speaker, **numbers) as kit:
        return asyncio.run(write_solution(kit, RECORD, SCENARIO, task)), speaker


def verified(sandbox: Sandbox, replies: list[str], task: TaskDraft) -> tuple[TaskDraft, Speaker]:
    """What the stage of the verification script makes of these replies."""
    speaker = Speaker({"verification": [code(reply) for reply in replies]})
    with kit_of(sandbox, speaker) as kit:
        return asyncio.run(write_verification(kit, RECORD, SCENARIO, task)), speaker

"""A room of lockers, an author and a teacher who reply as a test says, and the kit that stages are given."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from synthesis.contracts import AnswerField, CheckRecord, Message, ToolCall, Usage
from synthesis.drafts import ScenarioDraft, TaskDraft
from synthesis.errors import LLMError
from synthesis.formats.records import EnvironmentRecord, ToolRecord
from synthesis.llm.asker import Asker
from synthesis.llm.calls import StageCall
from synthesis.llm.chat import Reply
from synthesis.llm.store import MemoryStore
from synthesis.runtime import Sandbox
from synthesis.stages import Kit, StageSettings

T = TypeVar("T")
SOURCE = '''
class LockerRoom:
    """Lockers and the members who have them."""

    def __init__(self, initial_state=None):
        state = initial_state or {}
        while state.get("mode") == "hang":
            pass
        if state.get("mode") == "raise":
            raise ValueError("no such mode")
        self.members = state.get("members", {})
        self.lockers = state.get("lockers", {})
        self.refusals = state.get("refusals", [])
        self.mode = state.get("mode", "")
        if self.mode == "forget":
            self.members = {"M-1": self.members["M-1"]}

    def list_lockers(self) -> dict:
        """List all lockers."""
        return {"success": True, "lockers": self.lockers}

    def assign_locker(self, locker_id: str, member_id: str) -> dict:
        """Give a free locker to a member."""
        if locker_id not in self.lockers or self.lockers[locker_id]["member_id"]:
            if self.mode == "strict":
                self.refusals.append(locker_id)
            return {"success": False, "error": "not free"}
        self.lockers[locker_id]["member_id"] = member_id
        return {"success": True}

    def release_locker(self, locker_id: str) -> dict:
        """Take a locker back."""
        self.lockers[locker_id]["member_id"] = ""
        return {"success": True}

    def think(self) -> dict:
        """Never come back."""
        while True:
            pass
'''
TOOLS = {"list_lockers": "query", "assign_locker": "change", "release_locker": "change"}
STATE: dict[str, Any] = {
    "members": {"M-1": {"name": "Ada"}, "M-2": {"name": "Bo"}},
    "lockers": {
        "L-1": {"floor": 0, "member_id": "M-2"},
        "L-2": {"floor": 0, "member_id": ""},
        "L-3": {"floor": 1, "member_id": ""},
    },
    "refusals": [],
}
INSTRUCTION = "Ada would like the free locker on the ground floor. Please give it to her and tell me its number."
SCHEMA = (
    {"entity": "Member", "attributes": "member_id, name", "description": "A person."},
    {"entity": "Locker", "attributes": ["locker_id", "floor", "member_id"], "description": "A locker."},
)
RECORD = EnvironmentRecord(
    key="lockers",
    name="Locker room",
    introduction="Members have lockers.",
    rules=("A locker has one member at most.",),
    state_schema=SCHEMA,
    class_name="LockerRoom",
    source=SOURCE,
    tools=tuple(ToolRecord(name=name, description=name, kind=kind) for name, kind in TOOLS.items()),  # type: ignore[arg-type]
)
HANGING = RECORD.model_copy(update={"tools": (*RECORD.tools, ToolRecord(name="think", kind="query"))})
"""With the tool that never comes back, which each look at what queries leave behind would wait for."""
SCENARIO = ScenarioDraft(name="One is free", state=STATE)


def function(says: str, before: str = "pass") -> str:
    return f"def check(initial_state, final_state, answer):\n    {before}\n    return {says}\n"


HERS = function("final_state['lockers']['L-2']['member_id'] == 'M-1'")
GONE = function("final_state['lockers']['L-2'].get('member_id', '') > ''")
OTHERS = function("all(final_state['lockers'].get(k) == v for k, v in initial_state['lockers'].items() if k != 'L-2')")
ITEMS = ("Locker L-2 is Ada's", "Locker L-2 is no longer free", "The other lockers are as before")
FORM = (AnswerField(name="locker", type="id", description="The number of her locker"),)


def task(*sources: str, **changes: Any) -> TaskDraft:
    """The task with these checks (by default sound ones)."""
    given = sources or (HERS, GONE, OTHERS)
    labels = [*ITEMS, *(f"Item {number}" for number in range(len(ITEMS) + 1, len(given) + 1))]
    checks = tuple(CheckRecord(label=label, source=source) for label, source in zip(labels, given, strict=False))
    made = TaskDraft(title="A locker for Ada", instruction=INSTRUCTION, checklist=tuple(labels), checks=checks)
    return made.model_copy(update=changes)


Turn = str | tuple[str, dict[str, Any]] | LLMError
Said = str | Sequence[str] | Callable[[StageCall], str]
LOOK: Turn = ("list_lockers", {})
GIVE: Turn = ("assign_locker", {"locker_id": "L-2", "member_id": "M-1"})
TAKEN: Turn = ("assign_locker", {"locker_id": "L-1", "member_id": "M-1"})
DONE: Turn = "It is L-2."
SUBMIT: Turn = ("submit_answer", {"locker": "L-2"})


def assigned(locker_id: str, member_id: str = "M-1") -> Turn:
    return ("assign_locker", {"locker_id": locker_id, "member_id": member_id})


@dataclass
class Scripted:
    """Author replies by stage (a list is played try by try, the last again and again), teacher turns by sample."""

    author: dict[str, Said] = field(default_factory=dict)
    teacher: Sequence[Sequence[Turn]] = ()
    judge: Callable[[StageCall], str] | None = None
    name: str = "test"
    calls: list[StageCall] = field(default_factory=list)

    async def answer(self, call: StageCall) -> Reply:
        made = sum(message.role == "assistant" for message in call.messages)
        tried = sum(earlier.site == call.site for earlier in self.calls)
        self.calls.append(call)
        if call.site.role == "teacher":
            return self._turn(self.teacher[call.site.sample % len(self.teacher)], made)
        said: Said = self.judge if self.judge and call.site.role == "judge" else self.author[call.site.stage]
        if not isinstance(said, str):
            said = said(call) if callable(said) else said[min(tried, len(said) - 1)]
        return Reply(message=Message(role="assistant", content=said), usage=Usage(requests=1))

    def _turn(self, turns: Sequence[Turn], made: int) -> Reply:
        turn = turns[min(made, len(turns) - 1)]
        if isinstance(turn, LLMError):
            raise turn
        if isinstance(turn, str):
            return Reply(message=Message(role="assistant", content=turn))
        call = ToolCall(id=f"c{made}", name=turn[0], arguments=turn[1])
        return Reply(message=Message(role="assistant", tool_calls=(call,)))

    def last_words(self) -> str:
        """What the author was last told."""
        return self.calls[-1].messages[-1].content

    def stages(self) -> list[str]:
        return [call.site.stage for call in self.calls]


def code(source: str) -> str:
    return f"```python\n{source}```"


def as_json(**fields: Any) -> str:
    return json.dumps(fields)


def by_sample(*sources: str) -> Callable[[StageCall], str]:
    """For each check its function, whatever is said about it."""
    return lambda call: code(sources[call.site.sample])


def run(
    stage: Callable[[Kit], Awaitable[T]],
    model: Scripted,
    sandbox: Sandbox,
    path: str = "lockers/scenario-0/task-0",
    **settings: Any,
) -> T:
    """What a stage gives, with a kit of its own."""

    async def work() -> T:
        with ThreadPoolExecutor(4) as threads:
            judges = {"judge": model} if model.judge else {}
            kit = Kit(
                asker=Asker({"author": model, "teacher": model, **judges}, MemoryStore()),
                sandbox=sandbox,
                path=path,
                theme="lockers",
                threads=threads,
                settings=StageSettings(**settings),
            )
            return await stage(kit)

    return asyncio.run(work())

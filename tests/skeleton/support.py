"""A theme, what an author replies to it, and an author that says so in this process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from synthesis.contracts import Message, Usage
from synthesis.drafts import CodeDraft, Plan, ThemeDraft
from synthesis.llm.asker import Asker
from synthesis.llm.calls import StageCall
from synthesis.llm.chat import Reply
from synthesis.llm.store import MemoryStore
from synthesis.runtime import Sandbox
from synthesis.skeleton.plan_reply import OperationsReply, StatePlanReply
from synthesis.stages import Kit, StageSettings

THREADS = ThreadPoolExecutor(2)
THEME = ThemeDraft(key="plant-swap", name="Plant swap", description="Neighbours lend pots to each other.")
STATE: dict[str, Any] = {
    "name": "Plant swap shelf",
    "introduction": "Neighbours put pots on a shelf and take others home. Counts are whole numbers.",
    "category": "Community",
    "entities": [
        {"entity": "Pot", "attributes": ["pot_id", "plant", "holder", "since"], "description": "A pot with a plant."},
        {"entity": "Neighbour", "attributes": ["neighbour_id", "name"], "description": "Somebody who swaps."},
    ],
    "rules": ["A neighbour holds two pots at most.", "A pot that somebody holds cannot be taken."],
}
OPERATIONS: list[dict[str, Any]] = [
    {"name": "find_pots", "description": "Find pots by plant.", "kind": "query", "rules": [2]},
    {"name": "take_pot", "description": "Take a pot home.", "kind": "change", "rules": [1, 2]},
    {"name": "count_pots", "description": "Count what a neighbour holds.", "kind": "query"},
]
ATTRIBUTES = '''from typing import Any, Dict, Optional
import datetime

MOST = 2  # by the rules


class PlantSwap:
    """The shelf."""

    def __init__(self, init_config: Optional[Dict[str, Any]] = None) -> None:
        state = init_config or {}
        # Pots by id.
        self.pots: Dict[str, Dict[str, Any]] = state.get("pots", {})
        self.neighbours: Dict[str, Dict[str, Any]] = state.get("neighbours", {})
        self.today: str = state.get("today", "2026-03-01")

    def _held(self, neighbour_id: str) -> int:
        return sum(pot["holder"] == neighbour_id for pot in self.pots.values())

    # What follows is the shelf's work.
'''
METHODS = {
    "find_pots": '''import copy

def find_pots(self, plant: str = "") -> Dict[str, Any]:
    """Find pots by plant.

    Args:
        plant (str, optional): A part of the name.
    """
    # Everything fits an empty text.
    found = {key: copy.deepcopy(pot) for key, pot in self.pots.items() if plant in pot["plant"]}
    return {"success": True, "pots": found}
''',
    "take_pot": '''from datetime import datetime
from typing import Any

def take_pot(self, neighbour_id: str, pot_id: str) -> Dict[str, Any]:
    """Take a pot home.

    Args:
        neighbour_id (str): Who takes it.
        pot_id (str): Which one.
    """
    if pot_id not in self.pots or neighbour_id not in self.neighbours:
        return {"success": False, "error": "No such pot or neighbour"}
    if self.pots[pot_id]["holder"] or self._held(neighbour_id) >= MOST:
        return {"success": False, "error": """Not now:
it is held, or the neighbour holds enough"""}
    self.pots[pot_id]["holder"] = neighbour_id
    self.pots[pot_id]["since"] = datetime.fromisoformat(self.today).strftime("%d.%m.%Y")
    return {"success": True}
''',
    "count_pots": '''def count_pots(self, neighbour_id: str) -> Dict[str, Any]:
    """Count the pots of a neighbour.

    Args:
        neighbour_id (str): Whose.
    """
    today = datetime.date.fromisoformat(self.today).isoformat()
    return {"success": True, "pots": self._held(neighbour_id), "on": today}
''',
}
STARTED = {
    "pots": {"P-1": {"plant": "fern", "holder": "", "since": ""}, "P-2": {"plant": "ivy", "holder": "", "since": ""}},
    "neighbours": {"N-1": {"name": "Ada"}},
}


def fenced(code: str) -> str:
    return f"```python\n{code}\n```"


def replies() -> dict[str, list[str]]:
    """What a good author says, by stage and, for methods and repairs, sample."""
    methods = {f"code_method {n}": [fenced(METHODS[one["name"]])] for n, one in enumerate(OPERATIONS)}
    return {
        "plan_state": [json.dumps(STATE)],
        "plan_operations": [json.dumps({"operations": OPERATIONS})],
        "code_attributes": [fenced(ATTRIBUTES)],
        **methods,
    }


@dataclass
class Author:
    """Says what stands in `said`, in the order of tries; the last again and again."""

    said: dict[str, list[str]] = field(default_factory=replies)
    asked: list[tuple[str, StageCall]] = field(default_factory=list)
    now: int = 0
    most: int = 0
    name: str = "scripted"

    async def answer(self, call: StageCall) -> Reply:
        site = call.site
        place = f"{site.stage} {site.sample}" if site.stage in ("code_method", "repair") else site.stage
        before = sum(known == place for known, _ in self.asked)
        self.asked.append((place, call))
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0)
        self.now -= 1
        said = self.said[place]
        words = said[min(before, len(said) - 1)]
        return Reply(message=Message(role="assistant", content=words), usage=Usage(requests=1))

    @property
    def places(self) -> list[str]:
        return [place for place, _ in self.asked]

    def heard(self, place: str) -> list[str]:
        """The last words of each request of one place."""
        return [call.messages[-1].content for known, call in self.asked if known == place]


def kit(author: Author, sandbox: Sandbox | None = None, store: MemoryStore | None = None, **settings: Any) -> Kit:
    """A kit for this theme. Stages that need no sandbox get none."""
    used = StageSettings(**({"least_tools": 2, "most_tools": 20} | settings))
    asker = Asker({"author": author}, store or MemoryStore())
    return Kit(asker, sandbox, THEME.key, THEME.key, THREADS, used)  # type: ignore[arg-type]


def planned(operations: Sequence[dict[str, Any]] = OPERATIONS) -> Plan:
    """The plan of the replies above."""
    state = StatePlanReply.model_validate(STATE)
    said = OperationsReply.model_validate({"operations": list(operations)})
    return Plan.model_validate(state.model_dump() | {"operations": said.model_dump()["operations"]})


def fragments(attributes: str = ATTRIBUTES, **methods: str) -> CodeDraft:
    """The code of the replies above, with other methods where they are named."""
    return CodeDraft(class_name="PlantSwap", attributes=attributes, methods=tuple((METHODS | methods).values()))

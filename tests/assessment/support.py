"""A small stock room to assess, and agents that are programs: they see what the prompts show and nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from synthesis.assessment.prompt_values import parse_tables
from synthesis.contracts import Message, Usage
from synthesis.drafts import AssembledProgram
from synthesis.formats.records import EnvironmentRecord, ToolRecord
from synthesis.llm.asker import Asker
from synthesis.llm.calls import StageCall
from synthesis.llm.chat import Reply
from synthesis.llm.store import MemoryStore
from synthesis.runtime import Sandbox
from synthesis.stages import Kit, StageSettings

SOURCE = '''
import uuid


class StockRoom:
    """Keeps items and how many of each there are."""

    def __init__(self, config):
        self.items = {key: dict(item) for key, item in config.get("items", {}).items()}
        self.log = list(config.get("log", []))

    def add_item(self, name: str, count: int) -> dict:
        """Add an item that is not there yet; the count is at least 1."""
        if any(item["name"] == name for item in self.items.values()):
            return {"success": False, "error": "exists"}
        key = str(uuid.uuid4())
        self.items[key] = {"name": name, "count": count}
        return {"success": True, "key": key}

    def count_items(self) -> dict:
        """How many kinds of items there are."""
        return {"success": True, "count": len(self.items)}

    def remove_item(self, key: str) -> dict:
        """Remove an item by its key."""
        if key == "wait":
            while True:
                pass
        if key == "grow":
            self.log = ["x" * 1000] * 400
            return {"success": True}
        if key not in self.items:
            return {"success": False, "error": "unknown key"}
        del self.items[key]
        return {"success": True}
'''
TOOLS = (
    ToolRecord(name="add_item", kind="change", description="Add an item that is not there yet."),
    ToolRecord(name="count_items", kind="query", description="How many kinds of items there are."),
    ToolRecord(name="remove_item", kind="change", description="Remove an item by its key."),
)
STATE = {"items": {f"k{number}": {"name": f"brush {number}", "count": number} for number in range(1, 13)}, "log": []}
FENCE = re.compile(r"^(=== (\w+) [0-9]{9} ===)\n(.*?)\n\1$", re.DOTALL | re.MULTILINE)


def record(source: str = SOURCE, tools: tuple[ToolRecord, ...] = TOOLS) -> EnvironmentRecord:
    return EnvironmentRecord(
        key="stock-room",
        name="Stock room",
        introduction="A stock room with items.",
        rules=("Names are unique.", "A count is at least 1."),
        state_schema=({"entity": "Item", "attributes": "name, count"},),
        class_name="StockRoom",
        source=source,
        tools=tools,
    )


def assembled(**changes: Any) -> AssembledProgram:
    return AssembledProgram(record=record(**changes))


def fences(call: StageCall) -> dict[str, str]:
    """What stands between fences in a prompt, by label."""
    text = call.messages[0].content
    return {label: body for _, label, body in FENCE.findall(text)}


Program = Callable[[StageCall], Any]


@dataclass
class Played:
    """A model that is a function of its prompt. `seen` keeps every call."""

    play: Program
    name: str = "played"
    seen: list[StageCall] = field(default_factory=list)

    async def answer(self, call: StageCall) -> Reply:
        self.seen.append(call)
        said = self.play(call)
        text = said if isinstance(said, str) else json.dumps(said)
        usage = Usage(prompt_tokens=10, completion_tokens=5, requests=1)
        return Reply(message=Message(role="assistant", content=text), usage=usage)


def author(call: StageCall) -> dict[str, Any]:
    return {"state": STATE | {"log": [f"opened {call.site.sample}"]}}


def tester(call: StageCall) -> dict[str, Any]:
    """Positive calls take what stands in the state, negative ones what does not."""
    told = fences(call)
    asked, state = json.loads(told["asked"]), parse_tables(json.loads(told["state"]))
    good = asked["case"] == "positive"
    if asked["tool"] == "add_item":
        name = f"thing {call.site.sample}" if good else next(iter(state["items"].values()))["name"]
        return {"arguments": {"name": name, "count": 1}, "expectation": "added or refused"}
    if asked["tool"] == "remove_item":
        return {"arguments": {"key": next(iter(state["items"])) if good else "nobody"}}
    return {"arguments": {} if good else {"needless": True}}


def checker(call: StageCall) -> dict[str, Any]:
    """A positive call must succeed, a negative one change nothing."""
    told = json.loads(fences(call)["call"])
    changed = bool(told.get("patch"))
    if told["case"] == "negative":
        return {"verdict": "fail" if changed else "Pass", "reason": "Nothing may change."}
    fine = told["ok"] and told["result"]["success"]
    return {"verdict": "pass" if fine else "fail", "reason": "It must succeed."}


@dataclass
class Bench:
    """A kit with its models and its store."""

    kit: Kit
    author: Played
    tester: Played
    checker: Played
    store: MemoryStore


def bench(
    sandbox: Sandbox,
    threads: ThreadPoolExecutor,
    author: Program = author,
    tester: Program = tester,
    checker: Program = checker,
    store: MemoryStore | None = None,
    **settings: Any,
) -> Bench:
    store = store or MemoryStore()
    models = {"author": Played(author), "tester": Played(tester), "checker": Played(checker)}
    asker = Asker(models=models, store=store)
    kit = Kit(asker, sandbox, "stock-room", "stock-room", threads, StageSettings(**settings), seed=7)
    return Bench(kit, models["author"], models["tester"], models["checker"], store)

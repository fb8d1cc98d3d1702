"""A rehearsal in the zygote, with a program of this package.

The work that Python does at first use (caches, specialised byte code, late imports) happens once, in pages that all
children share, and not in each of them.
"""

from __future__ import annotations

import json
import marshal
import sys
from datetime import datetime
from typing import Any

from . import wire, worker
from .bare_stack import Outcomes, make_loop

ROUNDS = 20
DATES = ("%Y-%m-%d", "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%H:%M")
"""`strptime` keeps five formats compiled; a child that has to compile one pays in time and in memory."""
_SOURCE = """
import re, time, uuid
from collections import Counter, defaultdict, deque
from datetime import datetime, timedelta
from typing import Any, Dict, List, Optional, TypedDict, Union

class Item(TypedDict):
    name: str
    tags: List[str]
    note: Optional[str]

class Rehearsal:
    def __init__(self, init_config: dict):
        self.items: Dict[str, Item] = {}
        self.seen = set()
        self.init_config = init_config

    def change(self, name: str, note: Optional[str] = None) -> dict:
        if name not in self.items:
            return {"success": False, "error": "no such item"}
        item = self.items[name]
        item["tags"].append(note or str(uuid.uuid4()))
        item["at"] = datetime.now().isoformat()
        item["until"] = (datetime.strptime("2025-01-02", "%Y-%m-%d") + timedelta(days=1)).strftime("%Y-%m-%d")
        self.items[str(len(self.items))] = {"name": name, "tags": [time.time()]}
        self.seen.add(name)
        return {"success": True, "data": [i for i in self.items.values() if re.search("a", i["name"])]}

    def fail(self) -> dict:
        raise ValueError("on purpose")
"""
_CHECK = "def check_func(final_state):\n    return len(final_state.get('items', {})) == len(initial_state['items'])\n"


class _Recorder:
    """A replacement of the socket that stores sent data."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []

    def send(self, data: bytes) -> int:
        self.frames.append(data[1:])
        return len(data)

    sendall = send


def rehearse_episodes(options: dict[str, Any]) -> None:
    """Serve a few episodes and checks of the rehearsal program."""
    for form in DATES:
        datetime.strptime(datetime(2025, 1, 2).strftime(form), form)
    recorder = _Recorder()
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    tools = {"change": schema | {"additionalProperties": True}, "fail": {"type": "object", "properties": {}}}
    items = {str(n): {"name": f"a{n}", "tags": ["x", 1, 2.5, None, True], "deep": {"k": [n]}} for n in range(12)}
    request: dict[str, Any] = {"id": 1, "class_name": "Rehearsal", "seed": 0, "now": "2025-01-01T09:00:00+00:00"}
    request |= {"validation": "schema", "observe": False}
    state = json.dumps({"items": items, "extra": []})
    request["size"] = len(state)
    compiled = None
    for _ in range(ROUNDS):
        outcomes: Outcomes = []
        server = worker.Worker(recorder, options, outcomes)

        def answer_request(request: bytes, server: worker.Worker = server, outcomes: Outcomes = outcomes) -> None:
            make_loop(server.answer(request), outcomes)()

        start = request | ({"compiled": True} if compiled else {"compiled": False, "source": _SOURCE, "tools": tools})
        answer_request(json.dumps(start | {"op": "reset"}).encode() + b"\0" + state.encode() + (compiled or b""))
        if compiled is None and not wire.STREAM:
            compiled = bytes.fromhex(json.loads(recorder.frames[0])["compiled"])
        for name in ("1", "2", "none"):
            call = {"id": 2, "op": "call", "tool": "change", "args": {"name": name}}
            answer_request(json.dumps(call).encode())
        answer_request(b'{"id":3,"op":"call","tool":"fail","args":{}}')
        answer_request(b'{"id":4,"op":"state"}')
        answer_request(b'{"id":5,"op":"hash"}')
        world = {"initial": {"items": {}}, "final": {"items": items}, "answer": "1"}
        seen = json.dumps(world).encode()
        check = {"id": 0, "op": "check", "now": request["now"], "size": len(seen)}
        code = marshal.dumps(compile(_CHECK, "<check>", "exec"))
        answer_request(json.dumps(check).encode() + b"\0" + seen + code)
    sys.modules.pop("program", None)
    if len(recorder.frames) != 1 + 8 * ROUNDS or any(b"refused" in frame for frame in recorder.frames):
        raise RuntimeError("the rehearsal failed")

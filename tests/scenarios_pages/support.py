"""A small hostile environment and a task in it."""

from __future__ import annotations

from typing import Any

from synthesis.contracts import CheckRecord
from synthesis.formats.records import EnvironmentRecord, TaskRecord, ToolRecord
from tests.fixtures.imported_task import imported_task
from tests.verifier_fields import nest_verifier
from webapp.scenarios.models import Task

EVIL = "<script>alert(1)</script>\u202e"
SOURCE = '''
import time
from typing import Any, Dict, List, Literal, Optional


class Counter:
    """A counter that can hang, raise and count."""

    def __init__(self, initial_state: Optional[Dict[str, Any]] = None) -> None:
        state = initial_state or {}
        self.count = state.get("count", 0)
        self.names = state.get("names", [])
        self.big = state.get("big", {})

    def read(self) -> dict:
        """Read the count."""
        return {"success": True, "count": self.count}

    def add(self, amount: int, name: str = "nobody", tags: Optional[List[str]] = None, loud: bool = False) -> dict:
        """Add to the count."""
        self.count += amount
        self.names.append(name)
        return {"success": True, "count": self.count, "tags": tags, "loud": loud}

    def fail(self) -> dict:
        """Raise."""
        raise ValueError("<img src=x onerror=alert(2)>")

    def hang(self) -> dict:
        """Never come back."""
        while True:
            pass
'''


def environment_record(source: str = SOURCE) -> EnvironmentRecord:
    kinds = {"read": "query", "add": "change", "fail": "query", "hang": "query"}
    tools = tuple(ToolRecord(name=name, kind=kind) for name, kind in kinds.items())  # type: ignore[arg-type]
    return EnvironmentRecord(
        key="counter", name=f"Counter {EVIL}", category="Testing", class_name="Counter", source=source, tools=tools
    )


def task_record(**changes: Any) -> TaskRecord:
    check = "def check_func(final_state):\n    return final_state['count'] {}\n"
    fields: dict[str, Any] = {
        "environment_key": "counter",
        "key": "count-to-three",
        "title": f"Count to three {EVIL}",
        "scenario_name": f"Fresh {EVIL}",
        "instruction": f"Please make it three. {EVIL}",
        "initial_state": {"count": 0, "names": [EVIL], "big": {f"k{i}": {"v": i} for i in range(250)}},
        "checks": (
            CheckRecord(label=f"It is three {EVIL}", source=check.format("== 3")),
            CheckRecord(label="It never sinks", source=check.format(">= 0")),
            CheckRecord(label="Raises", source="def check_func(final_state):\n    return final_state['absent']\n"),
        ),
        "raw": {"env_id": "counter", "task_id": "count-to-three", "task": "t", "init_config": {"count": 0}},
    }
    return TaskRecord(**nest_verifier({"score_rule": "proportion"} | fields | changes))


def make_task() -> Task:
    """The environment and its task; without the probe, which would wait for the tool that hangs."""
    return imported_task(environment_record(), task_record())

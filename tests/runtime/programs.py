"""Small programs for the tests."""

from __future__ import annotations

from typing import Any

from synthesis.contracts import Program, Tool
from synthesis.runtime import derive_working_schema, outline_program


def program(source: str, class_name: str | None = None) -> Program:
    found = outline_program(source, class_name)
    tools = tuple(Tool(name=m.name, parameters=derive_working_schema(m)) for m in found.methods)
    return Program(source=source, class_name=found.class_name, tools=tools)


def body(*lines: str, init: str = "pass", head: str = "", **methods: str) -> Program:
    """A class `Env` whose tool `act` has these lines."""
    text = head + "\nclass Env:\n    def __init__(self, init_config=None):\n        self.items = {}\n"
    text += f"        {init}\n    def act(self):\n" + "".join(f"        {line}\n" for line in lines)
    for name, code in methods.items():
        text += f"    def {name}:\n        {code}\n"
    return program(text, "Env")


def act(sandbox: Any, *lines: str, state: Any = None, **options: Any) -> Any:
    with sandbox.reset(body(*lines), state, **options) as episode:
        return episode.call("act", {})

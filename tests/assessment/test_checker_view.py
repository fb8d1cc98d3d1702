"""What a checker sees of a tool and of the state: all that the tool uses, the rows that matter, and no more."""

from __future__ import annotations

import ast
import json
from typing import Any

import pytest

from synthesis import starter
from synthesis.assessment.prompt_values import parse_tables
from synthesis.assessment.state_view import format_call_states
from synthesis.assessment.tool_context import build_tool_context
from synthesis.formats.records import EnvironmentRecord
from synthesis.runtime.method_source import get_method_source
from synthesis.scripted.library import THEMES, list_theme_keys, load_theme
from synthesis.skeleton.static import find_undefined_names
from synthesis.syntax import build_scopes, parse_module

ROWS = {f"B-{number}": {"owner": "Ada" if number % 50 == 0 else "Ben", "text": "long " * 20} for number in range(200)}
STATE: dict[str, Any] = {"boxes": ROWS, "day": "2026-01-02", "log": ["opened"]}


def programs() -> list[tuple[str, str, list[str]]]:
    """(source, class, tools) of everything that is bundled."""
    bundled: list[EnvironmentRecord] = [starter.read_environment(folder) for folder in starter.list_folders()]
    written = [(one.source, one.class_name, [tool.name for tool in one.tools]) for one in bundled]
    for key in list_theme_keys():
        fragments = load_theme(key).fragments
        written.append(((THEMES / key / "program.py").read_text(), fragments.class_name, list(fragments.methods)))
    return written


@pytest.mark.slow
def test_a_checker_sees_every_name_that_a_tool_uses() -> None:
    tools = 0
    for source, class_name, names in programs():
        for name in names:
            context = build_tool_context(source, class_name, name)
            whole = f"{context.excerpt}\n\n\n{get_method_source(source, class_name, name).text}\n"
            assert find_undefined_names(build_scopes(whole), parse_module(whole)) == [], (class_name, name)
            missing = _own_names(whole, class_name, name) - _defined(context.excerpt)
            assert missing == set(), (class_name, name)
            told = context.attributes is not None or "getattr(" in context.excerpt
            assert told, (class_name, name)
            tools += 1
    assert tools > 190


def _own_names(whole: str, class_name: str, tool: str) -> set[str]:
    nodes = [node for node in ast.walk(parse_module(whole)) if isinstance(node, ast.Attribute)]
    return {node.attr for node in nodes if isinstance(node.value, ast.Name) and node.value.id == "self"} - {tool}


def _defined(excerpt: str) -> set[str]:
    nodes = list(ast.walk(parse_module(excerpt)))
    stored = {node.attr for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)}
    names = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return stored | names | {node.name for node in nodes if isinstance(node, ast.FunctionDef)}


SOURCE = '''
import copy
from datetime import date
LIMIT = 3
OTHER = 4

class Row(dict):
    """A row."""

class Base:
    RATE: int = 2

    def _due(self): return self._count() > self.RATE

class Desk(Base):
    """A desk."""
    OPEN = ("ready",)

    def __init__(self, state):
        self.rows, self.notes = state["rows"], state["notes"]

    def _count(self):
        return len([row for row in self.rows if row["state"] in self.OPEN])

    def _unused(self):
        return OTHER

    def take(self, key: str):
        """Take it."""
        return {"success": self._due() and LIMIT > 1, "row": Row(self.rows[key])}

    def look(self):
        """Look."""
        return getattr(self, "rows")

    def note(self, text: str):
        """Note."""
        self.notes.append(text)
'''


def test_helpers_constants_and_bases_come_along_and_nothing_else() -> None:
    take = build_tool_context(SOURCE, "Desk", "take")
    for part in (
        "LIMIT = 3",
        "class Row(dict)",
        "RATE: int = 2",
        "def _due",
        "def _count",
        'OPEN = ("ready",)',
        "__init__",
    ):
        assert part in take.excerpt
    for part in ("OTHER", "import", "_unused", "def take", "def look"):
        assert part not in take.excerpt
    assert "left out" in take.excerpt
    assert take.attributes == {"rows", "RATE", "OPEN"}
    assert build_tool_context(SOURCE, "Desk", "note").attributes == {"notes"}
    assert build_tool_context(SOURCE, "Desk", "look").attributes is None, (
        "what a dynamic look-up reads, source does not tell"
    )
    assert "not Python" in build_tool_context("def", "Desk", "note").excerpt


def test_a_checker_is_not_shown_what_says_nothing_of_the_tool() -> None:
    renamed = SOURCE.replace("import copy\n", "import copy\nfrom math import ceil as up\nfrom math import floor\n")
    renamed = renamed.replace("LIMIT > 1", "up(floor(LIMIT)) > 1")
    take = build_tool_context(renamed, "Desk", "take")
    for part in ("LIMIT = 3", "class Row(dict)", "RATE: int = 2", "def _due", "def _count", "import ceil as up"):
        assert part in take.helpers
    for part in ("import floor", "__init__", "A desk", "left out"):
        assert part in take.excerpt
        assert part not in take.helpers
    counting = SOURCE.replace('state["rows"], state["notes"]', 'sorted(state["rows"]), state["notes"]')
    assert "__init__" in build_tool_context(counting, "Desk", "note").helpers, (
        "this constructor alters what it is given"
    )
    assert build_tool_context(SOURCE, "Desk", "note").helpers == ""


def view(patch: list[dict[str, Any]], after: Any, mentioned: Any = None, most: int = 6_000) -> dict[str, Any]:
    text = format_call_states(STATE, after, frozenset({"boxes", "day"}), patch, mentioned, most)
    assert len(text) <= most + 200
    return dict(parse_tables(json.loads(text)))


def test_rows_that_a_call_names_or_changes_come_first() -> None:
    after = {**STATE, "boxes": {**ROWS, "B-7": {"owner": "Cleo"}}}
    del after["boxes"]["B-9"]
    patch = [
        {"op": "replace", "path": "/boxes/B-7/owner", "value": "Cleo"},
        {"op": "remove", "path": "/boxes/B-9"},
    ]
    shown = view(patch, after, {"owner": "Ada"})
    boxes = shown["before"]["boxes"]
    assert {"B-0", "B-7", "B-9", "B-50", "B-100", "B-150", "B-1"} <= set(boxes)
    assert "more are not shown" in boxes["…"]
    assert shown["before"]["day"] == "2026-01-02"
    assert shown["after"] == {"boxes": {"B-7": {"owner": "Cleo"}, "B-9": "(gone)"}}
    assert shown["not_read"] == ["log"]


def test_a_state_that_fits_is_shown_whole_and_an_unchanged_one_once() -> None:
    shown = view([], STATE, most=60_000)
    assert shown["before"]["boxes"] == ROWS
    assert shown["after"] == "as before"


@pytest.mark.parametrize("path", ["/log/0", "/log", ""])
def test_what_a_tool_should_not_touch_is_shown_when_it_does(path: str) -> None:
    after = {**STATE, "log": []}
    shown = view([{"op": "remove", "path": path}], after)
    assert shown["after"]["log"] == []
    assert ("log" in shown["before"]) == bool(path)

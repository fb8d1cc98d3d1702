"""Fragments of programs and checks, which people write whole and an author's replies contain in parts."""

from __future__ import annotations

import ast
import textwrap
from dataclasses import dataclass, field

from synthesis.syntax import parse_module


@dataclass(frozen=True)
class Fragments:
    """Parts of a program. `attributes` is the source up to the first tool, including helpers; `methods` the tools by
    name, dedented.
    """

    class_name: str
    attributes: str
    methods: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class WrittenCheck:
    """One check as an author writes it: the item of the checklist, and a function `check`."""

    item: str
    source: str


def split_program(source: str) -> Fragments:
    """Split a program's one class into the part before its public methods, and each of them."""
    owner = next(node for node in parse_module(source).body if isinstance(node, ast.ClassDef))
    lines = source.splitlines(keepends=True)
    tools = [node for node in owner.body if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")]
    head = "".join(lines[: tools[0].lineno - 1]).rstrip() + "\n"
    return Fragments(owner.name, head, {node.name: _cut_function(lines, node) for node in tools})


def read_task_checks(source: str) -> dict[str, list[WrittenCheck]]:
    """Return the checks of a task, in their order, by class name (`Scenario0Task1`)."""
    lines = source.splitlines(keepends=True)
    return {
        owner.name: [
            WrittenCheck(
                ast.get_docstring(node) or "", _cut_function(lines, node).replace(f"def {node.name}(", "def check(", 1)
            )
            for node in owner.body
            if isinstance(node, ast.FunctionDef)
        ]
        for owner in parse_module(source).body
        if isinstance(owner, ast.ClassDef)
    }


def _cut_function(lines: list[str], node: ast.FunctionDef) -> str:
    return textwrap.dedent("".join(lines[node.lineno - 1 : node.end_lineno])).rstrip() + "\n"

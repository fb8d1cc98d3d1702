"""Programs and checks are written whole, as a person reads them, and cut here into what an author replies."""

from __future__ import annotations

import ast
import textwrap
from dataclasses import dataclass, field

from synthesis.syntax import parse


@dataclass(frozen=True)
class Fragments:
    """`attributes` is the source up to the first tool, helpers included; `methods` the tools by name, dedented."""

    class_name: str
    attributes: str
    methods: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class WrittenCheck:
    """One check as an author writes it: the item of the checklist, and a function `check`."""

    item: str
    source: str


def program_fragments(source: str) -> Fragments:
    """A program's one class cut in two: what stands before its public methods, and each of them."""
    owner = next(node for node in parse(source).body if isinstance(node, ast.ClassDef))
    lines = source.splitlines(keepends=True)
    tools = [node for node in owner.body if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")]
    head = "".join(lines[: tools[0].lineno - 1]).rstrip() + "\n"
    return Fragments(owner.name, head, {node.name: _cut(lines, node) for node in tools})


def task_checks(source: str) -> dict[str, list[WrittenCheck]]:
    """By class name (`Scenario0Task1`): the checks of a task, in their order."""
    lines = source.splitlines(keepends=True)
    return {
        owner.name: [
            WrittenCheck(ast.get_docstring(node) or "", _cut(lines, node).replace(f"def {node.name}(", "def check(", 1))
            for node in owner.body
            if isinstance(node, ast.FunctionDef)
        ]
        for owner in parse(source).body
        if isinstance(owner, ast.ClassDef)
    }


def _cut(lines: list[str], node: ast.FunctionDef) -> str:
    return textwrap.dedent("".join(lines[node.lineno - 1 : node.end_lineno])).rstrip() + "\n"

"""Imports of source fragments: at the top of a program, each once, or in the function that needs them."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Sequence
from dataclasses import dataclass, field

from synthesis.syntax import parse_module


@dataclass(frozen=True)
class Bound:
    """One name that an import binds. Two bindings with the same `target` bind the same thing."""

    name: str
    target: str
    module: str
    words: str

    @property
    def line(self) -> str:
        return f"from {self.module} import {self.words}" if self.module else f"import {self.words}"


def list_bindings(node: ast.stmt) -> list[Bound]:
    """Return the names that a statement imports."""
    if isinstance(node, ast.Import):
        return [_build_plain_binding(alias) for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        module = "." * node.level + (node.module or "")
        return [
            Bound(alias.asname or alias.name, f"{module}.{alias.name}", module, _format_alias(alias))
            for alias in node.names
        ]
    return []


def _build_plain_binding(alias: ast.alias) -> Bound:
    head = alias.name.partition(".")[0]
    return Bound(alias.asname or head, alias.name if alias.asname else head, "", _format_alias(alias))


def _format_alias(alias: ast.alias) -> str:
    return f"{alias.name} as {alias.asname}" if alias.asname else alias.name


@dataclass
class Imports:
    """The imports at the top of a program. `taken` maps the names that module level binds to their targets."""

    hoisted: list[Bound] = field(default_factory=list)
    taken: dict[str, str] = field(default_factory=dict)

    def hoist(self, binding: Bound) -> bool:
        """Add an import at the top; return False if its name already means something else."""
        if self.taken.setdefault(binding.name, binding.target) != binding.target:
            return False
        if binding.line not in [known.line for known in self.hoisted]:
            self.hoisted.append(binding)
        return True

    def text(self) -> str:
        """Return the lines: `__future__` first, then whole modules, then names from modules."""
        words: dict[str, list[str]] = {}
        for binding in sorted(
            self.hoisted, key=lambda binding: (binding.module != "__future__", binding.module, binding.words)
        ):
            words.setdefault(binding.module, []).append(binding.words)
        plain = [f"import {name}" for name in words.pop("", [])]
        lines = [f"from {module} import {', '.join(names)}" for module, names in words.items()]
        future = [line for line in lines if line.startswith("from __future__ ")]
        return "\n".join([*future, *plain, *lines[len(future) :]])


def find_first_line(node: ast.stmt, lines: Sequence[str], floor: int) -> int:
    """Return the first line of a statement, including its decorators and the comments right above it."""
    start = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", ()))])
    while start - 1 > floor and lines[start - 2].lstrip().startswith("#"):
        start -= 1
    return start


def insert_imports(text: str, lines: Sequence[str]) -> str:
    """Return the source of a function with these import lines at the beginning of its body."""
    node = next((node for node in parse_module(text).body if isinstance(node, ast.FunctionDef)), None)
    if not lines or node is None:
        return text
    body = node.body[1:] if ast.get_docstring(node) else node.body
    rows = text.split("\n")
    if not body or rows[body[0].lineno - 1][: body[0].col_offset].strip():
        place = len(node.body) - len(body)
        node.body[place:place] = parse_module("\n".join(lines)).body
        return ast.unparse(node)
    before = node.lineno if body is node.body else node.body[0].end_lineno or 0
    row = find_first_line(body[0], rows, before) - 1
    margin = rows[body[0].lineno - 1][: body[0].col_offset]
    return "\n".join([*rows[:row], *(margin + line for line in lines), *rows[row:]])


def split_imports(text: str) -> tuple[list[Bound], str]:
    """Split source into the names that its top-level imports bind and the rest of its lines.

    An import that shares its line with a statement of another kind stays in the rest. Raise one of `syntax.UNREADABLE`.
    """
    body = parse_module(text).body
    others = [node for node in body if not list_bindings(node)]
    imports = [
        node for node in body if list_bindings(node) and not any(_has_common_lines(node, other) for other in others)
    ]
    gone = {line for node in imports for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)}
    rest = [line for number, line in enumerate(text.split("\n"), 1) if number not in gone]
    return [binding for node in imports for binding in list_bindings(node)], "\n".join(rest).strip("\n")


def add_imports(source: str, bindings: Sequence[Bound]) -> tuple[str, list[Bound]]:
    """Add imports at module level, and return the program with those that cannot be added.

    An import that the module has already is not added again. One whose name means something else in the module, or is a
    builtin that other methods may use, is returned. Raise one of `syntax.UNREADABLE`.
    """
    tree = parse_module(source)
    meanings = map_module_names(tree)
    known_lines = {binding.line for node in tree.body for binding in list_bindings(node)}
    new: list[Bound] = []
    clashing: list[Bound] = []
    for binding in bindings:
        free = binding.name not in meanings and not hasattr(builtins, binding.name)
        if not free and meanings.get(binding.name) != binding.target:
            clashing.append(binding)
        elif binding.line not in known_lines and binding.module != "__future__":
            new.append(binding)
            known_lines.add(binding.line)
            meanings[binding.name] = binding.target
    if not new:
        return source, clashing
    lines = source.splitlines(keepends=True)
    row = _find_import_row(tree)
    more = "" if row else "\n\n"
    return "".join([*lines[:row], *(f"{binding.line}\n" for binding in new), more, *lines[row:]]), clashing


def map_module_names(tree: ast.Module) -> dict[str, str]:
    """Return the names that a module binds, each with what its import means; empty for a name of another kind."""
    names: dict[str, str] = {}
    for node in tree.body:
        for binding in list_bindings(node):
            names[binding.name] = binding.target
        if list_bindings(node):
            continue
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names[node.name] = ""
            continue
        for part in ast.walk(node):
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                names[part.id] = ""
            elif isinstance(part, ast.stmt):
                names |= dict.fromkeys((binding.name for binding in list_bindings(part)), "")
    return names


def _has_common_lines(one: ast.stmt, other: ast.stmt) -> bool:
    return one.lineno <= (other.end_lineno or other.lineno) and other.lineno <= (one.end_lineno or one.lineno)


def _find_import_row(tree: ast.Module) -> int:
    """Return the number of lines above the place for new imports: below the first imports, or below the docstring."""
    row = 0
    for number, node in enumerate(tree.body):
        documents = number == 0 and ast.get_docstring(tree) is not None
        if not documents and not list_bindings(node):
            break
        row = node.end_lineno or node.lineno
    return row

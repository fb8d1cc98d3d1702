"""Parts of a program that a tool uses, by call graph: constants, class definition, helpers, and the state it may
touch."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from dataclasses import dataclass, field

from synthesis.errors import ProgramError
from synthesis.runtime.program import parse_source

_DYNAMIC = frozenset(("getattr", "setattr", "hasattr", "delattr", "vars", "globals", "eval", "exec"))
_LEFT_OUT = "# (more of the class is left out: this tool does not use it)"
_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class ToolContext:
    """Dependencies of a tool.

    `excerpt` is the code that the tool uses, without its own source, in the order and the words of the program.

    `helpers` is the part of it that explains the tool: without imports under their own names, without the docstring of
    the class, and without a constructor that only takes attributes from the state.

    `attributes` are the attributes of the environment that the tool and its helpers name; None if the source does not
    determine them, so that it may be any.
    """

    excerpt: str
    helpers: str
    attributes: frozenset[str] | None = None


@dataclass
class _Reach:
    """Code reached from a tool so far: statements of the module, members of the classes that it inherits from."""

    tree: ast.Module
    lineage: list[ast.ClassDef]
    outside: list[ast.stmt] = field(default_factory=list)
    members: list[ast.stmt] = field(default_factory=list)
    attributes: set[str] = field(default_factory=set)
    dynamic: bool = False

    def __post_init__(self) -> None:
        classes = {node.name for node in self.lineage}
        self.owners = {"self", "cls"} | classes
        self.module = _group_by_name(node for node in self.tree.body if getattr(node, "name", "") not in classes)
        self.class_members = _group_by_name(member for node in self.lineage for member in node.body)

    def add(self, node: ast.stmt, *, state: bool = True) -> None:
        """Follow a statement and all that it leads to. Without `state` its attributes are not noted."""
        looked_into: set[ast.expr] = set()
        for part in ast.walk(node):
            if isinstance(part, ast.Attribute):
                looked_into.add(part.value)
            elif isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id in ("type", "super"):
                looked_into |= set(part.args)
        for part in ast.walk(node):
            if isinstance(part, ast.Name):
                self._reach_name(part.id)
                self.dynamic |= state and (part.id in _DYNAMIC or (part.id == "self" and part not in looked_into))
            elif isinstance(part, ast.Attribute) and self._is_own(part.value):
                self._reach_member(part.attr, state)

    def _reach_name(self, name: str) -> None:
        for statement in self.module.get(name, ()):
            if statement not in self.outside:
                self.outside.append(statement)
                self.add(statement)

    def _reach_member(self, name: str, state: bool) -> None:
        member_nodes = self.class_members.get(name, ())
        if state and not any(isinstance(node, _Function) for node in member_nodes):
            self.attributes.add(name)
            self.dynamic |= name == "__dict__"
        for node in member_nodes:
            if node not in self.members:
                self.members.append(node)
                self.add(node, state=getattr(node, "name", "") != "__init__" and state)

    def _is_own(self, node: ast.expr) -> bool:
        """Return whether an attribute of this expression is one of the environment's: `self.x`, `super().x`,
        `Desk.x`."""
        if isinstance(node, ast.Name):
            return node.id in self.owners
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            return node.func.id in ("super", "type")
        return isinstance(node, ast.Attribute) and node.attr == "__class__"


@functools.lru_cache(maxsize=256)  # needed again in every call of an assessment
def build_tool_context(source: str, class_name: str, tool: str) -> ToolContext:
    """Return the parts of its program that a tool uses; the error as text if the program cannot be read."""
    try:
        tree = parse_source(source)
    except ProgramError as error:
        return ToolContext(f"({error})", f"({error})")
    reach = _Reach(tree, _list_lineage(tree, class_name))
    own_nodes = reach.class_members.get(tool, [])
    reach.members += own_nodes
    for node in own_nodes:
        reach.add(node)
    for node in reach.class_members.get("__init__", ()):
        if node not in reach.members:
            reach.members.append(node)
            reach.add(node, state=False)
    attributes = None if reach.dynamic else frozenset(reach.attributes)
    excerpt, helpers = (_format_reached(source, reach, own_nodes, whole) for whole in (True, False))
    return ToolContext(excerpt, helpers, attributes)


def _list_lineage(tree: ast.Module, class_name: str) -> list[ast.ClassDef]:
    """Return the class and those of the same source that it inherits from."""
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    lineage: list[ast.ClassDef] = []
    waiting = [class_name]
    while waiting:
        node = classes.get(waiting.pop(0))
        if node is not None and node not in lineage:
            lineage.append(node)
            waiting += [base.id for base in node.bases if isinstance(base, ast.Name)]
    return lineage


def _group_by_name(statements: Iterator[ast.stmt]) -> dict[str, list[ast.stmt]]:
    """Return the statements that bind a name, by name."""
    by_name: dict[str, list[ast.stmt]] = {}
    for node in statements:
        for name in _get_bound_names(node):
            by_name.setdefault(name, []).append(node)
    return by_name


def _get_bound_names(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    names: set[str] = set()
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
            names.add(part.id)
        elif isinstance(part, ast.Import | ast.ImportFrom):
            names |= {(alias.asname or alias.name).partition(".")[0] for alias in part.names}
        elif isinstance(part, ast.FunctionDef | ast.ClassDef):
            names.add(part.name)
    return names


def _format_reached(source: str, reach: _Reach, own: list[ast.stmt], whole: bool) -> str:
    """Return the reached code; without `whole` only the part that explains the tool."""
    lines = source.splitlines()
    members = [member for member in reach.members if member not in own and (whole or not _is_plain_constructor(member))]
    parts: list[str] = []
    for node in reach.tree.body:
        if node in reach.lineage and isinstance(node, ast.ClassDef):
            if whole or any(member in members for member in node.body):
                parts.append(_format_class(lines, node, members, whole))
        elif node in reach.outside and (whole or not _is_plain_import(node)):
            text = _get_node_text(lines, node)
            short = isinstance(node, ast.Import | ast.ImportFrom | ast.Assign | ast.AnnAssign)
            parts.append(text if short else f"\n{text}")
    return "\n".join(parts).strip("\n")


def _is_plain_import(node: ast.stmt) -> bool:
    return isinstance(node, ast.Import | ast.ImportFrom) and not any(alias.asname for alias in node.names)


def _is_plain_constructor(node: ast.stmt) -> bool:
    """Return whether a member is an `__init__` that only assigns, and calls only `get`."""
    if not isinstance(node, ast.FunctionDef) or node.name != "__init__":
        return False
    called = [part.func for part in ast.walk(node) if isinstance(part, ast.Call)]
    return all(isinstance(part, ast.Assign | ast.AnnAssign) for part in node.body) and all(
        isinstance(function, ast.Attribute) and function.attr == "get" for function in called
    )


def _format_class(lines: list[str], node: ast.ClassDef, wanted: list[ast.stmt], whole: bool) -> str:
    """Return the head of a class, with `whole` its docstring and a note on omissions, and the members wanted."""
    first = _get_first_line(node)
    documented = bool(ast.get_docstring(node))
    rest = node.body[1:] if documented else node.body
    head_end = (node.body[0].end_lineno or 0) if documented and whole else max(first, _get_first_line(node.body[0]) - 1)
    kept_members = [member for member in rest if member in wanted]
    parts = ["\n" + "\n".join(lines[first - 1 : head_end]).rstrip()]
    for member in kept_members:
        gap = "\n" if isinstance(member, _Function) else ""
        parts.append(gap + _get_node_text(lines, member))
    if whole and len(kept_members) < len(rest):
        parts.append(f"\n    {_LEFT_OUT}")
    return "\n".join(parts)


def _get_first_line(node: ast.stmt) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", ()))])


def _get_node_text(lines: list[str], node: ast.stmt) -> str:
    return "\n".join(lines[_get_first_line(node) - 1 : node.end_lineno])

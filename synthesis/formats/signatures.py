"""Tools of an environment derived from its source, for files that list none or do not give their kind."""

from __future__ import annotations

import ast
import functools
from dataclasses import dataclass

from synthesis import syntax
from synthesis.contracts import ToolKind

GROWING = {"append", "add", "update", "extend", "insert", "setdefault", "appendleft", "sort", "reverse"}
SHRINKING = {"pop", "popitem", "remove", "discard", "clear", "popleft", "difference_update", "intersection_update"}
MUTATORS = frozenset(GROWING | SHRINKING | {"move_to_end", "__setitem__", "__delitem__"})
Method = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Signature:
    name: str
    doc: str
    kind: ToolKind


def parse_source(source: str) -> ast.Module | None:
    """Return the syntax tree, or None if the source is not Python, which the static check reports."""
    try:
        return syntax.parse_module(source)
    except syntax.UNREADABLE:
        return None


def list_class_names(source: str) -> list[str]:
    """Return the top-level classes that have a public method: candidates for an environment."""
    tree = parse_source(source)
    return [
        node.name for node in (tree.body if tree else []) if isinstance(node, ast.ClassDef) and _has_public_method(node)
    ]


@functools.lru_cache(maxsize=16)
def list_signatures(source: str, class_name: str) -> tuple[Signature, ...]:
    """Return the public methods of a class in the order of its source, inherited ones of the same module first."""
    tree = parse_source(source)
    classes = {node.name: node for node in (tree.body if tree else []) if isinstance(node, ast.ClassDef)}
    methods = _map_methods(class_name, classes)
    changing = _find_changing_methods(methods)
    return tuple(
        Signature(name, ast.get_docstring(node) or "", "change" if name in changing else "query")
        for name, node in methods.items()
        if not name.startswith("_") and not _has_special_decorator(node)
    )


def _map_methods(name: str, classes: dict[str, ast.ClassDef]) -> dict[str, Method]:
    return {
        node.name: node
        for owner in syntax.list_lineage(name, classes)
        for node in owner.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def _has_public_method(node: ast.ClassDef) -> bool:
    return any(isinstance(item, ast.FunctionDef) and not item.name.startswith("_") for item in node.body)


def _has_special_decorator(node: Method) -> bool:
    names = {item.id for item in node.decorator_list if isinstance(item, ast.Name)}
    return bool(names & {"property", "staticmethod", "classmethod", "cached_property"})


def _find_changing_methods(methods: dict[str, Method]) -> set[str]:
    """Return methods that write to the attributes of `self`, directly, through a local name or by calling another of
    them.
    """
    changing = {name for name, node in methods.items() if name != "__init__" and _writes_state(node)}
    callers: dict[str, list[str]] = {}
    for name, node in methods.items():
        for called in _list_own_calls(node):
            callers.setdefault(called, []).append(name)
    waiting = list(changing)
    while waiting:
        new_names = {name for name in callers.get(waiting.pop(), ()) if name != "__init__"} - changing
        changing |= new_names
        waiting += new_names
    return changing


def _list_own_calls(node: Method) -> set[str]:
    return {
        item.func.attr
        for item in ast.walk(node)
        if isinstance(item, ast.Call)
        and isinstance(item.func, ast.Attribute)
        and _get_root_name(item.func.value) == "self"
    }


def _get_root_name(node: ast.AST) -> str:
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _writes_state(node: Method) -> bool:
    aliases = {"self"}
    for item in ast.walk(node):
        if isinstance(item, ast.Assign) and _get_root_name(item.value) in aliases:
            aliases |= {target.id for target in item.targets if isinstance(target, ast.Name)}
        if isinstance(item, ast.For) and _get_root_name(item.iter) in aliases:
            aliases |= {name.id for name in ast.walk(item.target) if isinstance(name, ast.Name)}
    return any(_writes_to_alias(item, aliases) for item in ast.walk(node))


def _writes_to_alias(item: ast.AST, aliases: set[str]) -> bool:
    targets: list[ast.expr] = []
    if isinstance(item, ast.Assign | ast.Delete):
        targets = list(item.targets)
    elif isinstance(item, ast.AugAssign | ast.AnnAssign):
        targets = [item.target]
    elif isinstance(item, ast.Call) and isinstance(item.func, ast.Attribute) and item.func.attr in MUTATORS:
        return _get_root_name(item.func.value) in aliases
    return any(isinstance(t, ast.Attribute | ast.Subscript) and _get_root_name(t) in aliases for t in targets)

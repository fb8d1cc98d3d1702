"""The keys of the final state that a check reads in a loop: `final_state[name] for name in ("orders", "stock")`."""

from __future__ import annotations

import ast
from dataclasses import dataclass


@dataclass(frozen=True)
class LoopKeys:
    """The keys `names`; with `all_but`, every key of the initial state but these."""

    names: frozenset[str]
    all_but: bool = False


def find_loop_keys(tree: ast.Module, parents: dict[ast.AST, ast.AST], state: ast.Name) -> LoopKeys | None:
    """Return the keys that `state[name]` reads in a loop; None for any other use.

    One loop must bind `name` to keys that the source writes down, or to those of the initial state.
    """
    parent = parents.get(state)
    if not isinstance(parent, ast.Subscript) or parent.value is not state or not isinstance(parent.ctx, ast.Load):
        return None
    if not isinstance(parent.slice, ast.Name):
        return None
    name = parent.slice.id
    bound = _find_only_binding(tree, name)
    loop = parents.get(bound) if bound is not None else None
    paired = isinstance(loop, ast.Tuple) and loop.elts[0] is bound
    target, loop = (loop, parents.get(loop)) if paired and loop is not None else (bound, loop)
    if not isinstance(loop, ast.comprehension | ast.For) or loop.target is not target:
        return None
    if _iterates_initial_state(loop.iter, paired=paired):
        filters = loop.ifs if isinstance(loop, ast.comprehension) else []
        return LoopKeys(_find_excluded_keys(tree, filters, name), all_but=True)
    written = None if paired else _read_strings(tree, loop.iter)
    return LoopKeys(written) if written is not None else None


def _find_only_binding(tree: ast.Module, name: str) -> ast.Name | None:
    """Return the only place that binds a name; None if there are more, or it is a parameter."""
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == name]
    stored = [node for node in names if not isinstance(node.ctx, ast.Load)]
    is_parameter = any(isinstance(node, ast.arg) and node.arg == name for node in ast.walk(tree))
    return stored[0] if len(stored) == 1 and not is_parameter else None


def _iterates_initial_state(source: ast.expr, *, paired: bool) -> bool:
    """Return whether a loop iterates over `initial_state`, or in pairs over `initial_state.items()`."""
    if not paired:
        return isinstance(source, ast.Name) and source.id == "initial_state"
    if not isinstance(source, ast.Call) or source.args or not isinstance(source.func, ast.Attribute):
        return False
    of = source.func.value
    return source.func.attr == "items" and isinstance(of, ast.Name) and of.id == "initial_state"


def _find_excluded_keys(tree: ast.Module, filters: list[ast.expr], name: str) -> frozenset[str]:
    """Return the keys that `if name not in ("a", "b")` excludes; empty if no filter has this form."""
    for test in filters:
        if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not isinstance(test.ops[0], ast.NotIn):
            continue
        written = _read_strings(tree, test.comparators[0])
        if isinstance(test.left, ast.Name) and test.left.id == name and written is not None:
            return written
    return frozenset()


def _read_strings(tree: ast.Module, source: ast.expr) -> frozenset[str] | None:
    """Return the strings of a literal, or of a name that is bound once, to a tuple of strings."""
    if isinstance(source, ast.Name):
        bound = _find_only_binding(tree, source.id)
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and node.targets == [bound] and isinstance(node.value, ast.Tuple):
                return _read_strings(tree, node.value)
        return None
    if not isinstance(source, ast.Tuple | ast.List | ast.Set):
        return None
    texts = [item.value for item in source.elts if isinstance(item, ast.Constant) and isinstance(item.value, str)]
    return frozenset(texts) if len(texts) == len(source.elts) else None

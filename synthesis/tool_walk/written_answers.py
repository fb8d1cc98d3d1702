"""Fields of an answer that a derivation contains as literals instead of computing them.

A field counts as written down if every return of the function gives it the same literal value, without reading a
result. A value that depends on a condition (`"yes" if ... else "no"`) counts as computed.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

from synthesis.syntax import parse_module
from synthesis.tool_graph.derivations import FUNCTION, walk_own_nodes


def find_written_fields(source: str) -> dict[str, str]:
    """Return the fields that are written down, with their values as Python. The source must be valid for
    `require_derivation`.

    Only answers that are returned as a dict, or as a name that is assigned a dict once, are examined.
    """
    function = next(
        node for node in parse_module(source).body if isinstance(node, ast.FunctionDef) and node.name == FUNCTION
    )
    assigned_values = _find_assigned(function)
    returned = [
        _resolve_name(node.value, assigned_values)
        for node in walk_own_nodes(function)
        if isinstance(node, ast.Return) and node.value is not None
    ]
    if not returned or not all(isinstance(value, ast.Dict) for value in returned):
        return {}
    answers = [_read_literals(value, assigned_values) for value in returned if isinstance(value, ast.Dict)]
    first, *others = answers
    return {name: value for name, value in first.items() if all(other.get(name) == value for other in others)}


def _read_literals(answer: ast.Dict, given: Mapping[str, ast.expr]) -> dict[str, str]:
    """Return the entries of a dict that contain only literals."""
    literals: dict[str, str] = {}
    for key, value in zip(answer.keys, answer.values, strict=True):
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            resolved = _resolve_name(value, given)
            if is_literal(resolved):
                literals[key.value] = ast.unparse(resolved)
    return literals


def _find_assigned(function: ast.FunctionDef) -> dict[str, ast.expr]:
    """Return the values of names that are assigned once and are neither changed nor accessed in part."""
    nodes = list(walk_own_nodes(function))
    stored = [node.id for node in nodes if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)]
    parts = [node.value for node in nodes if isinstance(node, ast.Attribute | ast.Subscript)]
    touched = {part.id for part in parts if isinstance(part, ast.Name)}
    return {
        target.id: node.value
        for node in nodes
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name) and stored.count(target.id) == 1 and target.id not in touched
    }


def _resolve_name(value: ast.expr, given: Mapping[str, ast.expr]) -> ast.expr:
    return given.get(value.id, value) if isinstance(value, ast.Name) else value


def is_literal(value: ast.expr) -> bool:
    """Return whether an expression is a constant, a number with a sign, or a list, tuple, set or dict of such."""
    if isinstance(value, ast.Dict):
        return all(key is not None and is_literal(key) for key in value.keys) and all(map(is_literal, value.values))
    if isinstance(value, ast.List | ast.Tuple | ast.Set):
        return all(map(is_literal, value.elts))
    return isinstance(value.operand if isinstance(value, ast.UnaryOp) else value, ast.Constant)

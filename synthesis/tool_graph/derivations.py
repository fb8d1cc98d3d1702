"""Derivations: code that computes a value from the results of earlier nodes, executed in the sandbox.

A value computed by the model itself is never trusted: it writes `def derive(results)`, and its return value counts.
`results` maps ids of nodes to their results.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from synthesis.contracts import Program, Tool
from synthesis.errors import InputError, ProgramEnded, ProgramError, StateError
from synthesis.runtime import Sandbox
from synthesis.runtime.check_language import find_breaches
from synthesis.syntax import UNREADABLE, parse_module

FUNCTION = "derive"
PARAMETER = "results"
TOLD_CHARS = 500
_CLASS = "Derivation"
_WRAPPED = """{source}


class Derivation:
    def __init__(self, state=None):
        self.done = False

    def work_out(self, results):
        return derive(results)
"""
_TOOL = Tool(
    name="work_out",
    parameters={"type": "object", "properties": {"results": {"type": "object"}}, "required": ["results"]},
)


class ReturnedLiterals(NamedTuple):
    """Literal texts and numbers that a derivation returns, and whether it returns nothing else."""

    values: tuple[str | int | float, ...]
    is_all: bool


def require_derivation(source: str, known: Collection[str]) -> tuple[str, ...]:
    """Return the nodes that a derivation reads, in order. Raises InputError: it is no function `derive(results)` in the
    language of checks, reads nothing, or reads a node that is not among the `known`.
    """
    try:
        tree = parse_module(source)
    except UNREADABLE as error:
        raise InputError(f"the derivation is not Python: {str(error)[:TOLD_CHARS]}") from None
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == FUNCTION]
    if len(functions) != 1 or [item.arg for item in functions[0].args.args] != [PARAMETER]:
        raise InputError(f"the derivation must be one function `def {FUNCTION}({PARAMETER}):`")
    if outside := find_breaches(tree):
        raise InputError(f"the derivation uses what it must not: {outside[0]}")
    read = find_read_nodes(tree)
    if not read:
        raise InputError(f'the derivation reads no result; write {PARAMETER}["t1"] for what t1 returned')
    if unknown := [name for name in read if name not in known]:
        raise InputError(f"the derivation reads {unknown[0]!r}, and it may read {', '.join(known) or 'nothing'}")
    return read


def find_read_nodes(tree: ast.AST) -> tuple[str, ...]:
    """Return the ids in `results[...]` and `results.get(...)`, in the order in which the tree is walked."""
    return tuple(dict.fromkeys(str(key.value) for key in iter_read_keys(tree)))


def iter_read_keys(tree: ast.AST) -> Iterator[ast.Constant]:
    """Yield the constants with which a derivation reads `results`, in the order in which the tree is walked."""
    for node in ast.walk(tree):
        key: ast.AST | None = None
        if isinstance(node, ast.Subscript) and _is_results(node.value):
            key = node.slice
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _is_results(node.func.value):
            key = node.args[0] if node.args else None
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            yield key


def find_returned_literals(source: str) -> ReturnedLiterals:
    """Return the literal texts and numbers that a derivation returns. The source must be valid for
    `require_derivation`.
    """
    tree = parse_module(source)
    function = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == FUNCTION)
    assigned: dict[str, list[ast.expr]] = {}
    own_nodes = list(walk_own_nodes(function))
    for node in own_nodes:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    assigned.setdefault(target.id, []).append(node.value)
    returned = [node.value for node in own_nodes if isinstance(node, ast.Return) and node.value is not None]
    leaves = [leaf for value in returned for leaf in _list_branches(value, assigned)]
    plain = [leaf.value for leaf in leaves if isinstance(leaf, ast.Constant)]
    values = [value for value in plain if isinstance(value, str | int | float) and not isinstance(value, bool)]
    has_truth = any(isinstance(value, bool) for value in plain)
    return ReturnedLiterals(tuple(dict.fromkeys(values)), len(plain) == len(leaves) and not has_truth)


def walk_own_nodes(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """Yield the nodes of a function, except those of functions within it."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.Lambda):
            waiting += ast.iter_child_nodes(node)


def _list_branches(value: ast.expr, assigned: Mapping[str, list[ast.expr]]) -> list[ast.expr]:
    """Return the possible values of an expression: both branches of a condition, each value of `or`, the constants
    assigned to a name.
    """
    if isinstance(value, ast.IfExp):
        return [*_list_branches(value.body, assigned), *_list_branches(value.orelse, assigned)]
    if isinstance(value, ast.BoolOp):
        return [leaf for part in value.values for leaf in _list_branches(part, assigned)]
    assigned_values = assigned.get(value.id, []) if isinstance(value, ast.Name) else []
    return (
        assigned_values
        if assigned_values and all(isinstance(part, ast.Constant) for part in assigned_values)
        else [value]
    )


def run_derivation(sandbox: Sandbox, source: str, results: Mapping[str, Any]) -> Any:
    """Return a derivation's result, encoded. Raises InputError (it raises, or its result cannot leave the sandbox) and
    InfrastructureError.
    """
    program = Program(source=_WRAPPED.format(source=source), class_name=_CLASS, tools=(_TOOL,))
    try:
        with sandbox.reset(program, {}) as episode:
            call_result = episode.call(_TOOL.name, {"results": dict(results)})
    except (ProgramEnded, ProgramError, StateError) as error:
        raise InputError(f"the derivation does not come back: {str(error)[:TOLD_CHARS]}") from error
    if not call_result.ok or call_result.error is not None:
        why = f"{call_result.error.type} {call_result.error.message}".strip() if call_result.error else "it was refused"
        raise InputError(f"the derivation fails: {why[:TOLD_CHARS]}")
    if call_result.result is None:
        raise InputError("the derivation returns nothing")
    return call_result.result


def _is_results(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == PARAMETER

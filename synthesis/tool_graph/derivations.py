"""Derivations: code that works a value out from the results of earlier nodes, executed in the sandbox.

A model's own figure is never believed: it writes `def derive(results)`, and what that returns counts. `results` maps
ids of nodes to what they returned.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping
from typing import Any

from synthesis.contracts import Program, Tool
from synthesis.errors import InputError, ProgramEnded, ProgramError, StateError
from synthesis.runtime import Sandbox
from synthesis.runtime.check_language import breaches
from synthesis.syntax import UNREADABLE, parse

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


def require_derivation(source: str, known: Collection[str]) -> tuple[str, ...]:
    """The nodes that a derivation reads, in order. Raises InputError: it is no function `derive(results)` in the
    language of checks, reads nothing, or reads a node that is not among the `known`."""
    try:
        tree = parse(source)
    except UNREADABLE as error:
        raise InputError(f"the derivation is not Python: {str(error)[:TOLD_CHARS]}") from None
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == FUNCTION]
    if len(functions) != 1 or [item.arg for item in functions[0].args.args] != [PARAMETER]:
        raise InputError(f"the derivation must be one function `def {FUNCTION}({PARAMETER}):`")
    if outside := breaches(tree):
        raise InputError(f"the derivation uses what it must not: {outside[0]}")
    read = read_nodes(tree)
    if not read:
        raise InputError(f'the derivation reads no result; write {PARAMETER}["t1"] for what the node t1 returned')
    if unknown := [name for name in read if name not in known]:
        raise InputError(f"the derivation reads {unknown[0]!r}, and it may read {', '.join(known) or 'nothing'}")
    return read


def read_nodes(tree: ast.AST) -> tuple[str, ...]:
    """The ids that `results[...]` and `results.get(...)` are asked for, in the order in which they stand."""
    found: list[str] = []
    for node in ast.walk(tree):
        key: ast.AST | None = None
        if isinstance(node, ast.Subscript) and _is_results(node.value):
            key = node.slice
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _is_results(node.func.value):
            key = node.args[0] if node.args else None
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            found.append(key.value)
    return tuple(dict.fromkeys(found))


def run_derivation(sandbox: Sandbox, source: str, results: Mapping[str, Any]) -> Any:
    """What a derivation returns, encoded. Raises InputError (it raises, or returns what cannot leave the sandbox) and
    InfrastructureError."""
    program = Program(source=_WRAPPED.format(source=source), class_name=_CLASS, tools=(_TOOL,))
    try:
        with sandbox.reset(program, {}) as episode:
            made = episode.call(_TOOL.name, {"results": dict(results)})
    except (ProgramEnded, ProgramError, StateError) as error:
        raise InputError(f"the derivation does not come back: {str(error)[:TOLD_CHARS]}") from error
    if not made.ok or made.error is not None:
        why = f"{made.error.type} {made.error.message}".strip() if made.error else "it was refused"
        raise InputError(f"the derivation fails: {why[:TOLD_CHARS]}")
    if made.result is None:
        raise InputError("the derivation returns nothing")
    return made.result


def _is_results(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == PARAMETER

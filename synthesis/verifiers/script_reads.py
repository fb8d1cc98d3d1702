"""The assertions of a verification script that read the answer, derived from its source.

An assertion counts as reading it if that cannot be decided: its script has other returns than one dict of named
expressions at its end, or the expression uses a name that a statement with the answer in it uses too.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable


def assertion_reads_answer(script: ast.FunctionDef, name: str) -> bool:
    """Return whether the assertion of this name may read the answer, the first parameter of `verify`."""
    parameters = [argument.arg for argument in script.args.args]
    uses_answer = parameters[0] in _find_names(script.body)
    value = _find_assertion(script, name)
    if value is None or not uses_answer:
        return uses_answer
    return bool(_find_names([value]) & _spread_names(script.body[:-1], parameters))


def _find_assertion(script: ast.FunctionDef, name: str) -> ast.expr | None:
    """Return the expression of an assertion in the dict that the script returns at its end, and nowhere else."""
    last = script.body[-1]
    own = [node for statement in script.body for node in _walk_own(statement) if isinstance(node, ast.Return)]
    if own != [last] or not isinstance(last, ast.Return) or not isinstance(last.value, ast.Dict):
        return None
    keys = [key.value if isinstance(key, ast.Constant) else None for key in last.value.keys]
    return last.value.values[keys.index(name)] if keys.count(name) == 1 and None not in keys else None


def _spread_names(body: Iterable[ast.stmt], given: list[str]) -> set[str]:
    """Return the names that may hold a part of the answer: those in statements that use one of them."""
    statements = [_find_names([statement]) | _list_functions(statement) for statement in body]
    reached, size = {given[0]}, 0
    while size != len(reached):
        size = len(reached)
        for names in statements:
            if names & reached:
                reached |= names - set(given[1:])
    return reached


def _walk_own(statement: ast.stmt) -> Iterable[ast.AST]:
    """Yield the nodes of a statement, except those inside of functions in it."""
    yield statement
    if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        for node in ast.iter_child_nodes(statement):
            if isinstance(node, ast.stmt):
                yield from _walk_own(node)
            elif isinstance(node, ast.ExceptHandler | ast.match_case):
                for inner in node.body:
                    yield from _walk_own(inner)


def _find_names(nodes: Iterable[ast.AST]) -> set[str]:
    return {node.id for top in nodes for node in ast.walk(top) if isinstance(node, ast.Name)}


def _list_functions(statement: ast.stmt) -> set[str]:
    """Return the names of functions that a statement defines."""
    return {node.name for node in ast.walk(statement) if isinstance(node, ast.FunctionDef)}

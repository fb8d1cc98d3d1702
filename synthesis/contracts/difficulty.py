"""Difficulty of a task by its parts (Agent-World 3.1.1, "Difficulty Scaling").

Counted by code, from a blueprint or from a solution script and the calls that it made.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Self

from pydantic import Field

from synthesis.contracts.base import Frozen
from synthesis.contracts.blueprints import Blueprint
from synthesis.contracts.verifiers import ReferenceCall
from synthesis.syntax import UNREADABLE, parse_module

_BRANCHES = (ast.If, ast.IfExp, ast.Match, ast.Try)
_LOOPS = (ast.For, ast.While)
_AGGREGATES = frozenset({"sum", "fsum", "len", "sorted", "any", "all", "Counter", "reduce", "filter", "groupby"})
_OF_ONE = frozenset({"min", "max"})
"""Aggregations if they are given one collection; of two values they are none."""
_MODULES = frozenset({"statistics"})


class Difficulty(Frozen):
    """Measures of a task's difficulty; None if tasks of its kind have no such measure.

    `walk_steps` are the calls of the walk that it was made from: of a chain as it was reviewed, of a merged blueprint
    the longest of its walks. `weak_share` and `independent_share` are shares of the steps from one call to the next, 0
    to 1. `unique_tools` and `invocations` count the calls of the reference. `branches` (conditions, including filters
    of comprehensions) and `aggregations` (sums, counts, extremes, sorting, totals kept in a loop) are counted in the
    solution script.
    """

    walk_steps: int | None = Field(default=None, ge=1)
    weak_share: float | None = Field(default=None, ge=0, le=1)
    independent_share: float | None = Field(default=None, ge=0, le=1)
    unique_tools: int | None = Field(default=None, ge=0)
    invocations: int | None = Field(default=None, ge=0)
    branches: int | None = Field(default=None, ge=0)
    aggregations: int | None = Field(default=None, ge=0)

    @classmethod
    def from_blueprint(cls, blueprint: Blueprint) -> Self:
        """Measure a task of a chain or of merged walks."""
        tools, steps = blueprint.tools, blueprint.steps
        longest = max(map(len, blueprint.walks), default=0)
        return cls(
            walk_steps=len(tools) if steps else longest or None,
            weak_share=steps.count("weak") / len(steps) if steps else None,
            independent_share=steps.count("independent") / len(steps) if steps else None,
            unique_tools=len(set(tools)),
            invocations=len(tools),
        )

    @classmethod
    def from_script(cls, source: str, calls: Sequence[ReferenceCall]) -> Self:
        """Measure a task by its solution script and the calls that it made.

        A script that is not Python has None for the counts of its code.
        """
        try:
            tree = parse_module(source)
        except UNREADABLE:
            tree = None
        return cls(
            unique_tools=len({call.tool for call in calls}),
            invocations=len(calls),
            branches=None if tree is None else count_branches(tree),
            aggregations=None if tree is None else count_aggregations(tree),
        )


def count_branches(tree: ast.AST) -> int:
    """Count conditions: `if`, conditional expressions, `match`, `try`, and the conditions of comprehensions."""
    filters = sum(len(node.ifs) for node in ast.walk(tree) if isinstance(node, ast.comprehension))
    return filters + sum(isinstance(node, _BRANCHES) for node in ast.walk(tree))


def count_aggregations(tree: ast.AST) -> int:
    """Count calls that make one value, or an order, of many, and totals that a loop adds to."""
    calls = sum(_is_aggregation(node) for node in ast.walk(tree) if isinstance(node, ast.Call))
    return calls + len(set(_list_totals(tree)))


def _is_aggregation(call: ast.Call) -> bool:
    function = call.func
    if isinstance(function, ast.Attribute):
        owner = function.value
        return function.attr in (_AGGREGATES | {"sort"}) or (isinstance(owner, ast.Name) and owner.id in _MODULES)
    if not isinstance(function, ast.Name):
        return False
    of_many = len(call.args) == 1 or any(isinstance(given, ast.Starred) for given in call.args)
    return function.id in _AGGREGATES or (function.id in _OF_ONE and of_many)


def _list_totals(tree: ast.AST) -> Iterator[ast.AugAssign]:
    """Yield the assignments `total += ...` inside loops; one in nested loops may be repeated."""
    for loop in ast.walk(tree):
        if isinstance(loop, _LOOPS):
            yield from (node for node in ast.walk(loop) if isinstance(node, ast.AugAssign))

"""Checks on many end states at once: as few processes as their answers allow."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from synthesis.contracts import State, Verdict
from synthesis.runtime import Sandbox, make_patch
from synthesis.syntax import UNREADABLE, parse

End = tuple[State, str]
"""An end state and the answer given with it."""
MOST_STATES = 200
MOST_BYTES = 4_000_000
"""So many states, and so much of patches, are sent to one process."""
_DYNAMIC = frozenset({"globals", "locals", "vars", "eval", "exec", "dir"})


def reads_answer(source: str) -> bool:
    """Whether a check looks at the answer under a name of its own; False where it cannot be read."""
    used, named = _names(source)
    return bool(used & named)


def verdict_table(sandbox: Sandbox, checks: Sequence[str], start: State, ends: Sequence[End]) -> list[list[Verdict]]:
    """For each end its verdicts, in the order of the checks. States are encoded.

    A check that cannot see the answer looks at all states in one process, another at one process an answer.
    Raises StateError and InfrastructureError.
    """
    columns: list[list[Verdict | None]] = [[None] * len(checks) for _ in ends]
    blind = [index for index, source in enumerate(checks) if not _may_read(source)]
    seeing = [index for index in range(len(checks)) if index not in set(blind)]
    jobs = [(blind, list(range(len(ends))))]
    by_answer: dict[str, list[int]] = {}
    for place, (_state, answer) in enumerate(ends):
        by_answer.setdefault(answer, []).append(place)
    jobs += [(seeing, places) for places in by_answer.values()]
    for rows, places in jobs:
        if not rows:
            continue
        answer = ends[places[0]][1]
        judged = _evaluate(sandbox, [checks[row] for row in rows], start, [ends[place][0] for place in places], answer)
        for place, column in zip(places, judged, strict=True):
            for row, verdict in zip(rows, column, strict=True):
                columns[place][row] = verdict
    return [[verdict for verdict in column if verdict is not None] for column in columns]


def _evaluate(
    sandbox: Sandbox, checks: Sequence[str], start: State, states: Sequence[State], answer: str
) -> Iterator[list[Verdict]]:
    for batch in _batches(states):
        patches = [make_patch(old, new) for old, new in pairwise(batch)]
        rows = sandbox.evaluate_checks(checks, start, batch[0], answer=answer, patches=patches)
        yield from ([row[column] for row in rows] for column in range(len(batch)))


def _batches(states: Sequence[State]) -> Iterator[list[State]]:
    """Neighbours that fit into one request together; each is told as a patch of the one before."""
    batch: list[State] = []
    size = 0
    for state in states:
        cost = len(json.dumps(make_patch(batch[-1], state))) if batch else 0
        if batch and (len(batch) == MOST_STATES or size + cost > MOST_BYTES):
            yield batch
            batch, size, cost = [], 0, 0
        batch.append(state)
        size += cost
    if batch:
        yield batch


def _may_read(source: str) -> bool:
    used, named = _names(source)
    return not used or bool(used & (named | _DYNAMIC))


def _names(source: str) -> tuple[set[str], set[str]]:
    """(names that are read, names that the answer goes by: its own, or a third parameter's). Empty if unreadable."""
    try:
        tree = parse(source)
    except UNREADABLE:
        return set(), set()
    nodes = list(ast.walk(tree))
    used = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    return used, {"answer", *_third_parameters(nodes)}


def _third_parameters(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.Lambda):
            names = [*node.args.posonlyargs, *node.args.args]
            if len(names) > 2:
                yield names[2].arg

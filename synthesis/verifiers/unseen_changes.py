"""The share of a state that can be changed without any check noticing: each record altered alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from synthesis.contracts import State
from synthesis.runtime import Sandbox
from synthesis.verifiers.audit_report import UnseenChanges
from synthesis.verifiers.check_table import build_verdict_table
from synthesis.verifiers.state_changes import get_mapping

MOST_TRIED = 100
"""Of more records, so many are tried, evenly spread."""
Place = tuple[str | int, ...]


def count_unseen_changes(
    sandbox: Sandbox,
    checks: Sequence[str],
    start: State,
    end: State,
    answer: str,
    at: Literal["reference", "start"],
) -> UnseenChanges:
    """Alter each record of an end state and count those for which no verdict changes. States are encoded.

    Raise StateError and InfrastructureError.
    """
    every = list(_list_records(end))
    tried = every if len(every) <= MOST_TRIED else [every[n * len(every) // MOST_TRIED] for n in range(MOST_TRIED)]
    altered = [_alter_place(end, place) for place in tried]
    own, *others = build_verdict_table(sandbox, checks, start, [(end, answer), *((state, answer) for state in altered)])
    passed = [verdict.passed for verdict in own]
    unseen = sum([verdict.passed for verdict in column] == passed for column in others)
    return UnseenChanges(records=len(every), tried=len(tried), unseen=unseen, at=at)


def _list_records(state: State) -> Iterator[Place]:
    """Yield the records of collections; any other attribute of the state counts as one record."""
    for name, value in state.items():
        if isinstance(value, dict) and value and all(get_mapping(item) is not None for item in value.values()):
            yield from ((name, key) for key in value if not name.startswith("$"))
        elif isinstance(value, list) and value:
            yield from ((name, index) for index in range(len(value)))
        else:
            yield (name,)


def _alter_place(state: Any, place: Place) -> Any:
    """Return the state with the value at a place altered everywhere; the rest is shared."""
    if not place:
        return _alter_value(state)
    copy = state.copy()
    copy[place[0]] = _alter_place(state[place[0]], place[1:])
    return copy


def _alter_value(value: Any) -> Any:
    """Return the value with each number increased, each text one letter longer, each boolean negated.

    Tagged values are kept as they are.
    """
    if isinstance(value, dict):
        if any(key.startswith("$") for key in value):
            return value
        return {key: _alter_value(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_alter_value(item) for item in value] or ["x"]
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    return f"{value or ''}x"

"""How much of a state an agent could change without any check noticing: each record altered alone, checks asked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from synthesis.contracts import State
from synthesis.runtime import Sandbox
from synthesis.verifiers.audit_report import UnseenChanges
from synthesis.verifiers.check_table import verdict_table
from synthesis.verifiers.state_changes import mapping_of

MOST_TRIED = 100
"""Of more records, so many are tried, evenly spread."""
Place = tuple[str | int, ...]


def unseen_changes(
    sandbox: Sandbox,
    checks: Sequence[str],
    start: State,
    end: State,
    answer: str,
    at: Literal["reference", "start"],
) -> UnseenChanges:
    """Alter each record of an end state and count those for which no verdict changes. States are encoded.

    Raises StateError and InfrastructureError.
    """
    every = list(_records(end))
    tried = every if len(every) <= MOST_TRIED else [every[n * len(every) // MOST_TRIED] for n in range(MOST_TRIED)]
    altered = [_with(end, place) for place in tried]
    own, *others = verdict_table(sandbox, checks, start, [(end, answer), *((state, answer) for state in altered)])
    passed = [verdict.passed for verdict in own]
    unseen = sum([verdict.passed for verdict in column] == passed for column in others)
    return UnseenChanges(records=len(every), tried=len(tried), unseen=unseen, at=at)


def _records(state: State) -> Iterator[Place]:
    """The records of collections; what of the state is no collection counts as one record each."""
    for name, value in state.items():
        if isinstance(value, dict) and value and all(mapping_of(item) is not None for item in value.values()):
            yield from ((name, key) for key in value if not name.startswith("$"))
        elif isinstance(value, list) and value:
            yield from ((name, index) for index in range(len(value)))
        else:
            yield (name,)


def _with(state: Any, place: Place) -> Any:
    """The state with what stands at a place altered everywhere; the rest is shared."""
    if not place:
        return _altered(state)
    copy = state.copy()
    copy[place[0]] = _with(state[place[0]], place[1:])
    return copy


def _altered(value: Any) -> Any:
    """Every number one more, every text a letter longer, every yes a no; tagged values stay well formed."""
    if isinstance(value, dict):
        if any(key.startswith("$") for key in value):
            return value
        return {key: _altered(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_altered(item) for item in value] or ["x"]
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    return f"{value or ''}x"

"""End states side by side: the places of the state that differ between attempts after their last steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from synthesis.errors import InputError, StateError
from synthesis.runtime.encoding import format_decoded, to_canonical_json
from webapp.trajectories.models import Trajectory
from webapp.trajectories.side_by_side.call_texts import shorten_text
from webapp.trajectories.states import load_state_at

MOST_PLACES = 60
VALUE_CHARS = 160
ABSENT = object()
"""Value of a place that a state does not have."""
Path = tuple[str, ...]


@dataclass(frozen=True)
class EndPlace:
    """A place of the state, and its value in each attempt; None if the state does not have it."""

    path: Path
    values: tuple[str | None, ...]


@dataclass(frozen=True)
class EndStates:
    """The end states. `unknown` are attempts without a stored state after their last step: nothing is compared then."""

    places: tuple[EndPlace, ...] = ()
    more: bool = False
    unknown: tuple[int, ...] = ()


def compare_end_states(attempts: Sequence[Trajectory]) -> EndStates:
    states, unknown = [], []
    for attempt in attempts:
        try:
            states.append(load_state_at(attempt, attempt.step_count - 1))
        except InputError:
            unknown.append(attempt.pk)
    if unknown:
        return EndStates(unknown=tuple(unknown))
    differences = list(islice(_find_differences(states, ()), MOST_PLACES + 1))
    places = tuple(EndPlace(path, tuple(map(_describe_value, values))) for path, values in differences[:MOST_PLACES])
    return EndStates(places, len(differences) > MOST_PLACES)


def _find_differences(values: Sequence[Any], path: Path) -> Iterator[tuple[Path, Sequence[Any]]]:
    """Yield the innermost places at which the values differ; lists of different lengths differ as a whole."""
    if all(value == values[0] for value in values):
        return
    if all(isinstance(value, dict) for value in values):
        for key in dict.fromkeys(key for value in values for key in value):
            yield from _find_differences([value.get(key, ABSENT) for value in values], (*path, str(key)))
    elif all(isinstance(value, list) and len(value) == len(values[0]) for value in values):
        for at in range(len(values[0])):
            yield from _find_differences([value[at] for value in values], (*path, str(at)))
    else:
        yield path, values


def _describe_value(value: Any) -> str | None:
    if value is ABSENT:
        return None
    try:
        return shorten_text(format_decoded(value), VALUE_CHARS)
    except StateError:  # a part of an encoding may not be a valid encoding itself
        return shorten_text(to_canonical_json(value), VALUE_CHARS)

"""Golden states made by executing the reference of a task, with declarations of the places that differ between runs.

The reference is executed as it is, twice, at another moment and with another seed. For each place in which those ends
differ the role that explains it is found. An id is also the program's own if its number is one that a counter passed,
or if the same call, made twice, adds another record. A place on what existed at the start is left to a person.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from synthesis.contracts import Frozen, ReferenceCall, State
from synthesis.contracts.verifier_kinds import CheckRecord, Equality, GoldenVerifier, Volatile, VolatileRole
from synthesis.errors import InputError, ProgramEnded
from synthesis.runtime import Episode, Sandbox
from synthesis.verifiers.call_sequences import ReferenceRuns, Subject, run_calls, run_reference
from synthesis.verifiers.frames.pinned_values import find_counters, known_texts
from synthesis.verifiers.golden.normal_form import find_embedded_texts, get_moment_kind, is_moment, is_weak
from synthesis.verifiers.golden.state_comparison import golden_differences
from synthesis.verifiers.golden.volatile_places import DifferingPlace, find_differing_places, find_reference_places
from synthesis.verifiers.reference_frame import TrialCalls
from synthesis.verifiers.state_changes import StateChange, find_state_changes, format_path

MOST_REPEATED = 12
"""So many calls that add records are made twice, to see whose the ids are."""
MOST_NAMED = 3
REASONS: dict[VolatileRole, str] = {
    "id": "The program makes these ids.",
    "timestamp": "It differs with the clock.",
    "token": "It differs with random numbers or with the clock.",
    "counter": "It counts the records that are made.",
}
UNCLEAR = "Its text differs with random numbers or the clock, and may say something else besides."


class MadeGolden(Frozen):
    """A golden state, and the places in which runs differ that only a person may declare volatile."""

    golden: GoldenVerifier
    unapproved: tuple[Volatile, ...] = ()


def make_golden(
    sandbox: Sandbox, subject: Subject, *, checks: Sequence[CheckRecord] = (), equality: Equality = "roles"
) -> MadeGolden:
    """Return the golden state that a task's reference leaves. `checks` are those made from the task's answer form.

    Raise InputError (no reference, one that is lost or ends differently each time, or a golden state that requires
    nothing), ProgramError and InfrastructureError.
    """
    start, runs = _execute_reference(sandbox, subject)
    end = runs.first.state
    assert end is not None
    golden = GoldenVerifier(state=end, equality=equality, checks=tuple(checks))
    if equality == "plain":
        _require_change(golden, start, subject)
        return MadeGolden(golden=golden)
    volatile, unapproved = find_volatile(sandbox, subject, start, runs)
    golden = golden.model_copy(update={"volatile": tuple(volatile)})
    _require_change(golden, start, subject)
    _require_equal(golden.model_copy(update={"volatile": (*volatile, *unapproved)}), start, runs)
    return MadeGolden(golden=golden, unapproved=tuple(unapproved))


def find_volatile(
    sandbox: Sandbox, subject: Subject, start: State, runs: ReferenceRuns
) -> tuple[list[Volatile], list[Volatile]]:
    """Return the volatile places of a reference's end, and those that only a person may declare.

    Raise InputError (its ends cannot be aligned), ProgramError and InfrastructureError.
    """
    by_path, unapproved = _find_volatile_places(start, runs, subject)
    for item in _find_own_numbers(sandbox, subject, start):
        by_path.setdefault(item.path, item)
    asked = {item.path for item in unapproved}
    return [item for path, item in by_path.items() if path not in asked], unapproved


def _execute_reference(sandbox: Sandbox, subject: Subject) -> tuple[State, ReferenceRuns]:
    if subject.reference is None:
        raise InputError("Without a reference the golden state is not known. Give the task a reference.")
    start = run_calls(sandbox, subject, ()).state
    if start is None:
        raise InputError("The program ended before any call, so there is no golden state.")
    runs = run_reference(sandbox, subject, start, subject.reference.calls, follow_ids=True)
    for name, run in runs.list_named():
        if run.state is None:
            raise InputError(f"There is no golden state: the episode of {name} was lost: {run.lost}")
    if runs.first.digest != runs.second.digest:
        raise InputError("There is no golden state: the reference, executed twice, ended in two different states.")
    return start, runs


def _require_change(golden: GoldenVerifier, start: State, subject: Subject) -> None:
    if not subject.answer_form and not golden_differences(golden, start, start):
        raise InputError(
            "The golden state is the state at the start, so doing nothing would earn 1: a golden state says nothing of "
            "an answer. Give the task an answer form, or another kind of verifier."
        )


def _require_equal(golden: GoldenVerifier, start: State, runs: ReferenceRuns) -> None:
    """Raise InputError if, with the declared places, the reference still ends elsewhere than in the golden state."""
    for name, run in (("at another moment", runs.clock), ("with another seed", runs.seed)):
        assert run.state is not None
        left = golden_differences(golden, start, run.state)
        if left:
            places = ", ".join(item.path for item in left[:MOST_NAMED])
            raise InputError(f"Executed {name}, the reference ends differently in what no role explains: {places}.")


def _find_volatile_places(
    start: State, runs: ReferenceRuns, subject: Subject
) -> tuple[dict[str, Volatile], list[Volatile]]:
    """Return the volatile places in which the reference's ends differ, by path, and those that need a person."""
    assert runs.first.state is not None
    explained: dict[str, Volatile] = {}
    unapproved: dict[str, Volatile] = {}
    meaningful_texts = _collect_known_texts(start, subject)
    for is_clock, run in ((True, runs.clock), (False, runs.seed)):
        assert run.state is not None
        for place in find_differing_places(start, runs.first.state, run.state):
            if place.kind == "shape":
                name = "at another moment" if is_clock else "with another seed"
                raise InputError(
                    f"Executed {name}, the reference leaves other fields or another number of records in {place.path}: "
                    "no role explains that. Use checks for this task."
                )
            role = _find_role(place, is_clock=is_clock)
            is_clear = role is not None and not _has_known_text(place, meaningful_texts)
            earlier = explained.get(place.path) or unapproved.get(place.path)
            role = "token" if role is None or (earlier is not None and earlier.role != role) else role
            volatile = Volatile(path=place.path, role=role, reason=REASONS[role] if is_clear else UNCLEAR)
            if is_clear and (place.is_new or place.kind == "reference") and place.path not in unapproved:
                explained[place.path] = volatile
            else:
                unapproved[place.path] = volatile
                explained.pop(place.path, None)
    return explained, list(unapproved.values())


def _find_role(place: DifferingPlace, *, is_clock: bool) -> VolatileRole | None:
    """Return the role that explains why two ends differ in a place; None if a text may carry other content too."""
    own, other = place.own, place.other
    if place.kind in ("id", "reference"):
        return "id"
    if isinstance(own, str) and isinstance(other, str):
        if is_moment(own) and is_moment(other) and get_moment_kind(own) == get_moment_kind(other):
            return "timestamp"
        return "token" if own and other and not any(map(str.isspace, own + other)) else None
    numbers = [isinstance(value, int | float) and not isinstance(value, bool) for value in (own, other)]
    if all(numbers):
        return "timestamp" if is_clock else "token"
    if isinstance(own, dict) and isinstance(other, dict) and get_moment_kind(own) == get_moment_kind(other) != "":
        return "timestamp"
    return "token" if isinstance(own, dict) and own.keys() == other.keys() == {"$uuid"} else None


def _collect_known_texts(start: State, subject: Subject) -> frozenset[str]:
    """Return texts with a meaning: those of the start, and those in the reference's arguments."""
    assert subject.reference is not None
    reference_texts = {text for call in subject.reference.calls for text in _iterate_texts(call.arguments)}
    return known_texts(start) | frozenset(reference_texts)


def _has_known_text(place: DifferingPlace, told: frozenset[str]) -> bool:
    """Return whether the differing values share a text with a meaning: freeing the place would free that as well."""
    values = [value for value in (place.own, place.other) if isinstance(value, str)]
    return len(values) == 2 and bool(
        set(find_embedded_texts(values[0], told)) & set(find_embedded_texts(values[1], told))
    )


def _find_own_numbers(sandbox: Sandbox, subject: Subject, start: State) -> Iterator[Volatile]:
    """Yield the counters of a program, its own ids, and the places that hold these as numbers or short texts."""
    assert subject.reference is not None
    counting: set[str] = set()
    made_ids: dict[str, set[str]] = {}
    asked: list[tuple[int, set[str]]] = []
    with _begin_episode(sandbox, subject) as episode:
        before = state = episode.state()
        for step, call in enumerate(subject.reference.calls):
            if not episode.call(call.tool, dict(call.arguments)).patch:
                continue
            state = episode.state()
            changes = find_state_changes(before, state)
            passed = find_counters(changes)
            counting |= {format_path(change.keys) for change in passed}
            added = dict(_list_added_keys(changes))
            named = set(_iterate_texts(call.arguments))
            counted = {
                path: keys for path, keys in added.items() if not keys & named and _has_counted_ids(keys, passed)
            }
            made_ids = {path: made_ids.get(path, set()) | counted.get(path, set()) for path in (*made_ids, *counted)}
            if added.keys() - counted.keys():
                asked.append((step, added.keys() - counted.keys()))
            before = state
        with contextlib.suppress(ProgramEnded):
            counting |= TrialCalls(episode, subject.reference, state).add(subject.program.tools).keys()
    for step, paths in asked[:MOST_REPEATED]:
        made_ids |= {
            path: keys for path, keys in _find_repeated_additions(sandbox, subject, step).items() if path in paths
        }
    yield from (Volatile(path=path, role="counter", reason=REASONS["counter"]) for path in sorted(counting))
    yield from (Volatile(path=f"{path}/+", role="id", reason=REASONS["id"]) for path in made_ids)
    weak = {key for keys in made_ids.values() for key in keys if is_weak(key)}
    if weak:
        places = find_reference_places(start, state, weak)
        yield from (Volatile(path=path, role="id", reason=REASONS["id"]) for path in places)


def _begin_episode(sandbox: Sandbox, subject: Subject) -> Episode:
    return sandbox.reset(
        subject.program, subject.initial, seed=subject.seed, now=subject.now, validation=subject.validation
    )


def _list_added_keys(changes: Sequence[StateChange]) -> Iterator[tuple[str, set[str]]]:
    for change in changes:
        keys = {key for key, _ in change.items if key}
        if change.kind == "added" and keys:
            yield format_path(change.keys), keys


def _has_counted_ids(keys: Iterable[str], passed: Sequence[StateChange]) -> bool:
    """Return whether the ids hold numbers that a counter passed."""
    numbers = {number for change in passed for number in range(change.old, change.new + 1)}
    return all(any(int(text) in numbers for text in _find_numbers(key)) for key in keys)


def _find_numbers(key: str) -> list[str]:
    return [text for text in "".join(one if one.isdigit() else " " for one in key).split() if len(text) <= 18]


def _find_repeated_additions(sandbox: Sandbox, subject: Subject, step: int) -> dict[str, set[str]]:
    """Return by collection the keys of the records that a call adds, if the same call, repeated, adds one more."""
    assert subject.reference is not None
    calls = subject.reference.calls[: step + 1]
    try:
        with _begin_episode(sandbox, subject) as episode:
            for call in calls[:-1]:
                episode.call(call.tool, dict(call.arguments))
            states = [episode.state()]
            for _ in range(2):
                _make_call(episode, calls[-1])
                states.append(episode.state())
    except ProgramEnded:
        return {}
    first, second = (dict(_list_added_keys(find_state_changes(*pair))) for pair in itertools.pairwise(states))
    return {path: keys for path, keys in first.items() if path in second}


def _make_call(episode: Episode, call: ReferenceCall) -> None:
    episode.call(call.tool, dict(call.arguments))


def _iterate_texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _iterate_texts(item)


__all__ = ["MadeGolden", "find_volatile", "make_golden"]

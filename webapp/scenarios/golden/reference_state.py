"""Golden states of references: what a task's reference leaves, with the volatile places that people declared."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from synthesis.contracts import Equality, Finding, GoldenVerifier, State, Volatile
from synthesis.formats.answer_form import build_field_checks
from synthesis.runtime import Sandbox
from synthesis.verifiers.call_sequences import Subject
from synthesis.verifiers.golden.golden_states import MadeGolden, make_golden
from synthesis.verifiers.state_changes import find_id_field, format_path, get_items, get_mapping, map_by_id

UNDECIDED = "volatile_place"
"""The kind of the findings that name the places which only a person may declare volatile."""
NOT_MADE = "golden_not_made"


def remake_golden(
    sandbox: Sandbox,
    subject: Subject,
    expected: dict[str, Any],
    equality: Equality,
    declared: Iterable[Volatile] = (),
) -> MadeGolden:
    """Execute a task's reference and return the golden state that it leaves, compared by `equality`.

    Volatile places in `declared` that a person declared are kept. Raises InputError, ProgramError and
    InfrastructureError.
    """
    made_golden = make_golden(
        sandbox, subject, checks=build_field_checks(subject.answer_form, expected), equality=equality
    )
    personal_places = tuple(item for item in declared if item.by)
    paths = {item.path for item in personal_places}
    new_places = tuple(item for item in made_golden.golden.volatile if item.path not in paths)
    # Sorted, so that one reference makes one record each time.
    volatile = tuple(sorted((*new_places, *personal_places), key=lambda item: item.path))
    undecided = sorted(leave_out_declared(made_golden.unapproved, personal_places), key=lambda item: item.path)
    return MadeGolden(golden=made_golden.golden.model_copy(update={"volatile": volatile}), unapproved=tuple(undecided))


def leave_out_declared(places: Iterable[Volatile], declared: Iterable[Volatile]) -> list[Volatile]:
    """Return the places that no declared place covers: `/users/*/token` covers `/users/U-1/token`."""
    patterns = [item.path.split("/") for item in declared]
    return [place for place in places if not any(_matches_pattern(one, place.path.split("/")) for one in patterns)]


def _matches_pattern(pattern: Sequence[str], parts: Sequence[str]) -> bool:
    return len(pattern) == len(parts) and all(one in ("*", part) for one, part in zip(pattern, parts, strict=True))


def report_undecided(places: Iterable[Volatile]) -> list[Finding]:
    """Return a finding for each place that differs between runs, and that only a person may declare volatile."""
    return [
        Finding(
            kind=UNDECIDED,
            place=item.path[:300],
            message=f"{item.path[:300]} differs between right runs, on what existed at the start. {item.reason}",
            data=item.model_dump(mode="json"),
        )
        for item in places
    ]


def report_not_made(why: object) -> Finding:
    """Return the finding that a golden state belongs to an earlier state or reference, and why."""
    return Finding(kind=NOT_MADE, place="verifier", message=f"The golden state could not be made again. {why}"[:2_000])


def has_golden_place(golden: GoldenVerifier, start: State, path: str) -> bool:
    """Return whether a path names an existing place of the golden state."""
    return _is_found(golden.state, start, path.split("/")[1:])


def _is_found(value: Any, old: Any, parts: Sequence[str]) -> bool:
    if not parts:
        return True
    part, *rest = parts
    fields, before = _list_entries(value), _list_entries(old)
    if part == "+":
        added = [(key, item) for key, item in fields if key not in dict(before)] or _list_added_without_id(value, old)
        return any(_is_found(item, None, rest) for _, item in added)
    before_by_key = dict(before)
    return any(
        _is_found(item, before_by_key.get(key), rest)
        for key, item in fields
        if part == "*" or format_path((key,))[1:] == part
    )


def _list_entries(value: Any) -> list[tuple[str, Any]]:
    """Return the entries of a mapping, or of a list of records, by key."""
    fields = get_mapping(value)
    if fields is not None:
        return list(fields.items())
    items = get_items(value) or []
    name = find_id_field(items) if items else ""
    return list(map_by_id(items, name).items()) if name else []


def _list_added_without_id(value: Any, old: Any) -> list[tuple[str, Any]]:
    """Return the entries of a list without ids, if it has more of them than before."""
    items = get_items(value) or []
    return [("", item) for item in items] if len(items) > len(get_items(old) or []) else []

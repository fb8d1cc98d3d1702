"""Making of golden states: what a task's reference leaves, with the volatile places that people declared kept."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from synthesis.contracts import Equality, Finding, GoldenVerifier, State, Volatile
from synthesis.formats.answer_form import field_checks
from synthesis.runtime import Sandbox
from synthesis.verifiers.call_sequences import Subject
from synthesis.verifiers.golden.golden_states import MadeGolden, make_golden
from synthesis.verifiers.state_changes import by_id, id_field, items_of, mapping_of, path_of

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

    Of the volatile places in `declared` those stay that a person stands for. Raises InputError, ProgramError and
    InfrastructureError.
    """
    made = make_golden(sandbox, subject, checks=field_checks(subject.answer_form, expected), equality=equality)
    kept = tuple(item for item in declared if item.by)
    paths = {item.path for item in kept}
    found = tuple(item for item in made.golden.volatile if item.path not in paths)
    # Sorted, so that one reference makes one record each time.
    volatile = tuple(sorted((*found, *kept), key=lambda item: item.path))
    undecided = sorted(leave_out_declared(made.unapproved, kept), key=lambda item: item.path)
    return MadeGolden(golden=made.golden.model_copy(update={"volatile": volatile}), unapproved=tuple(undecided))


def leave_out_declared(places: Iterable[Volatile], declared: Iterable[Volatile]) -> list[Volatile]:
    """Return the places that no declared one covers: `/users/*/token` covers `/users/U-1/token`."""
    patterns = [item.path.split("/") for item in declared]
    return [place for place in places if not any(_covers(one, place.path.split("/")) for one in patterns)]


def _covers(pattern: Sequence[str], parts: Sequence[str]) -> bool:
    return len(pattern) == len(parts) and all(one in ("*", part) for one, part in zip(pattern, parts, strict=True))


def report_undecided(places: Iterable[Volatile]) -> list[Finding]:
    """Return a finding for each place that differs from run to run, and that only a person may declare volatile."""
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
    """Return the finding that a golden state is that of an earlier state or reference, and why."""
    return Finding(kind=NOT_MADE, place="verifier", message=f"The golden state could not be made anew. {why}"[:2_000])


def leads_somewhere(golden: GoldenVerifier, start: State, path: str) -> bool:
    """Return whether anything stands in a place of the golden state that a path names."""
    return _is_found(golden.state, start, path.split("/")[1:])


def _is_found(value: Any, old: Any, parts: Sequence[str]) -> bool:
    if not parts:
        return True
    part, *rest = parts
    fields, before = _entries(value), _entries(old)
    if part == "+":
        added = [(key, item) for key, item in fields if key not in dict(before)] or _loose(value, old)
        return any(_is_found(item, None, rest) for _, item in added)
    known = dict(before)
    return any(
        _is_found(item, known.get(key), rest) for key, item in fields if part == "*" or path_of((key,))[1:] == part
    )


def _entries(value: Any) -> list[tuple[str, Any]]:
    """The entries of a mapping, or of a list of records, by key."""
    fields = mapping_of(value)
    if fields is not None:
        return list(fields.items())
    items = items_of(value) or []
    name = id_field(items) if items else ""
    return list(by_id(items, name).items()) if name else []


def _loose(value: Any, old: Any) -> list[tuple[str, Any]]:
    """The entries of a list without ids, if there are more of them than there were."""
    items = items_of(value) or []
    return [("", item) for item in items] if len(items) > len(items_of(old) or []) else []

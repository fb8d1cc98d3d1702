"""Places that a decision or a remark points to: a check, a step, a path of the state; for a tool a case or a line."""

from __future__ import annotations

import re
from collections.abc import Iterable

from django.urls import reverse

from synthesis.errors import InputError
from webapp.environments.models import Tool
from webapp.review.models import ReviewKind
from webapp.scenarios.models import Task
from webapp.scenarios.references import find_reference
from webapp.scenarios.state_tree import split_pointer
from webapp.scenarios.states import load_state
from webapp.trajectories.models import Trajectory

NUMBERED = {
    ReviewKind.TASK: ("check", "step"),
    ReviewKind.TRAJECTORY: ("check", "step"),
    ReviewKind.TOOL: ("case", "line"),
}
SPELLED = {
    ReviewKind.TASK: "check 3, step 2, or a path of the state such as /orders/12",
    ReviewKind.TRAJECTORY: "check 3, step 7, or a path of the state such as /orders/12",
    ReviewKind.TOOL: "case 3, or line 18",
}
"""How people spell a place."""
NUMBER = re.compile(r"([a-z]+) (0|[1-9]\d{0,5})")
PLACE_CHARS = 500
SEVERAL = re.compile(r",\s*(?=/|(?:check|step|case|line) \d)")
"""Separator of places that were typed in one field."""
NAMED_KEYS = 8


def split_typed_places(texts: Iterable[str]) -> list[str]:
    """Return the places of a form's fields, each of which can hold several: "check 3, /orders/12"."""
    parts = (part.strip() for text in texts for part in SEVERAL.split(text))
    return list(dict.fromkeys(part for part in parts if part))


def require_place_length(place: str) -> None:
    """Raise InputError if the text of a place is too long to be stored."""
    if len(place) > PLACE_CHARS:
        raise InputError(f"A place has at most {PLACE_CHARS:,} characters; this one has {len(place):,}.")


def require_place(subject: Task | Tool | Trajectory, place: str) -> None:
    """Raise InputError if the object has no such place, or it is spelled differently."""
    kind = _get_kind(subject)
    if place[:1] == "/" and not isinstance(subject, Tool):
        _require_state_path(subject, place)
        return
    match = NUMBER.fullmatch(place)
    if match is None or match[1] not in NUMBERED[kind]:
        raise InputError(f"Point to a place as: {SPELLED[kind]}. “{place[:40]}” is none.")
    what, number = match[1], int(match[2])
    most = _count_places(subject, what)
    first = int(not (isinstance(subject, Trajectory) and what == "step"))  # a trajectory's steps are counted from 0
    if number < first or (most is not None and number >= first + most):
        plural = f"{most:,} {what}{'s' * (most != 1)}"
        whose = "reference" if isinstance(subject, Task) and what == "step" else kind
        raise InputError(f"There is no {place}: this {whose} has {plural if most else f'no {what}'}.")


def build_place_url(kind: str, pk: int, place: str) -> str:
    """Return the URL of a place of a task or a trajectory; "" if the place has none of its own."""
    match = NUMBER.fullmatch(place)
    if (match is None and place[:1] != "/") or place == "check 0":
        return ""  # stored before places were checked
    what, number = (match[1], match[2]) if match is not None else ("", "")
    if kind == ReviewKind.TRAJECTORY and what == "step":
        return f"{reverse('trajectories:detail', args=[pk])}?step={number}"
    if kind == ReviewKind.TRAJECTORY and what == "check":
        return reverse("trajectories:check", args=[pk, int(number) - 1])
    if kind == ReviewKind.TASK:
        part = {"check": f"check-{int(number or 1) - 1}", "step": "reference"}.get(what, "initial-state")
        return f"{reverse('scenarios:task', args=[pk])}#{part}"
    return ""


def link_places(kind: str, pk: int, places: Iterable[str]) -> list[tuple[str, str]]:
    """Return each place with its URL."""
    return [(place, build_place_url(kind, pk, place)) for place in places]


def _get_kind(subject: Task | Tool | Trajectory) -> ReviewKind:
    if isinstance(subject, Task):
        return ReviewKind.TASK
    return ReviewKind.TOOL if isinstance(subject, Tool) else ReviewKind.TRAJECTORY


def _count_places(subject: Task | Tool | Trajectory, what: str) -> int | None:
    """Return the number of places of this sort that an object has; None if unknown."""
    if isinstance(subject, Tool):
        return subject.version.source.count("\n") + 1 if what == "line" else None
    if isinstance(subject, Trajectory) and what == "step":
        return subject.step_count
    revision = subject.current if isinstance(subject, Task) else subject.revision
    if revision is None:
        return 0
    if what == "check":
        return revision.checks.count()
    reference = find_reference(revision)
    return len(reference.calls) if reference is not None else 0


def _require_state_path(subject: Task | Trajectory, place: str) -> None:
    """Raise InputError unless a path begins at a key of the initial state; anything below it may have been made by a
    call."""
    revision = subject.current if isinstance(subject, Task) else subject.revision
    if revision is None:
        return
    state = load_state(revision.scenario.initial_id)
    if split_pointer(place)[0] not in state:
        keys = ", ".join(list(state)[:NAMED_KEYS]) + (", …" if len(state) > NAMED_KEYS else "")
        raise InputError(f"There is no {place[:60]}: the state has {keys or 'nothing in it'}.")

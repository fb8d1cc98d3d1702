"""Places that a decision or a remark points to: a check, a step, a path of the state; of a tool a case or a line."""

from __future__ import annotations

import re
from collections.abc import Iterable

from django.urls import reverse

from synthesis.errors import InputError
from webapp.environments.models import Tool
from webapp.review.models import ReviewKind
from webapp.scenarios.models import Task
from webapp.scenarios.references import reference_of
from webapp.scenarios.state_tree import parts_of
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
"""What stands between places that were typed in one field."""
NAMED_KEYS = 8


def typed_places(texts: Iterable[str]) -> list[str]:
    """The places of a form's fields, in each of which several can stand: "check 3, /orders/12"."""
    parts = (part.strip() for text in texts for part in SEVERAL.split(text))
    return list(dict.fromkeys(part for part in parts if part))


def require_length(place: str) -> None:
    """Raises InputError: the text of a place is too long to be stored."""
    if len(place) > PLACE_CHARS:
        raise InputError(f"A place has at most {PLACE_CHARS:,} characters; this one has {len(place):,}.")


def require_place(subject: Task | Tool | Trajectory, place: str) -> None:
    """Raises InputError: the object has no such place, or it is spelled in another way."""
    kind = _kind(subject)
    if place[:1] == "/" and not isinstance(subject, Tool):
        _require_path(subject, place)
        return
    found = NUMBER.fullmatch(place)
    if found is None or found[1] not in NUMBERED[kind]:
        raise InputError(f"Point to a place as: {SPELLED[kind]}. “{place[:40]}” is none.")
    what, number = found[1], int(found[2])
    most = _count(subject, what)
    first = int(not (isinstance(subject, Trajectory) and what == "step"))  # a trajectory's steps are counted from 0
    if number < first or (most is not None and number >= first + most):
        plural = f"{most:,} {what}{'s' * (most != 1)}"
        whose = "reference" if isinstance(subject, Task) and what == "step" else kind
        raise InputError(f"There is no {place}: this {whose} has {plural if most else f'no {what}'}.")


def place_url(kind: str, pk: int, place: str) -> str:
    """The address of a place of a task or a trajectory; "" of one that has none of its own."""
    found = NUMBER.fullmatch(place)
    if (found is None and place[:1] != "/") or place == "check 0":
        return ""  # stored before places were looked at
    what, number = (found[1], found[2]) if found is not None else ("", "")
    if kind == ReviewKind.TRAJECTORY and what == "step":
        return f"{reverse('trajectories:detail', args=[pk])}?step={number}"
    if kind == ReviewKind.TRAJECTORY and what == "check":
        return reverse("trajectories:check", args=[pk, int(number) - 1])
    if kind == ReviewKind.TASK:
        part = {"check": f"check-{int(number or 1) - 1}", "step": "reference"}.get(what, "initial-state")
        return f"{reverse('scenarios:task', args=[pk])}#{part}"
    return ""


def linked_places(kind: str, pk: int, places: Iterable[str]) -> list[tuple[str, str]]:
    """Each place with its address."""
    return [(place, place_url(kind, pk, place)) for place in places]


def _kind(subject: Task | Tool | Trajectory) -> ReviewKind:
    if isinstance(subject, Task):
        return ReviewKind.TASK
    return ReviewKind.TOOL if isinstance(subject, Tool) else ReviewKind.TRAJECTORY


def _count(subject: Task | Tool | Trajectory, what: str) -> int | None:
    """How many places of a sort an object has; None where that is not known."""
    if isinstance(subject, Tool):
        return subject.version.source.count("\n") + 1 if what == "line" else None
    if isinstance(subject, Trajectory) and what == "step":
        return subject.step_count
    revision = subject.current if isinstance(subject, Task) else subject.revision
    if revision is None:
        return 0
    if what == "check":
        return revision.checks.count()
    reference = reference_of(revision)
    return len(reference.calls) if reference is not None else 0


def _require_path(subject: Task | Trajectory, place: str) -> None:
    """A path begins at a key of the start; what comes below it a call may have made."""
    revision = subject.current if isinstance(subject, Task) else subject.revision
    if revision is None:
        return
    state = load_state(revision.scenario.initial_id)
    if parts_of(place)[0] not in state:
        keys = ", ".join(list(state)[:NAMED_KEYS]) + (", …" if len(state) > NAMED_KEYS else "")
        raise InputError(f"There is no {place[:60]}: the state has {keys or 'nothing in it'}.")

"""Content and format of an export: the list's filters, the filters for training, the shape of a record."""

from __future__ import annotations

import re
from typing import Any

from synthesis.contracts import Frozen
from synthesis.errors import InputError
from synthesis.formats.sft import Shape
from synthesis.stages import ActionRange
from synthesis.tasks.trajectory_filters import FilterSettings
from webapp.trajectories.trajectory_list import Filters

_RANGE = re.compile(r"\s*(\d{1,6})\s*-\s*(\d{1,6})\s*")


class Selection(Frozen):
    """The list's filters; their order has no meaning here."""

    outcome: str = ""
    replay: str = ""
    environment: int | None = None
    task: int | None = None
    parent: int | None = None
    policy: str = ""
    source: str = ""
    low: float | None = None
    high: float | None = None
    ids: tuple[int, ...] = ()
    q: str = ""
    day: str = ""
    leave_out: str = ""
    failure: str = ""
    user_fault: str = ""
    made_by: str = ""
    since: str = ""
    judged: bool = False
    from_id: int | None = None

    def filters(self) -> Filters:
        return Filters(**self.model_dump())

    def chosen(self) -> dict[str, Any]:
        """Return the values that differ from the defaults, which select all."""
        return self.model_dump(exclude_defaults=True)


class ExportSpec(Frozen):
    """A whole export; a job stores it as its payload."""

    selection: Selection = Selection()
    shape: Shape = Shape()
    sifting: FilterSettings = FilterSettings()

    def summary(self) -> dict[str, Any]:
        """Return the settings as a flat dictionary, for the audit log and the manifest."""
        allowed = self.sifting.action_range
        return {
            **self.shape.model_dump(),
            "least_reward": self.sifting.least_reward,
            "action_range": list(allowed) if isinstance(allowed, tuple) else allowed,
            "selection": self.selection.chosen(),
        }


def build_selection(filters: Filters) -> Selection:
    return Selection(**{name: getattr(filters, name) for name in Selection.model_fields})


def parse_range(text: str) -> ActionRange:
    """Parse `released`, `3-29`, or nothing. Raises InputError."""
    if not text.strip():
        return None
    if text.strip() == "released":
        return "released"
    match = _RANGE.fullmatch(text)
    if match is None or int(match[1]) > int(match[2]):
        raise InputError("Write a range of actions as 3-29, the lower number first, or “released”, or leave it empty.")
    return int(match[1]), int(match[2])

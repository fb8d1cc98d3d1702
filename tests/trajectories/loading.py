"""Getting samples into the database, for the tests beside this."""

from __future__ import annotations

import json
from typing import Any

from synthesis.formats.files import parse_entries
from synthesis.runtime import get_default_sandbox
from tests.importing import samples
from webapp.scenarios.importer import import_entries
from webapp.trajectories.importer import import_runs
from webapp.trajectories.models import Trajectory, TrajectoryText
from webapp.trajectories.text_search.text_rows import write_text


def entries(records: list[Any]) -> list[Any]:
    return parse_entries(json.dumps(records).encode())


def prepare(*scenarios: dict[str, Any], **changes: Any) -> None:
    found = list(scenarios) or [samples.scenario()]
    report = import_entries(
        get_default_sandbox(), entries([samples.environment(**changes)]), entries(found), "envscaler"
    )
    assert not report["tasks"]["failed"], report


def load(*runs: dict[str, Any]) -> dict[str, Any]:
    return import_runs(get_default_sandbox(), entries(list(runs)))


def has_its_words(row: Trajectory) -> bool:
    """Whether the search has the words of a trajectory, just as its stored rows give them."""
    stored = TrajectoryText.objects.get(trajectory=row).words
    write_text(Trajectory.objects.get(pk=row.pk))
    return bool(stored) and stored == TrajectoryText.objects.get(trajectory=row).words

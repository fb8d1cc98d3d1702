"""Recorded runs into the database, one at a time, each with its replay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from synthesis.errors import FormatError
from synthesis.formats.envscaler_runs import parse_runs
from synthesis.formats.files import Entry
from synthesis.formats.records import Failure, RunRecord
from synthesis.formats.values import clean
from synthesis.runtime import Sandbox
from webapp.scenarios.importer import Progress, guarded
from webapp.trajectories.matrix import small_matrix
from webapp.trajectories.models import ReplayState, Trajectory
from webapp.trajectories.services import SOURCE, save_run


@dataclass
class RunTally:
    """What became of the runs of a file. `reproduced` counts those whose reward came out as recorded."""

    created: int = 0
    unchanged: int = 0
    reproduced: int = 0
    diverged: list[dict[str, Any]] = field(default_factory=list)
    observations_diverged: list[dict[str, Any]] = field(default_factory=list)
    failed: list[dict[str, str]] = field(default_factory=list)

    def add(self, status: str, row: Trajectory, place: str) -> None:
        self.created += status == "created"
        self.unchanged += status == "unchanged"
        self.reproduced += row.replay in {ReplayState.IDENTICAL, ReplayState.REPRODUCED}
        line = {
            "place": place,
            "task": row.task.key,
            "recorded": row.recorded_reward,
            "reproduced": row.reward,
            "first_divergent_step": row.first_divergence,
        }
        if row.replay == ReplayState.DIVERGED:
            self.diverged.append(line)
        elif row.replay == ReplayState.REPRODUCED:
            self.observations_diverged.append(line)
        elif row.replay == ReplayState.FAILED:
            self.fail(Failure(place=place, reason=f"kept, but it could not be replayed: {row.replay_note}"))

    def fail(self, failure: Failure) -> None:
        self.failed.append({"place": clean(failure.place), "reason": clean(failure.reason)})


def import_runs(
    sandbox: Sandbox,
    entries: Sequence[Entry],
    source: str = SOURCE,
    progress: Progress = lambda done, total, note: None,
) -> dict[str, Any]:
    """Import and replay runs. `progress` is called before each and may raise to stop.

    Raises `SandboxUnavailable`.
    """
    tally = RunTally()
    for done, (place, record) in enumerate(parse_runs(list(entries))):
        progress(done, len(entries), f"Run {place}")
        _one_run(sandbox, tally, place, record, source)
    progress(len(entries), len(entries), "")
    return vars(tally)


def _one_run(sandbox: Sandbox, tally: RunTally, place: str, record: RunRecord | Failure, source: str) -> None:
    def action() -> None:
        if isinstance(record, Failure):
            raise FormatError(record.place, record.reason)
        saved = save_run(sandbox, record, source, place)
        tally.add(saved.status, saved.row, place)
        small_matrix(sandbox, saved.row)

    failure = guarded(place, action)
    if failure:
        tally.fail(failure)

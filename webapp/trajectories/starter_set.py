"""The starter set in the database: the bundled environments, tasks and runs, stored through the importers' services."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from synthesis.formats.records import RunRecord
from synthesis.runtime import Sandbox
from synthesis.starter import SOURCE, load_bundle
from webapp.scenarios.starter_set import load_starter
from webapp.trajectories.matrix import compute_matrix
from webapp.trajectories.models import ReplayState, Trajectory
from webapp.trajectories.services import save_run


@dataclass
class LoadResult:
    """Result of loading: the number of new records, by kind, and of those that existed already."""

    new: Counter[str] = field(default_factory=Counter)
    unchanged: int = 0

    def add(self, kind: str, saved: str) -> None:
        if saved == "unchanged":
            self.unchanged += 1
        else:
            self.new[kind] += 1

    def __str__(self) -> str:
        if not self.new:
            return f"The starter set already exists ({self.unchanged} records); nothing changed."
        counts = ", ".join(f"{count} {kind}" for kind, count in self.new.items())
        return f"The starter set is loaded: {counts}; {self.unchanged} records were there already."


def load_demo(sandbox: Sandbox) -> LoadResult:
    """Load the starter records. A second call changes nothing and starts no process. Raises SandboxUnavailable."""
    environments, tasks, runs = load_bundle()
    load_result = LoadResult()
    load_starter(sandbox, environments, tasks, load_result.add)
    for run in runs:
        _load_run(sandbox, run, load_result)
    return load_result


def _load_run(sandbox: Sandbox, record: RunRecord, done: LoadResult) -> None:
    saved = save_run(sandbox, record, SOURCE)
    done.add("trajectories", saved.status)
    row = saved.row
    if row.replay not in (ReplayState.PENDING, ReplayState.FAILED) and _needs_matrix(row):
        compute_matrix(sandbox, row)


def _needs_matrix(row: Trajectory) -> bool:
    return row.matrix is None or row.matrix_hash != row.attempted_revision.verifier_hash

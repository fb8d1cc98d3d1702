"""The check x step matrix: the verdict of every check at the start and after every state-changing step."""

from __future__ import annotations

import logging
from typing import Any

from synthesis.assessment.bounded_checks import STOPPED, CheckBound
from synthesis.contracts import Patch, State, Verdict
from synthesis.errors import InfrastructureError, StateError
from synthesis.runtime import Sandbox
from synthesis.runtime.encoding import make_patch
from synthesis.verifiers.check_table import NOT_RUN
from synthesis.verifiers.rewards import trace_verdicts
from webapp.jobs.models import Job
from webapp.jobs.queries import list_subject_jobs
from webapp.scenarios.states import load_state
from webapp.scenarios.verifiers import read_verifier
from webapp.trajectories.models import ReplayState, Trajectory
from webapp.trajectories.states import load_state_at

logger = logging.getLogger(__name__)

PASSED, NOT_PASSED, RAISED = 1, 0, -1
UNKNOWN = (NOT_RUN, STOPPED)
"""How the errors of verdicts begin that say nothing about a state: never asked, or asked on a busy machine."""
CELLS_AT_ONCE, BYTES_AT_ONCE = 20_000, 20_000_000
"""A check x step matrix up to so many cells, and states to go through, is made with the run; a larger one when a
person asks for it."""


def to_cell(verdict: Verdict) -> int:
    """Return 1 for passed, 0 for not passed, -1 for raised."""
    if verdict.passed:
        return PASSED
    return RAISED if verdict.has_raised else NOT_PASSED


def compute_matrix(sandbox: Sandbox, trajectory: Trajectory) -> dict[str, Any]:
    """Evaluate the checks over the run's changes and store the result on the trajectory.

    `{"steps": [changing steps], "checks": [{"start": cell, "flips": [[step, cell], ...]}, ...], "not_run": [...]}`: a
    check keeps its value until the next flip; `not_run` are the positions of checks whose end is unknown.
    """
    start = load_state_at(trajectory, 0)
    steps, patches = load_changes(trajectory, start)
    revision = trajectory.attempted_revision
    verifier = read_verifier(revision)
    rows = trace_verdicts(sandbox, verifier, start, patches, answer=trajectory.answer, over=CheckBound())
    missing = [position for position, row in enumerate(rows) if row[-1].error.startswith(UNKNOWN)]
    matrix = {"steps": steps, "checks": [compact_row(steps, row) for row in rows], "not_run": missing}
    Trajectory.objects.filter(pk=trajectory.pk).update(matrix=matrix, matrix_hash=revision.verifier_hash)
    return matrix


def load_changes(trajectory: Trajectory, start: State) -> tuple[list[int], list[Patch]]:
    """Return the state-changing steps after the start, and the patch of each; long patches are computed again."""
    steps: list[int] = []
    patches: list[Patch] = []
    rows = trajectory.steps.filter(index__gt=0, change_count__gt=0).order_by("index")
    for index, patch, snapshot in rows.values_list("index", "patch", "snapshot_id"):
        if not patch and snapshot:
            patch = make_patch(load_state_at(trajectory, index - 1), load_state(snapshot))
        steps.append(index)
        patches.append(patch)
    return steps, patches


def compact_row(steps: list[int], row: list[Verdict]) -> dict[str, Any]:
    """Return a row of verdicts as its start value and the steps at which it flips."""
    cells = [to_cell(verdict) for verdict in row]
    flips = [[step, now] for step, before, now in zip(steps, cells[:-1], cells[1:], strict=True) if now != before]
    return {"start": cells[0], "flips": flips}


def expand_row(matrix: dict[str, Any], check: int) -> list[int]:
    """Return the cells of one check: at the start, then after every step of `matrix["steps"]`."""
    row = matrix["checks"][check]
    flips = dict(row["flips"])
    cells = [row["start"]]
    for step in matrix["steps"]:
        cells.append(flips.get(step, cells[-1]))
    return cells


def find_matrix_job(trajectory: Trajectory) -> Job | None:
    """Return the newest job that computes, or computed, a trajectory's matrix."""
    return list_subject_jobs("compute_matrix", f"trajectory:{trajectory.pk}").first()


def is_fresh(trajectory: Trajectory) -> bool:
    if trajectory.matrix is None or trajectory.revision is None:
        return False
    return trajectory.matrix_hash == trajectory.revision.verifier_hash


def compute_small_matrix(sandbox: Sandbox, row: Trajectory) -> None:
    """Compute the matrix if it is small and missing. Without it the run is complete: its page offers to compute it."""
    calls = row.call_count + row.user_call_count
    cells = (row.total or 0) * (calls + 1)
    size = row.attempted_revision.scenario.initial.size * calls
    large = cells > CELLS_AT_ONCE or size > BYTES_AT_ONCE
    if row.replay == ReplayState.FAILED or not cells or large or is_fresh(row):
        return
    try:
        compute_matrix(sandbox, row)
    except (InfrastructureError, StateError) as error:
        logger.warning("trajectory %s: its checks could not be evaluated at every step: %s", row.pk, error)

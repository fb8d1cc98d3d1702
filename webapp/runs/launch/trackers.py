"""Trackers of `report_to`: which worker has the package that a job's numbers go to, and what to say where none has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from training.config import ReportTo
from webapp.runs.candidates import Candidate
from webapp.runs.launch.job_lookup import Remark, ResolvedJob

NONE = "none"
TRACKERS: tuple[str, ...] = tuple(name for name in get_args(get_args(ReportTo)[0]) if name != NONE)
NAMED = 3


def lacks(candidate: Candidate, tracker: str) -> bool:
    """Whether a candidate told of its packages, and the tracker's is not among them."""
    return tracker != NONE and candidate.software is not None and tracker not in candidate.software


def missing(tracker: str, names: Sequence[str], instead: str) -> Remark:
    """Why a job waits that these workers could take if they had its tracker's package. `instead`: what else helps."""
    where = ", ".join(name[:60] for name in names[:NAMED])
    if len(names) > NAMED:
        where += f" and {len(names) - NAMED} more"
    message = (
        f"The package {tracker}, which its numbers are reported to, is not installed at {where}: the job waits for a "
        f"worker that has it. Install it there (`pip install {tracker}`) and start that worker anew, or {instead}."
    )
    return Remark(param="changes.report_to", code="tracker_missing", message=message)


def look_at_tracker(asked: ResolvedJob, able: Sequence[Candidate], given: Sequence[Candidate]) -> None:
    """Warn of a job that is given to nobody while some of those `able` to do it lack its tracker's package."""
    tracker = getattr(asked.config, "report_to", NONE)
    names = [one.name for one in able if lacks(one, tracker)]
    if names and not given:
        asked.warnings.append(missing(tracker, names, "set changes.report_to to none"))

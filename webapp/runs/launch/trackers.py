"""Trackers of `report_to`: whether the workers that would be given a job have the package that its numbers go to."""

from __future__ import annotations

from collections.abc import Sequence

from training.config import Reinforcement, Supervised
from webapp.runs.candidates import Candidate
from webapp.runs.launch.job_lookup import ResolvedJob


def look_at_tracker(asked: ResolvedJob, able: Sequence[Candidate]) -> None:
    """Warn of a job that fails at the worker that takes it, since its tracker's package is not there."""
    if not isinstance(asked.config, Supervised | Reinforcement) or asked.config.report_to == "none":
        return
    tracker = asked.config.report_to
    lacking = [one.name for one in able if one.software is not None and tracker not in one.software]
    if not lacking:
        return
    if len(lacking) == len(able):
        who = "No worker that could take the job has"
    else:
        who = f"Of {len(able)} workers that could take the job, {len(lacking)} ({lacking[0][:60]}) have not"
    message = (
        f"{who} the package {tracker} that its numbers are reported to: a worker without it lets the job fail. Install "
        f"it there (`pip install {tracker}`) and start that worker anew, or set changes.report_to to none."
    )
    asked.warn("changes.report_to", "tracker_missing", message)

"""An evaluation job carried out: report after report, until the last one, a stop, or too many lost attempts."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from synthesis.runtime import Sandbox
from training import evaluate
from training.attempts import Table, TaskAttempt
from training.config import EvaluationJob, Masking
from training.dataset import TaskRow
from training.evaluation.asked_policy import AskedModels, attempt_all
from training.evaluation.plan import PlannedReport, reports
from training.job import WallTime
from training.metrics import Writer
from training.rewards import scored
from training.step import TooManyLost
from training.step_record import Judged, program_error_words, values_of, write_rollouts
from training.trainer_callbacks import Ended

MASKING = Masking(meu=True, meu_scope="all")
"""What a simulated user spoilt says nothing about the agent, whatever came of it."""
Attempting = Callable[[PlannedReport], list[TaskAttempt]]


@dataclass(frozen=True)
class Evaluation:
    """An evaluation's parts. The first `reported` reports are the site's already; `writer` records the others."""

    cfg: EvaluationJob
    folder: Path
    rows: Sequence[TaskRow]
    attempting: Attempting
    writer: Writer
    stopped: Callable[[], bool]
    reported: int = 0
    wall: WallTime = field(default_factory=WallTime)


def of_model(table: Table, model: Any, cfg: EvaluationJob) -> Attempting:
    """Attempts with a model in this process."""

    def attempting(report: PlannedReport) -> list[TaskAttempt]:
        seed = f"evaluation:{cfg.seed}:{report.horizon}"
        return evaluate.attempt_all(table, model, report.work, report.horizon, cfg.decoding, seed, "evaluated")

    return attempting


def of_endpoint(sandbox: Sandbox, asked: AskedModels, cfg: EvaluationJob, stopped: Callable[[], bool]) -> Attempting:
    """Attempts with a model behind an address."""

    def attempting(report: PlannedReport) -> list[TaskAttempt]:
        return attempt_all(
            sandbox, asked, report.work, turns=report.horizon, decoding=cfg.decoding, limits=cfg.attempts,
            stopped=stopped,
        )  # fmt: skip

    return attempting


def carry_out(job: Evaluation) -> tuple[Ended, int]:
    """Make the reports that are missing; returns how it ended and how many are there.

    Raises TooManyLost: of a report's attempts, which is not written then; what the attempts raise.
    """
    planned = reports(job.cfg, job.rows)
    if job.reported:
        words = f"Goes on behind report {job.reported} of {len(planned)}: those attempts are counted already."
        job.writer.event(job.reported, "info", words, resumed=job.reported)
    tasks, attempts = job.cfg.tried(len(job.rows)), sum(len(report.work) for report in planned)
    job.writer.event(job.reported, "info", "The evaluation begins.", tasks=tasks, attempts=attempts)
    for report in planned[job.reported :]:
        if job.stopped():
            return "stopped", report.number - 1
        job.wall.keep()
        if time.monotonic() - job.wall.started > job.cfg.limits.hours * 3600:
            return "out_of_time", report.number - 1
        began = time.perf_counter()
        made = job.attempting(report)
        if len(made) < len(report.work) or job.stopped():
            # What was under way was cancelled, which is no result: the report is made again as a whole.
            return "stopped", report.number - 1
        judged = [(tried, scored(tried.attempt, "score", MASKING)) for tried in made]
        _require_most(judged, job.cfg.limits.infra_error_share)
        _write(job, report, judged, time.perf_counter() - began)
    return "done", len(planned)


def _require_most(judged: Sequence[Judged], most: float) -> None:
    lost = [tried.attempt.note for tried, score in judged if score.masked == "infra_error"]
    if len(lost) > most * len(judged):
        raise TooManyLost(
            f"{len(lost)} of {len(judged)} attempts that are reported together were lost to the infrastructure, more "
            f"than the {most:.0%} allowed (limits.infra_error_share); the last one: {lost[-1][:500] or 'no reason'}. "
            "None of them was counted: mend it, then resume."
        )


def _write(job: Evaluation, report: PlannedReport, judged: Sequence[Judged], seconds: float) -> None:
    """The report's numbers and its attempts; the attempts come last, and with them it counts."""
    values: dict[str, float] = values_of(judged, seconds) | {"horizon": float(report.horizon)}
    job.writer.values(report.number, values)
    lost = [tried.attempt.note for tried, score in judged if score.masked == "infra_error"]
    if lost:
        words = f"{len(lost)} of {len(judged)} attempts were lost and count nowhere; the last one: {lost[-1][:500]}"
        job.writer.event(report.number, "warn", words, lost=len(lost))
    ended = sum(tried.attempt.outcome == "program_error" for tried, _ in judged)
    if ended:
        words = f"Programs ended {ended} of {len(judged)} attempts, which count as 0: {program_error_words(judged)}"
        job.writer.event(report.number, "warn", words, program_errors=ended)
    path = f"rollouts/step-{report.number:06d}.jsonl.gz"
    write_rollouts(job.folder / path, judged, [None] * len(judged), 0, report.horizon)
    job.writer.artefact(report.number, "rollouts", path, attempts=len(judged), policy_step=0)

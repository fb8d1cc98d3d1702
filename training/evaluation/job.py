"""Execution of an evaluation job: report after report, until the last one, a stop, or too many lost attempts."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from synthesis.runtime import Sandbox
from training import evaluate
from training.attempts import Table, TaskAttempt, Try, stream_attempts
from training.config import EvaluationJob, Masking
from training.dataset import TaskRow
from training.evaluation.asked_policy import AskedModels, attempt_at_endpoint
from training.job import WallTime
from training.metrics import Writer
from training.rewards import score_attempt
from training.sampler import PlannedReport, plan_reports
from training.step import TooManyLost
from training.step_record import (
    Judged,
    compute_step_values,
    describe_program_errors,
    describe_unknown_users,
    write_rollouts,
)
from training.trainer_callbacks import Ended

MASKING = Masking(meu=True, meu_scope="all")
"""What a simulated user spoilt says nothing about the agent, whatever came of it."""
Attempting = Callable[[Sequence[Try], Callable[[int, TaskAttempt], None], Callable[[int], bool]], None]
"""Makes attempts and hands each over when it has ended (`training.attempts.stream_attempts`)."""


@dataclass(frozen=True)
class Evaluation:
    """Parts of an evaluation. The site has the first `reported` reports already; `writer` records the others."""

    cfg: EvaluationJob
    folder: Path
    rows: Sequence[TaskRow]
    attempting: Attempting
    writer: Writer
    stopped: Callable[[], bool]
    reported: int = 0
    wall: WallTime = field(default_factory=WallTime)


def build_model_attempter(table: Table, model: Any, cfg: EvaluationJob) -> Attempting:
    """Return a function that makes attempts with a model in this process."""

    def attempt_work(
        work: Sequence[Try], done: Callable[[int, TaskAttempt], None], begins: Callable[[int], bool]
    ) -> None:
        with evaluate.open_generation(table, model, cfg.decoding, "evaluated") as engine:
            stream_attempts(table, engine, work, cfg.decoding, done, begins)

    return attempt_work


def build_endpoint_attempter(
    sandbox: Sandbox, asked: AskedModels, cfg: EvaluationJob, stopped: Callable[[], bool]
) -> Attempting:
    """Return a function that makes attempts with a model behind an address."""

    def attempt_work(
        work: Sequence[Try], done: Callable[[int, TaskAttempt], None], begins: Callable[[int], bool]
    ) -> None:
        attempt_at_endpoint(sandbox, asked, work, cfg.decoding, cfg.attempts, stopped, done, begins)

    return attempt_work


def run_evaluation(job: Evaluation) -> tuple[Ended, int]:
    """Make the missing reports; return how it ended and the number of reports written.

    Raises TooManyLost: too many attempts of a report, which is then not written; and the errors of the attempts.
    """
    planned = plan_reports(job.cfg, job.rows)
    if job.reported:
        words = f"Goes on behind report {job.reported} of {len(planned)}: those attempts are counted already."
        job.writer.event(job.reported, "info", words, resumed=job.reported)
    tasks, attempts = job.cfg.tried(len(job.rows)), sum(len(report.work) for report in planned)
    job.writer.event(job.reported, "info", "The evaluation begins.", tasks=tasks, attempts=attempts)
    desk = _Desk(job, planned[job.reported :])
    if desk.work:
        job.attempting(desk.work, desk.take, desk.can_begin)
    if desk.written == len(planned):
        return "done", desk.written
    return ("out_of_time" if desk.out_of_time and not job.stopped() else "stopped"), desk.written


class _Desk:
    """Reports that are filled while attempts run: nothing waits for a report's last attempt. Each report is written
    when it and those before it are complete, so that an evaluation can resume after the last one without gaps.
    """

    def __init__(self, job: Evaluation, planned: Sequence[PlannedReport[TaskRow]]) -> None:
        self.job = job
        self.written = job.reported
        self.out_of_time = False
        self.work: list[Try] = []
        self._report_of: list[PlannedReport[TaskRow]] = []
        self._first: list[bool] = []
        self._waiting = list(planned)
        self._made: dict[int, dict[int, TaskAttempt]] = {report.number: {} for report in planned}
        self._since = time.perf_counter()
        for report in planned:
            seed = f"evaluation:{job.cfg.seed}:{report.horizon}"
            self.work += [Try(row, ordinal, report.horizon, seed) for row, ordinal in report.work]
            self._report_of += [report] * len(report.work)
            self._first += [place == 0 for place in range(len(report.work))]

    def can_begin(self, place: int) -> bool:
        """Return whether another attempt is begun. The time limit is checked between reports, so that begun ones
        complete.
        """
        if self._first[place]:
            self.job.wall.keep()
            self.out_of_time = time.monotonic() - self.job.wall.started_at > self.job.cfg.limits.hours * 3600
        return not self.out_of_time and not self.job.stopped()

    def take(self, place: int, tried: TaskAttempt) -> None:
        """Store an attempt that has ended, and write the reports it completes. Raises TooManyLost."""
        if tried.attempt.ending == "cancelled":
            return
        self._made[self._report_of[place].number][place] = tried
        while self._waiting and len(self._made[self._waiting[0].number]) == len(self._waiting[0].work):
            report = self._waiting.pop(0)
            report_attempts = self._made.pop(report.number)
            judged = [
                (report_attempts[place], score_attempt(report_attempts[place].attempt, "score", MASKING))
                for place in sorted(report_attempts)
            ]
            _require_few_lost(judged, self.job.cfg.limits.infra_error_share)
            now = time.perf_counter()
            _write_report(self.job, report, judged, now - self._since)
            self._since, self.written = now, report.number


def _require_few_lost(judged: Sequence[Judged], most: float) -> None:
    lost = [tried.attempt.note for tried, score in judged if score.masked == "infra_error"]
    if len(lost) > most * len(judged):
        raise TooManyLost(
            f"{len(lost)} of {len(judged)} attempts that are reported together were lost to the infrastructure, more "
            f"than the {most:.0%} allowed (limits.infra_error_share); the last one: {lost[-1][:500] or 'no reason'}. "
            "None of them was counted: mend it, then resume."
        )


def _write_report(job: Evaluation, report: PlannedReport[TaskRow], judged: Sequence[Judged], seconds: float) -> None:
    """Write the report's numbers and its attempts; the attempts come last, since they make it count."""
    values: dict[str, float] = compute_step_values(judged, seconds) | {"horizon": float(report.horizon)}
    job.writer.values(report.number, values)
    lost = [tried.attempt.note for tried, score in judged if score.masked == "infra_error"]
    if lost:
        words = f"{len(lost)} of {len(judged)} attempts were lost and count nowhere; the last one: {lost[-1][:500]}"
        job.writer.event(report.number, "warn", words, lost=len(lost))
    program_errors = sum(tried.attempt.outcome == "program_error" for tried, _ in judged)
    if program_errors:
        causes = describe_program_errors(judged)
        words = f"Programs ended {program_errors} of {len(judged)} attempts, which count as 0: {causes}"
        job.writer.event(report.number, "warn", words, program_errors=program_errors)
    if words := describe_unknown_users(judged):
        job.writer.event(report.number, "warn", words)
    path = f"rollouts/step-{report.number:06d}.jsonl.gz"
    write_rollouts(job.folder / path, judged, [None] * len(judged), 0, report.horizon)
    job.writer.artefact(report.number, "rollouts", path, attempts=len(judged), policy_step=0)

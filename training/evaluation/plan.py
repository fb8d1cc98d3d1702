"""Plan of an evaluation: which attempts at which tasks are reported together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from training.config import EvaluationJob
from training.dataset import TaskRow
from training.evaluate import chosen


@dataclass(frozen=True)
class PlannedReport:
    """Attempts at (row, ordinal) that are made and reported together; `number` counts from 1."""

    number: int
    horizon: int
    work: tuple[tuple[TaskRow, int], ...]


def reports(config: EvaluationJob, rows: Sequence[TaskRow]) -> list[PlannedReport]:
    """All of an evaluation's reports, as many as `config.steps` says. Within a horizon every task is tried once, then
    every one a second time: what a broken-off evaluation has is of all tasks."""
    tried = chosen(rows, config.tasks or len(rows), config.seed)
    work = [(row, ordinal) for ordinal in range(config.repeats) for row in tried]
    size = config.report_every
    parts = [
        (horizon, tuple(work[start : start + size]))
        for horizon in config.horizons
        for start in range(0, len(work), size)
    ]
    return [PlannedReport(number, horizon, part) for number, (horizon, part) in enumerate(parts, 1)]

"""Number of steps of a training job."""

from __future__ import annotations

import math

from training.config import EvaluationJob, JobConfig, Reinforcement, Supervised
from training.sampler import Prompt, draw_epoch_rows
from webapp.datasets.models import Dataset, DatasetState, StoredFile
from webapp.datasets.row_facts import Facts

MOST_COUNTED = 2_000_000
"""Rows times epochs that are gone through for an exact number of steps."""


def count_steps(
    config: JobConfig | None, facts: Facts | None, dataset: Dataset | None = None, file: StoredFile | None = None
) -> tuple[int | None, str]:
    """Return the steps of a job, and how their number is known or why not."""
    if isinstance(config, EvaluationJob):
        return _count_reports(config, dataset, file)
    if config is None:
        return None, "the configuration does not fit"
    if isinstance(config, Reinforcement):
        return config.steps, "as configured"
    if facts is None:
        return None, "they depend on the rows, which are not frozen yet or too many to count now"
    if len(facts.rows) * math.ceil(config.epochs) > MOST_COUNTED:
        return None, "too many rows to count now"
    samples = sum(_count_samples(facts, config, epoch) for epoch in range(math.ceil(config.epochs)))
    steps = -(-samples // config.batch)
    if config.too_long == "drop":
        return steps, "at most: rows that are too long are left out"
    return steps, f"{samples} samples by {config.batch}"


def _count_samples(facts: Facts, config: Supervised, epoch: int) -> int:
    """Return the samples of one epoch, as the trainer goes through them."""
    samples_by_row = [row.turns if config.samples == "mask_history" else min(1, row.turns) for row in facts.rows]
    prompts = [
        Prompt(row=number, environment=row.environment, setting="conversation" if row.setting != "task" else "task")
        for number, row in enumerate(facts.rows)
        if samples_by_row[number]
    ]
    if all(config.mixture.environments.get(prompt.environment, 1.0) == 1.0 for prompt in prompts) and all(
        config.mixture.settings.get(prompt.setting, 1.0) == 1.0 for prompt in prompts
    ):
        total = sum(samples_by_row)
    elif not any(
        config.mixture.environments.get(prompt.environment, 1.0) * config.mixture.settings.get(prompt.setting, 1.0)
        for prompt in prompts
    ):
        return 0
    else:
        total = sum(samples_by_row[row] for row in draw_epoch_rows(prompts, config.mixture, epoch, config.seed))
    return round(total * min(1.0, config.epochs - epoch))


def count_evaluated_rows(config: EvaluationJob, dataset: Dataset) -> int:
    """Return the number of rows of the side that an evaluation tries, as the trainer takes it."""
    if config.side == "all":
        return dataset.train_rows + dataset.test_rows
    return dataset.test_rows if config.side == "held_out" and dataset.test_rows else dataset.train_rows


def _count_reports(config: EvaluationJob, dataset: Dataset | None, file: StoredFile | None) -> tuple[int | None, str]:
    """Return the steps of an evaluation, which are its reports."""
    if dataset is not None and dataset.state == DatasetState.READY:
        rows = count_evaluated_rows(config, dataset)
    elif file is not None:
        rows = int(file.report.get("rows") or 0)
    else:
        return None, "they depend on the rows, which are not frozen yet"
    tasks = config.tried(rows)
    attempts = tasks * config.repeats * len(config.horizons)
    note = f"{attempts:,} attempts at {tasks:,} tasks, at most {config.report_every:,} of them to a report"
    return config.steps(rows), note

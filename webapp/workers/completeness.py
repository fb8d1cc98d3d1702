"""Completeness of an attempt that its worker ends as done: all steps, the attempts behind their numbers, the model."""

from __future__ import annotations

import math
from typing import Any

from training.config import Supervised, read_config
from webapp.runs.evaluations.progress import count_reports
from webapp.runs.models import Checkpoint, CheckpointState, MetricPoint, RolloutFile, TrainingJob
from webapp.runs.rollouts.reported_means import PARTS, is_counted
from webapp.runs.transitions import AttemptEnding

MOST_NAMED = 5
COUNTED_ALIKE = 0.9
"""The share of the steps of SFT that were counted here which a trainer takes at least."""


def describe_missing(job: TrainingJob, number: int, ending: AttemptEnding) -> str:
    """Describe what is missing of an attempt that ends as done; empty if nothing is, or the worker gave a reason.

    Numbers that the end repeats (`result`) have to be those that were reported; no reason excuses others.
    """
    if job.is_evaluation:
        report_count = count_reports(job)
        return f"{report_count} of its {job.total_steps} reports are here." if report_count < job.total_steps else ""
    if contradicted := _describe_other_results(job, ending.result or {}):
        return contradicted
    if ending.message.strip():
        return ""
    if job.total_steps and job.step < _get_fewest_steps(job):
        return f"it ended at step {job.step} of {job.total_steps}, and no reason was given."
    final = Checkpoint.objects.filter(job=job, attempt=number, final=True, state=CheckpointState.READY)
    step = final.values_list("step", flat=True).first()
    if step is not None and step != job.step:
        return f"its model is said to be of step {step}, and the last step that was reported is {job.step}."
    return _describe_unsent_attempts(job)


def _get_fewest_steps(job: TrainingJob) -> int:
    """Return the number of steps that are due at least. Those of SFT are counted here by rows and there by samples; if
    rows that are too long are dropped, their number is known to the trainer alone."""
    config = read_config(job.config)
    if not isinstance(config, Supervised):
        return job.total_steps
    return 1 if config.too_long == "drop" else math.floor(COUNTED_ALIKE * job.total_steps)


def _describe_unsent_attempts(job: TrainingJob) -> str:
    """Describe steps with numbers of attempts that were never sent."""
    points = MetricPoint.objects.filter(key__job=job, superseded=False).exclude(key__name__startswith="evaluation/")
    names = job.keys.values_list("name", "pk")
    counted = [pk for name, pk in names if is_counted(name) and not name.startswith(tuple(f"{p}/" for p in PARTS))]
    reported_steps = set(points.filter(key__in=counted).values_list("step", flat=True))
    sent_steps = set(RolloutFile.objects.filter(job=job, superseded=False).values_list("step", flat=True))
    steps = sorted(reported_steps - sent_steps)
    if not steps:
        return ""
    named = ", ".join(map(str, steps[:MOST_NAMED])) + (
        f" and {len(steps) - MOST_NAMED} more" if steps[MOST_NAMED:] else ""
    )
    return f"the attempts behind the numbers of these steps were never sent: {named}."


def _describe_other_results(job: TrainingJob, result: dict[str, Any]) -> str:
    """Describe an evaluation in the result whose numbers are not those of the curves."""
    evaluations = result.get("evaluations")
    for evaluation in evaluations if isinstance(evaluations, list) else ():
        if not isinstance(evaluation, dict) or type(step := evaluation.get("step")) is not int:
            return "its result holds an evaluation without a step."
        for name in ("success", "reward"):
            value = evaluation.get(name)
            if value is None:
                continue
            if not isinstance(value, int | float):
                return f"its result says something else than a number of evaluation/{name} at step {step}."
            points = MetricPoint.objects.filter(key__job=job, key__name=f"evaluation/{name}", step=step)
            values = [known for known in points.values_list("value", flat=True) if known is not None]
            if not any(math.isclose(value, known, rel_tol=1e-6, abs_tol=1e-6) for known in values):
                return f"its result says evaluation/{name} = {value} of step {step}, which was not reported."
    return ""

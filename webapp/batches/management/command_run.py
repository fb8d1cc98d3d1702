"""Runner of a batch for commands: executes it in this process and reports the result in numbers."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, F, Sum
from django.db.models.fields.json import KT

from synthesis.scripted.detection import ItemEnding, is_caught, is_reached
from synthesis.scripted.planted import list_planted_faults
from synthesis.tasks.task_context import LEAKS
from synthesis.tool_graph.argument_stage import UNCHANGED
from webapp.batches.engine.item import AMENDS
from webapp.batches.engine.shifts import count_worked_seconds
from webapp.batches.models import (
    AttemptRole,
    Batch,
    BatchAttempt,
    BatchItem,
    BatchLane,
    BatchProduct,
    BatchState,
    Body,
    CallState,
    ItemState,
    LLMCall,
    StageRun,
    StageState,
)
from webapp.common.content_store import load_value
from webapp.jobs.jobs import run_job
from webapp.jobs.models import JobState
from webapp.jobs.services import reap_jobs
from webapp.trajectories.models import Trajectory
from webapp.trajectories.pass_rates import compute_mean_pass_at

LOOK_SECONDS = 0.5
NAMING = ("query", "refine", "answer")
"""Stages that say which words they refused as names of the system."""
Tell = Callable[[int, int, str], None]


def run_batch_to_end(batch: Batch, tell: Tell = lambda done, total, note: None) -> Batch:
    """Run the batch's queued jobs in this process and wait for the others, until the batch no longer runs."""
    while True:
        waiting = BatchLane.objects.filter(batch=batch, job__state=JobState.QUEUED).order_by("id").first()
        if waiting is not None:
            run_job(waiting.job_id)
        batch.refresh_from_db()
        if batch.state != BatchState.RUNNING:
            return batch
        reap_jobs()
        items = batch.items.exclude(state__in=[ItemState.WAITING, ItemState.RUNNING]).count()
        tell(items, batch.items.count(), batch.name)
        time.sleep(LOOK_SECONDS)


def build_report(batch: Batch) -> dict[str, Any]:
    """Return the report of a batch: what it made, what it left out and why, and which calls it sent."""
    items = Counter(dict(batch.items.values_list("state").annotate(Count("id")).order_by()))
    products = BatchProduct.objects.filter(item__batch=batch)
    levels = Counter(dict(products.values_list("item__level").annotate(Count("id")).order_by()))
    reasons = (
        batch.items.filter(state=ItemState.REJECTED).values_list("reason").annotate(Count("id")).order_by("reason")
    )
    failed = batch.items.filter(state=ItemState.FAILED).values_list("reason").annotate(Count("id")).order_by("reason")
    used = batch.counts.aggregate(replayed=Sum("replayed"), seconds=Sum("seconds"))
    tools = Sum(F("version__query_count") + F("version__change_count"))
    environments = products.filter(item__level="theme").aggregate(tools=tools)
    return {
        "batch": batch.pk,
        "state": batch.state,
        "items": sum(items.values()),
        "kept": items[ItemState.KEPT],
        "environments": levels["theme"],
        "tools": environments["tools"] or 0,
        **_count_tool_repairs(batch),
        "scenarios": levels["scenario"],
        "tasks": levels["task"],
        "trajectories": levels["trajectory"],
        **_report_attempts(batch),
        "rejected": dict(reasons),
        **(_count_refusals(batch, dict(reasons)) if batch.variant != "envscaler" else {}),
        "failed": dict(failed),
        "llm_calls": batch.requests - batch.lost,
        "lost_calls": batch.lost,
        "replayed_calls": used["replayed"] or 0,
        "cost": batch.spent,
        "unpriced_calls": batch.unpriced,
        "seconds": round(count_worked_seconds(batch) or 0.0, 3),
    }


def _count_tool_repairs(batch: Batch) -> dict[str, int]:
    """Count the tools of the batch's environments that were repaired or removed after a failed assessment."""
    runs = StageRun.objects.annotate(amends=KT(f"used__{AMENDS}")).filter(item__batch=batch, state=StageState.KEPT)
    outcomes: Counter[str] = Counter()
    for digest in runs.filter(amends__isnull=False, output__isnull=False).values_list("output", flat=True):
        output = load_value(Body, str(digest))
        outcomes.update(repair["outcome"] for repair in output.get("repairs", ()))
    return {"tools_repaired": outcomes["repaired"], "tools_removed": outcomes["removed"]}


def _count_refusals(batch: Batch, reasons: Mapping[str, int]) -> dict[str, int]:
    """Count tasks that were rejected because their golden state equals the initial state, and tasks whose words named
    facts that a user cannot know (rejected or asked for again)."""
    runs = StageRun.objects.filter(item__batch=batch, stage__in=NAMING, state=StageState.KEPT, output__isnull=False)
    leaked = [load_value(Body, str(digest)).get("leaked") for digest in runs.values_list("output", flat=True)]
    return {
        "golden_unchanged_rejected": reasons.get(UNCHANGED, 0),
        "leaks_caught": sum(map(bool, leaked)) + reasons.get(LEAKS, 0),
    }


def _report_attempts(batch: Batch) -> dict[str, Any]:
    """Report how many attempts of solvers and teachers are kept as trajectories, the reasons of those that are not, and
    the mean pass@k of the solver over the batch's tasks."""
    attempts = BatchAttempt.objects.filter(item__batch=batch)
    unkept_counts = (
        attempts.filter(trajectory__isnull=True).values_list("unkept").annotate(Count("id")).order_by("unkept")
    )
    solver = Trajectory.objects.filter(batch_attempts__in=attempts.filter(role=AttemptRole.SOLVER))
    return {
        "attempts_kept": attempts.filter(trajectory__isnull=False).count(),
        "attempts_not_kept": {reason or "deleted": count for reason, count in unkept_counts},
        "pass_at_k": compute_mean_pass_at(solver),
    }


def list_unkept_items(batch: Batch) -> list[BatchItem]:
    """Return the items that were not kept, with their reasons."""
    return list(batch.items.filter(state__in=[ItemState.REJECTED, ItemState.FAILED]).defer("spec").order_by("id"))


@dataclass(frozen=True)
class BatchTraces:
    """The traces of a batch, used to find out whether planted faults were caught (`synthesis.scripted.detection`)."""

    batch: Batch

    def calls(self, role: str, stage: str, item: str, sample: int) -> int:
        """Return the number of replies at this place."""
        rows = LLMCall.objects.filter(path=item, role=role, stage=stage, sample=sample, state=CallState.DONE)
        used: set[str] = set()
        for keys in StageRun.objects.filter(item__batch=self.batch, item__path=item).values_list("calls", flat=True):
            used.update(keys)
        return rows.filter(key__in=used).count()

    def ending(self, item: str) -> ItemEnding | None:
        """Return how an item ended; None if it was never started."""
        row = self.batch.items.filter(path=item).first()
        return None if row is None else ItemEnding(stage=row.stage, state=row.state, reason=row.reason)

    def output(self, item: str, stage: str) -> Mapping[str, Any] | None:
        """Return the output of a stage for an item."""
        row = StageRun.objects.filter(item__batch=self.batch, item__path=item, stage=stage, state=StageState.KEPT)
        digest = row.values_list("output", flat=True).first()
        output = load_value(Body, digest) if digest else None
        return output if isinstance(output, dict) else None


def build_planted_report(batch: Batch) -> dict[str, Any]:
    """Report how many of the scripted provider's planted faults the batch met, and how many it caught."""
    traces = BatchTraces(batch)
    met = [
        fault for fault in list_planted_faults() if fault.variant in ("", batch.variant) and is_reached(fault, traces)
    ]
    missed = [f"{fault.path}: {fault.kind} ({fault.caught_by})" for fault in met if not is_caught(fault, traces)]
    return {"planted_failures": len(met), "planted_caught": len(met) - len(missed), "planted_missed": missed}

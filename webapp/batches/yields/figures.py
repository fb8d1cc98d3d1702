"""Figures of a batch's yield, added up in the database: queries whose number does not depend on the batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from django.db import connection
from django.db.models import Count, Q, Sum

from synthesis.pipeline import PIPELINES
from webapp.batches import queries
from webapp.batches.models import Batch, BatchItem, LLMCall, StageRun
from webapp.batches.pages.filters import REPAIRS
from webapp.batches.pages.progress import StageLine, funnel, open_items, took
from webapp.batches.yields.choices import read_choices
from webapp.batches.yields.solve_rates import solve_rates

VERSION = 2
"""Raised where figures change their meaning: what was stored before is read anew."""
THEME_COLUMNS = ("environments", "tasks", "tasks_entered", "runs", "solved", "tokens", "cost", "seconds")
"""Of a theme: its kept environments and tasks, tasks that were begun, attempts and solved ones, and what was used down
to its tasks, without the attempts."""
ABOVE_TASK = ("theme", "scenario", "task")
PER_THEME = f"""
SELECT split_part(split_part(item.path, '/', 1), '@', 1) AS theme,
    count(*) FILTER (WHERE item.level = 'theme' AND item.state = 'kept'),
    count(*) FILTER (WHERE item.level = 'task' AND item.state = 'kept'),
    count(*) FILTER (WHERE item.level = 'task'),
    count(*) FILTER (WHERE item.level = 'trajectory' AND item.state IN ('kept', 'rejected')),
    count(*) FILTER (WHERE item.level = 'trajectory' AND item.state = 'kept'),
    coalesce(sum(run.tokens) FILTER (WHERE item.level <> 'trajectory'), 0)::bigint,
    coalesce(sum(item.cost) FILTER (WHERE item.level <> 'trajectory'), 0),
    coalesce(sum(item.seconds) FILTER (WHERE item.level <> 'trajectory'), 0)
FROM {BatchItem._meta.db_table} item
LEFT JOIN LATERAL (
    SELECT sum(prompt_tokens + completion_tokens) AS tokens FROM {StageRun._meta.db_table} WHERE item_id = item.id
) run ON true
WHERE item.batch_id = %s GROUP BY 1 ORDER BY 1
"""
REPAIRED = f"""
SELECT run.stage, count(*) FROM {StageRun._meta.db_table} run
JOIN {BatchItem._meta.db_table} item ON item.id = run.item_id
WHERE item.batch_id = %s AND run.state = 'kept' AND (run.used::jsonb -> 'prompts') ?| %s GROUP BY 1
"""


def read(batch: Batch) -> dict[str, Any]:
    """Everything that the page, the command and the API say of a batch's yield, as JSON."""
    lines = [
        line for line in funnel(queries.counts(batch.pk), open_items(batch.pk), PIPELINES[batch.variant]) if line.name
    ]
    repaired = _repaired(batch.pk)
    kept = _kept(batch.pk)
    rates = solve_rates(batch.pk)
    stages = [_stage(line, repaired) for line in lines if line.level or line.entered]
    return {
        "version": VERSION,
        "stages": stages,
        "choices": read_choices(batch, repaired, stages),
        "kept": kept,
        "used": _used(lines),
        "one_environment": _for_one(lines, ("theme",), kept["theme"]),
        "one_task": _for_one(lines, ABOVE_TASK, kept["task"]),
        "elapsed": took(batch),
        "solve_rates": asdict(rates) | {"histogram": {str(key): value for key, value in rates.histogram.items()}},
        "models": _models(batch.pk),
        "themes": _themes(batch.pk),
    }


def _stage(line: StageLine, repaired: Mapping[str, int]) -> dict[str, Any]:
    return {
        "stage": line.name,
        "level": line.level,
        "entered": line.entered,
        "kept": line.kept,
        "repaired": repaired.get(line.name, 0),
        "rejected": line.rejected,
        "failed": line.failed,
        "open": line.here,
        "reasons": [asdict(reason) for reason in line.reasons],
        "tokens": line.tokens,
        "cost": line.cost,
        "unpriced": line.unpriced,
        "seconds": line.seconds,
        "requests": line.requests,
        "replayed": line.replayed,
    }


def _kept(batch: int) -> dict[str, int]:
    counts = queries.item_counts(batch)
    return {level: counts.get(level, {}).get("kept", 0) for level in ("theme", "scenario", "task", "trajectory")}


def _used(lines: list[StageLine]) -> dict[str, Any]:
    names = ("tokens", "cost", "unpriced", "seconds", "requests", "replayed")
    return {name: sum(getattr(line, name) for line in lines) for name in names}


def _for_one(lines: list[StageLine], levels: tuple[str, ...], kept: int) -> dict[str, Any] | None:
    """What all items of these levels used, those that were left out too, shared among the kept ones; None without."""
    if not kept:
        return None
    mine = [line for line in lines if line.level in levels]
    sums = {name: sum(getattr(line, name) for line in mine) for name in ("tokens", "cost", "seconds", "requests")}
    shares = {name: value / kept for name, value in sums.items()}
    return shares | {"unpriced": sum(line.unpriced for line in mine), "replayed": sum(line.replayed for line in mine)}


def _repaired(batch: int) -> dict[str, int]:
    with connection.cursor() as cursor:
        cursor.execute(REPAIRED, [batch, list(REPAIRS)])
        return dict(cursor.fetchall())


def _themes(batch: int) -> dict[str, list[float]]:
    """By theme, in the order of `THEME_COLUMNS`."""
    with connection.cursor() as cursor:
        cursor.execute(PER_THEME, [batch])
        return {row[0]: [float(value) for value in row[1:]] for row in cursor.fetchall()}


def _models(batch: int) -> list[dict[str, Any]]:
    """By model: replies that this batch was the first to ask for, and what was wrong with them."""
    rows = LLMCall.objects.filter(batch=batch).order_by().values("model")
    counted = rows.annotate(
        replies=Count("pk", filter=Q(state__in=("done", "aside"))),
        repaired=Count("pk", filter=~Q(repairs=[])),
        unusable=Count("pk", filter=~Q(unusable="")),
        no_reply=Sum("lost"),
    )
    how: dict[str, dict[str, int]] = {}
    for line in queries.readings(batch):
        if line.repair:
            how.setdefault(line.model, {})[line.repair] = line.count
    return [dict(row) | {"repairs": how.get(row["model"], {})} for row in counted.order_by("model")]

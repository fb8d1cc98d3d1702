"""Figures of a batch's yield, added up in the database: the number of queries does not depend on the batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from django.db import connection
from django.db.models import Avg, Count, Q, Sum

from synthesis.pipeline import PIPELINES
from webapp.batches import queries
from webapp.batches.models import AttemptRole, Batch, BatchAttempt, BatchItem, LLMCall, StageRun
from webapp.batches.pages.filters import REPAIRS
from webapp.batches.pages.progress import StageLine, build_funnel, count_elapsed_seconds, count_open_items
from webapp.batches.yields.choices import read_choice_figures
from webapp.batches.yields.environment_figures import read_environment_figures

TENTHS = 10


@dataclass
class SolveRates:
    """Attempts at kept tasks. `histogram` counts tasks by the tenth (0 to 10) of their attempts that solved them."""

    tasks: int = 0
    attempts: int = 0
    solved: int = 0
    histogram: dict[int, int] = field(default_factory=dict)
    mean_reward: float | None = None
    mean_reward_talk: float | None = None


def compute_solve_rates(batch: int) -> SolveRates:
    """Return the solve rates of the attempts that teachers made, kept and rejected ones; solvers' attempts were tries
    at a reference."""
    attempts = BatchAttempt.objects.filter(item__batch_id=batch, role=AttemptRole.TEACHER, trajectory__isnull=False)
    solved = Q(trajectory__outcome="solved")
    by_task = attempts.order_by().values("item__parent").annotate(tried=Count("pk"), won=Count("pk", filter=solved))
    by_pair = Counter((row["tried"], row["won"]) for row in by_task.iterator(chunk_size=5_000))
    histogram: Counter[int] = Counter()
    for (tried, won), tasks in by_pair.items():
        histogram[TENTHS * won // tried] += tasks
    return SolveRates(
        tasks=sum(by_pair.values()),
        attempts=sum(tried * tasks for (tried, _), tasks in by_pair.items()),
        solved=sum(won * tasks for (_, won), tasks in by_pair.items()),
        histogram={tenth: histogram[tenth] for tenth in range(TENTHS + 1)},
        **attempts.aggregate(
            mean_reward=Avg("trajectory__reward", filter=Q(trajectory__conversational=False)),
            mean_reward_talk=Avg("trajectory__reward", filter=Q(trajectory__conversational=True)),
        ),
    )


VERSION = 3
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


def read_yield_figures(batch: Batch) -> dict[str, Any]:
    """Return all figures of a batch's yield for the page, the command and the API, as JSON."""
    lines = [
        line
        for line in build_funnel(
            queries.list_stage_counts(batch.pk), count_open_items(batch.pk), PIPELINES[batch.variant]
        )
        if line.name
    ]
    repaired = _count_repaired(batch.pk)
    kept_counts = _count_kept(batch.pk)
    rates = compute_solve_rates(batch.pk)
    stages = [_build_stage_row(line, repaired) for line in lines if line.level or line.entered]
    return {
        "version": VERSION,
        "variant": batch.variant,
        "stages": stages,
        "choices": read_choice_figures(batch, repaired, stages),
        "kept": kept_counts,
        "used": _sum_usage(lines),
        "one_environment": _divide_by_kept(lines, ("theme",), kept_counts["theme"]),
        "one_task": _divide_by_kept(lines, ABOVE_TASK, kept_counts["task"]),
        "elapsed": count_elapsed_seconds(batch),
        "solve_rates": asdict(rates) | {"histogram": {str(key): value for key, value in rates.histogram.items()}},
        "models": _list_model_replies(batch.pk),
        "themes": _read_theme_numbers(batch.pk),
        "environments": read_environment_figures(batch.pk),
    }


def _build_stage_row(line: StageLine, repaired: Mapping[str, int]) -> dict[str, Any]:
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


def _count_kept(batch: int) -> dict[str, int]:
    counts = queries.count_items(batch)
    return {level: counts.get(level, {}).get("kept", 0) for level in ("theme", "scenario", "task", "trajectory")}


def _sum_usage(lines: list[StageLine]) -> dict[str, Any]:
    names = ("tokens", "cost", "unpriced", "seconds", "requests", "replayed")
    return {name: sum(getattr(line, name) for line in lines) for name in names}


def _divide_by_kept(lines: list[StageLine], levels: tuple[str, ...], kept: int) -> dict[str, Any] | None:
    """Return the usage of all items of these levels, rejected ones too, per kept item; None if none was kept."""
    if not kept:
        return None
    level_lines = [line for line in lines if line.level in levels]
    sums = {
        name: sum(getattr(line, name) for line in level_lines) for name in ("tokens", "cost", "seconds", "requests")
    }
    shares = {name: value / kept for name, value in sums.items()}
    return shares | {
        "unpriced": sum(line.unpriced for line in level_lines),
        "replayed": sum(line.replayed for line in level_lines),
    }


def _count_repaired(batch: int) -> dict[str, int]:
    with connection.cursor() as cursor:
        cursor.execute(REPAIRED, [batch, list(REPAIRS)])
        return dict(cursor.fetchall())


def _read_theme_numbers(batch: int) -> dict[str, list[float]]:
    """Return the numbers by theme, in the order of `THEME_COLUMNS`."""
    with connection.cursor() as cursor:
        cursor.execute(PER_THEME, [batch])
        return {row[0]: [float(value) for value in row[1:]] for row in cursor.fetchall()}


def _list_model_replies(batch: int) -> list[dict[str, Any]]:
    """Return, by model, the replies that this batch was the first to ask for, and their faults."""
    rows = LLMCall.objects.filter(batch=batch).order_by().values("model")
    counted = rows.annotate(
        replies=Count("pk", filter=Q(state__in=("done", "aside"))),
        repaired=Count("pk", filter=~Q(repairs=[])),
        unusable=Count("pk", filter=~Q(unusable="")),
        no_reply=Sum("lost"),
    )
    how: dict[str, dict[str, int]] = {}
    for line in queries.list_readings(batch):
        if line.repair:
            how.setdefault(line.model, {})[line.repair] = line.count
    return [dict(row) | {"repairs": how.get(row["model"], {})} for row in counted.order_by("model")]

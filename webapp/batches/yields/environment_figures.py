"""Figures of a batch by the version of an environment that its tasks belong to: the basis for comparing two
variants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import connection

from synthesis.contracts import UNCOUNTED
from synthesis.pipeline import THEME
from webapp.batches.models import BatchAttempt, BatchItem, BatchProduct, StageRun
from webapp.environments.models import Version
from webapp.scenarios.measures.difficulty import KNOBS
from webapp.scenarios.models import Audit, TaskDifficulty
from webapp.trajectories.models import Trajectory

COLOURS = ("green", "red", "incomplete", "unproven")
COLUMNS = (
    "tasks", "entered", "rejected", "failed", "tokens", "cost", "seconds", "unpriced", "replayed",
    *COLOURS, "solver_tried", "solver_solved", "teacher_tried", "teacher_solved",
    *(f"{knob}_{part}" for knob in KNOBS for part in ("count", "sum")),
)  # fmt: skip
"""Of one environment: its tasks by how they ended, what all below it used and what the variant's own stages used on it,
kept tasks by their audit, judged attempts of solvers (at rejected tasks too) and teachers, and sums of the knobs."""
ROOTS = f"""
WITH root AS (
    SELECT item.id, item.path, product.version_id FROM {BatchItem._meta.db_table} item
    JOIN {BatchProduct._meta.db_table} product ON product.item_id = item.id
    WHERE item.batch_id = %(batch)s AND item.level = 'theme' AND product.version_id IS NOT NULL
), one AS (
    SELECT root.version_id, item.* FROM root JOIN {BatchItem._meta.db_table} item
    ON item.batch_id = %(batch)s AND split_part(item.path, '/', 1) = root.path
)
"""
ENDED = f"""
{ROOTS} SELECT version_id,
    count(*) FILTER (WHERE level = 'task' AND state = 'kept'),
    count(*) FILTER (WHERE level = 'task'),
    count(*) FILTER (WHERE level IN ('scenario', 'task') AND state = 'rejected'),
    count(*) FILTER (WHERE level IN ('scenario', 'task') AND state = 'failed')
FROM one GROUP BY 1
"""
USED = f"""
{ROOTS} SELECT version_id, sum(run.prompt_tokens + run.completion_tokens)::bigint, sum(run.cost), sum(run.seconds),
    sum(run.unpriced)::bigint, sum(run.replayed)::bigint
FROM one JOIN {StageRun._meta.db_table} run ON run.item_id = one.id
WHERE one.level IN ('scenario', 'task') OR one.level = 'theme' AND NOT run.stage = ANY(%(shared)s)
GROUP BY 1
"""
REASONS = f"""
{ROOTS} SELECT version_id, reason, count(*) FROM one
WHERE level IN ('scenario', 'task') AND state = 'rejected' GROUP BY 1, 2
"""
MADE = f"""
{ROOTS} SELECT one.version_id, {", ".join(f"count(*) FILTER (WHERE audit.state = '{colour}')" for colour in COLOURS)},
    {", ".join(f"count(knob.{knob}), coalesce(sum(knob.{knob}), 0)" for knob in KNOBS)}
FROM one JOIN {BatchProduct._meta.db_table} product ON product.item_id = one.id
LEFT JOIN LATERAL (
    SELECT state FROM {Audit._meta.db_table} WHERE revision_id = product.revision_id ORDER BY id DESC LIMIT 1
) audit ON true
LEFT JOIN {TaskDifficulty._meta.db_table} knob ON knob.revision_id = product.revision_id
WHERE one.level = 'task' AND one.state = 'kept' GROUP BY 1
"""
TRIED = f"""
{ROOTS} SELECT version_id,
    count(*) FILTER (WHERE role = 'solver'), count(*) FILTER (WHERE role = 'solver' AND outcome = 'solved'),
    count(*) FILTER (WHERE role = 'teacher'), count(*) FILTER (WHERE role = 'teacher' AND outcome = 'solved')
FROM (
    SELECT one.version_id, made.role, coalesce(run.outcome, made.outcome) AS outcome
    FROM one JOIN {BatchAttempt._meta.db_table} made ON made.item_id = one.id
    LEFT JOIN {Trajectory._meta.db_table} run ON run.id = made.trajectory_id
) AS attempt WHERE outcome <> '' AND NOT outcome = ANY(%(uncounted)s) GROUP BY 1
"""


def read_environment_figures(batch: int) -> dict[str, dict[str, Any]]:
    """Return figures by version, as JSON: its name and environment, `numbers` in the order of `COLUMNS`, `reasons` of
    rejections."""
    parameters: dict[str, Any] = {
        "batch": batch,
        "shared": [stage.name for stage in THEME],
        "uncounted": list(UNCOUNTED),
    }
    numbers_by_version: dict[int, dict[str, float]] = {}
    reasons: dict[int, dict[str, int]] = {}
    parts = (
        (ENDED, COLUMNS[:4]),
        (USED, COLUMNS[4:9]),
        (MADE, (*COLOURS, *COLUMNS[-2 * len(KNOBS) :])),
        (TRIED, ("solver_tried", "solver_solved", "teacher_tried", "teacher_solved")),
    )
    with connection.cursor() as cursor:
        for query, names in parts:
            cursor.execute(query, parameters)
            for version, *values in cursor.fetchall():
                numbers_by_version.setdefault(version, {}).update(zip(names, map(float, values), strict=True))
        cursor.execute(REASONS, parameters)
        for version, reason, count in cursor.fetchall():
            reasons.setdefault(version, {})[reason] = count
    version_rows = Version.objects.filter(pk__in=numbers_by_version).values_list(
        "pk", "environment", "environment__name", "number"
    )
    return {
        str(pk): {
            "environment": environment,
            "name": name,
            "number": number,
            "numbers": [numbers_by_version[pk].get(column, 0.0) for column in COLUMNS],
            "reasons": reasons.get(pk, {}),
        }
        for pk, environment, name, number in version_rows
    }


def list_shared_versions(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    """Return the versions that both batches made tasks of, as keys of `read_environment_figures`."""
    return sorted(set(first) & set(second), key=int)


def count_other_versions(first: Mapping[str, Any], second: Mapping[str, Any]) -> int:
    """Count the environments that both batches have, but in different versions."""
    shared = set(list_shared_versions(first, second))
    left, right = ({row["environment"] for key, row in rows.items() if key not in shared} for rows in (first, second))
    return len(left & right)

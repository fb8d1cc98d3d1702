"""Columns that the statistics count by, filled from what is stored: failures of the newest scores, tokens of usage."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.db import migrations, models

from webapp.trajectories.failure_kinds import name_failure

CHUNK = 1_000
COUNT_TASKS = """
UPDATE scenarios_task AS one SET scored_count = found.scored, solved_count = found.solved FROM (
  SELECT task_id, count(*) AS scored, count(*) FILTER (WHERE outcome = 'solved') AS solved
  FROM trajectories_trajectory
  WHERE outcome = 'program_error' OR reward IS NOT NULL AND outcome NOT IN ('infra_error', 'cancelled')
  GROUP BY 1
) AS found WHERE found.task_id = one.id
"""


def fill_failures(apps: Any, schema_editor: Any) -> None:
    """Name the failure that the newest score of each trajectory gives."""
    trajectory, score, check = (
        apps.get_model(*name)
        for name in (("trajectories", "Trajectory"), ("trajectories", "Score"), ("scenarios", "Check"))
    )
    for keys in split_keys(score.objects.exclude(source="recorded").order_by("trajectory").values_list("trajectory")):
        rows = score.objects.filter(trajectory__in=keys).exclude(source="recorded").order_by("trajectory", "-id")
        newest = list(rows.distinct("trajectory"))
        marks: dict[int, list[str]] = {}
        found = check.objects.filter(revision__in={row.revision_id for row in newest}).order_by("revision", "position")
        for revision, mark in found.values_list("revision", "mark"):
            marks.setdefault(revision, []).append(mark)
        by_kind: dict[str, list[int]] = {}
        for row in newest:
            kind = name_failure(row.reward, row.verdicts, row.outside, marks.get(row.revision_id, []))
            by_kind.setdefault(kind, []).append(row.trajectory_id)
        for kind, pks in by_kind.items():
            if kind:
                trajectory.objects.filter(pk__in=pks).update(failure=kind)


def fill_tokens(apps: Any, schema_editor: Any) -> None:
    """Add up the tokens of the agent's requests."""
    trajectory = apps.get_model("trajectories", "Trajectory")
    for keys in split_keys(trajectory.objects.filter(environment__isnull=False).order_by("pk").values_list("pk")):
        changed = []
        for row in trajectory.objects.filter(pk__in=keys).only("pk", "provenance"):
            usage = row.provenance.get("usage") if isinstance(row.provenance, dict) else None
            parts = (
                [usage.get(name) for name in ("prompt_tokens", "completion_tokens")] if isinstance(usage, dict) else []
            )
            row.tokens = sum(part for part in parts if isinstance(part, int) and 0 < part < 10**12) or None
            if row.tokens:
                changed.append(row)
        trajectory.objects.bulk_update(changed, ["tokens"], batch_size=CHUNK)


def split_keys(rows: Any) -> Iterator[list[int]]:
    """Yield the distinct keys of rows in their order, `CHUNK` at a time."""
    keys = [pk for (pk,) in rows.distinct()]
    for start in range(0, len(keys), CHUNK):
        yield keys[start : start + CHUNK]


class Migration(migrations.Migration):
    dependencies = [("trajectories", "0008_search_words"), ("scenarios", "0008_pictures_solved_counts")]

    operations = [
        migrations.AddField(
            "trajectory", "failure", models.CharField(blank=True, db_default="", default="", max_length=12)
        ),
        migrations.AddField("trajectory", "tokens", models.PositiveBigIntegerField(blank=True, null=True)),
        migrations.RunPython(fill_failures, migrations.RunPython.noop, elidable=True),
        migrations.RunPython(fill_tokens, migrations.RunPython.noop, elidable=True),
        migrations.RunSQL(COUNT_TASKS, migrations.RunSQL.noop, elidable=True),
    ]

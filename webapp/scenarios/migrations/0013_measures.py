"""Who made a task, how solvers agreed and what makes it difficult, filled from records and references."""

from __future__ import annotations

from typing import Any

import django.db.models.deletion
from django.db import migrations, models

import webapp.common.fields
from synthesis.contracts import ReferenceCall
from webapp.scenarios.measures.difficulty import PARTS, count_difficulty

CHUNK = 500
COPY = """
UPDATE scenarios_taskrevision SET consistency = record -> 'programmatic' -> 'consistency'
WHERE verifier_kind = 'script' AND json_typeof(record -> 'programmatic' -> 'consistency') = 'object'
"""


def fill_difficulty(apps: Any, schema_editor: Any) -> None:
    """Count the difficulty of every revision that has a reference."""
    reference, revision, difficulty = (
        apps.get_model("scenarios", name) for name in ("TaskReference", "TaskRevision", "TaskDifficulty")
    )
    rows = reference.objects.order_by("revision", "-id").distinct("revision")
    after = 0
    while chunk := list(rows.filter(revision__gt=after).values_list("revision", "calls")[:CHUNK]):
        after = chunk[-1][0]
        parts = revision.objects.filter(pk__in=[pk for pk, _ in chunk]).values_list("pk", *PARTS)
        made_of = {pk: (blueprint or "", solution or "") for pk, blueprint, solution in parts}
        found = [
            (pk, count_difficulty(*made_of[pk], [ReferenceCall.model_validate(call) for call in calls]))
            for pk, calls in chunk
        ]
        difficulty.objects.bulk_create(difficulty(revision_id=pk, **one.model_dump()) for pk, one in found)


class Migration(migrations.Migration):
    dependencies = [("scenarios", "0012_task_verifier_kind")]

    operations = [
        migrations.AddField("task", "variant", models.CharField(blank=True, db_default="", default="", max_length=20)),
        migrations.AddField(
            "taskrevision", "variant", models.CharField(blank=True, db_default="", default="", max_length=20)
        ),
        migrations.AddField(
            "taskrevision", "consistency", webapp.common.fields.OrderedJSONField(blank=True, null=True)
        ),
        migrations.CreateModel(
            "TaskDifficulty",
            [
                (
                    "revision",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="difficulty",
                        serialize=False,
                        to="scenarios.taskrevision",
                    ),
                ),
                ("walk_steps", models.PositiveIntegerField(blank=True, null=True)),
                ("weak_share", models.FloatField(blank=True, null=True)),
                ("independent_share", models.FloatField(blank=True, null=True)),
                ("unique_tools", models.PositiveIntegerField(blank=True, null=True)),
                ("invocations", models.PositiveIntegerField(blank=True, null=True)),
                ("branches", models.PositiveIntegerField(blank=True, null=True)),
                ("aggregations", models.PositiveIntegerField(blank=True, null=True)),
            ],
        ),
        migrations.CreateModel(
            "PolicyPass",
            [
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("policy", models.CharField(blank=True, max_length=200)),
                ("tried", models.PositiveIntegerField(default=0)),
                ("solved", models.PositiveIntegerField(default=0)),
                ("ten", models.PositiveSmallIntegerField(blank=True, null=True)),
                (
                    "revision",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="passes",
                        to="scenarios.taskrevision",
                    ),
                ),
            ],
        ),
        migrations.AddIndex(
            "policypass",
            models.Index(
                condition=models.Q(("ten__isnull", False)), fields=["policy", "ten", "revision"], name="policypass_ten"
            ),
        ),
        migrations.AddConstraint(
            "policypass", models.UniqueConstraint(fields=("revision", "policy"), name="policypass_unique")
        ),
        migrations.RunSQL(COPY, migrations.RunSQL.noop, elidable=True),
        migrations.RunPython(fill_difficulty, migrations.RunPython.noop, elidable=True),
        migrations.AddIndex(
            "task",
            models.Index(
                condition=models.Q(("variant", ""), _negated=True), fields=["variant", "id"], name="task_variant"
            ),
        ),
    ]

"""Copy the kind of the current revision's verifier to the task, where lists filter by it."""

from __future__ import annotations

from django.db import migrations, models

COPY = """
UPDATE scenarios_task AS task SET verifier_kind = revision.verifier_kind
FROM scenarios_taskrevision AS revision
WHERE revision.id = task.current_id AND revision.verifier_kind <> 'checks'
"""


class Migration(migrations.Migration):
    dependencies = [("scenarios", "0011_verifier_kinds")]

    operations = [
        migrations.AddField(
            "task", "verifier_kind", models.CharField(db_default="checks", default="checks", max_length=16)
        ),
        migrations.RunSQL(COPY, migrations.RunSQL.noop),
        migrations.AddIndex(
            "task",
            models.Index(
                condition=models.Q(("verifier_kind", "checks"), _negated=True),
                fields=["verifier_kind", "id"],
                name="task_verifier",
            ),
        ),
    ]

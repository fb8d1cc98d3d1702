"""Whose pipeline made an environment; a migration of batches fills it."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("environments", "0006_replay_version_runs")]

    operations = [
        migrations.AddField(
            "environment", "variant", models.CharField(blank=True, db_default="", default="", max_length=20)
        ),
        migrations.AddIndex(
            "environment",
            models.Index(
                condition=models.Q(("variant", ""), _negated=True),
                fields=["variant", "-id"],
                name="environment_variant",
            ),
        ),
    ]

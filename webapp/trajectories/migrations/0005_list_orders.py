from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("trajectories", "0004_no_environment")]

    operations = [
        migrations.AddIndex(
            model_name="trajectory", index=models.Index(fields=["policy", "id"], name="trajectory_by_policy")
        ),
        migrations.AddIndex(
            model_name="trajectory", index=models.Index(fields=["step_count", "id"], name="trajectory_by_steps")
        ),
        migrations.AddIndex(
            model_name="trajectory", index=models.Index(fields=["created_at", "id"], name="trajectory_by_day")
        ),
    ]

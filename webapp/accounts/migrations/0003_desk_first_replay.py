from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("accounts", "0002_row_log")]

    operations = [
        migrations.AddField(
            model_name="user",
            name="first_replay_at",
            field=models.DateTimeField(blank=True, null=True),
        ),
    ]

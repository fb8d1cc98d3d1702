"""Places of themes on the theme map, kept."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("pages", "0002_first_steps")]

    operations = [
        migrations.CreateModel(
            name="ThemeLayout",
            fields=[
                ("key", models.CharField(max_length=64, primary_key=True, serialize=False)),
                ("places", models.JSONField()),
                ("at", models.DateTimeField(auto_now_add=True)),
            ],
        ),
    ]

from __future__ import annotations

from typing import Any

import django.contrib.postgres.fields
from django.db import migrations, models

from webapp.environments.program_measures import measures

COLUMNS = ["rule_count", "category_sizes", "query_count", "change_count"]
AT_ONCE = 500


def measure(apps: Any, _editor: Any) -> None:
    versions = apps.get_model("environments", "Version").objects
    rows = versions.only("rules", "state_schema").prefetch_related("tools")
    last = 0
    while found := list(rows.filter(pk__gt=last).order_by("pk")[:AT_ONCE]):
        for row in found:
            kinds = [tool.kind for tool in row.tools.all()]
            for name, value in measures(row.rules, row.state_schema, kinds).items():
                setattr(row, name, value)
        versions.bulk_update(found, COLUMNS)
        last = found[-1].pk


class Migration(migrations.Migration):
    dependencies = [("environments", "0005_assessments")]
    operations = [
        *(
            migrations.AddField("version", name, models.PositiveIntegerField(default=0))
            for name in ("rule_count", "query_count", "change_count")
        ),
        migrations.AddField(
            "version",
            "category_sizes",
            django.contrib.postgres.fields.ArrayField(models.PositiveIntegerField(), default=list),
        ),
        migrations.RunPython(measure, migrations.RunPython.noop, elidable=True),
    ]

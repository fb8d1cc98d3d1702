import functools

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import webapp.common.fields
import webapp.common.public_ids


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("accounts", "__first__"),
    ]

    operations = [
        migrations.CreateModel(
            name="Worker",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "public_id",
                    models.CharField(
                        default=functools.partial(webapp.common.public_ids.new_id, *("wk",), **{}),
                        editable=False,
                        max_length=48,
                        unique=True,
                    ),
                ),
                ("name", models.CharField(max_length=200)),
                ("host", models.CharField(blank=True, max_length=200)),
                ("pid", models.PositiveIntegerField(default=0)),
                ("version", models.CharField(blank=True, max_length=40)),
                ("devices", webapp.common.fields.OrderedJSONField(default=list)),
                ("software", webapp.common.fields.OrderedJSONField(default=dict)),
                ("engines", webapp.common.fields.OrderedJSONField(default=list)),
                ("model_names", webapp.common.fields.OrderedJSONField(default=list)),
                ("usage", webapp.common.fields.OrderedJSONField(default=dict)),
                ("beside", models.BooleanField(default=False)),
                ("seen_at", models.DateTimeField()),
                ("stopped_at", models.DateTimeField(blank=True, null=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "created_by",
                    models.ForeignKey(
                        blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        models.OrderBy(models.F("seen_at"), descending=True),
                        models.OrderBy(models.F("id"), descending=True),
                        name="worker_last_seen",
                    )
                ],
            },
        ),
    ]

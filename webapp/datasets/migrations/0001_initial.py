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
        ("jobs", "0001_initial"),
    ]

    operations = [
        migrations.CreateModel(
            name="StoredFile",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "public_id",
                    models.CharField(
                        default=functools.partial(webapp.common.public_ids.new_id, *("file",), **{}),
                        editable=False,
                        max_length=48,
                        unique=True,
                    ),
                ),
                ("filename", models.CharField(max_length=200)),
                ("purpose", models.CharField(default="fine-tune", max_length=32)),
                ("kind", models.CharField(blank=True, max_length=16)),
                (
                    "state",
                    models.CharField(
                        choices=[("uploaded", "Uploaded"), ("processed", "Processed"), ("error", "Error")],
                        default="uploaded",
                        max_length=12,
                    ),
                ),
                ("stored", models.CharField(blank=True, max_length=200)),
                ("bytes", models.BigIntegerField()),
                ("sha256", models.CharField(blank=True, max_length=64)),
                ("report", webapp.common.fields.OrderedJSONField(default=dict)),
                ("deleted_at", models.DateTimeField(blank=True, null=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "created_by",
                    models.ForeignKey(
                        blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(models.OrderBy(models.F("id"), descending=True), name="storedfile_newest")],
            },
        ),
        migrations.CreateModel(
            name="Dataset",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "public_id",
                    models.CharField(
                        default=functools.partial(webapp.common.public_ids.new_id, *("ds",), **{}),
                        editable=False,
                        max_length=48,
                        unique=True,
                    ),
                ),
                ("name", models.CharField(max_length=200)),
                ("kind", models.CharField(max_length=16)),
                ("source", models.CharField(default="selection", max_length=16)),
                ("selection", webapp.common.fields.OrderedJSONField(default=dict)),
                ("split", webapp.common.fields.OrderedJSONField(default=dict)),
                (
                    "state",
                    models.CharField(
                        choices=[("freezing", "Freezing"), ("ready", "Ready"), ("failed", "Failed")],
                        default="freezing",
                        max_length=12,
                    ),
                ),
                ("error", models.TextField(blank=True)),
                ("stored", models.CharField(blank=True, max_length=200)),
                ("sha256", models.CharField(blank=True, max_length=64)),
                ("manifest", webapp.common.fields.OrderedJSONField(default=dict)),
                ("left_out", webapp.common.fields.OrderedJSONField(default=dict)),
                ("tokens", webapp.common.fields.OrderedJSONField(default=dict)),
                ("train_rows", models.PositiveIntegerField(default=0)),
                ("test_rows", models.PositiveIntegerField(default=0)),
                ("environments", models.PositiveIntegerField(default=0)),
                ("bytes", models.BigIntegerField(default=0)),
                ("archived", models.BooleanField(default=False)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "created_by",
                    models.ForeignKey(
                        blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "job",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="jobs.job",
                    ),
                ),
                (
                    "file",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="datasets",
                        to="datasets.storedfile",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(models.OrderBy(models.F("id"), descending=True), name="dataset_newest"),
                    models.Index(fields=["kind", "state", "-id"], name="dataset_of_kind"),
                    models.Index(fields=["sha256"], name="dataset_by_hash"),
                ],
            },
        ),
    ]

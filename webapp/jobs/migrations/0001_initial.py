import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import webapp.common.fields


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("accounts", "__first__"),
    ]

    operations = [
        migrations.CreateModel(
            name="Job",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("kind", models.CharField(max_length=64)),
                ("queue", models.CharField(max_length=16)),
                ("title", models.CharField(max_length=200)),
                ("subject", models.CharField(blank=True, max_length=64)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("queued", "Queued"),
                            ("running", "Running"),
                            ("succeeded", "Succeeded"),
                            ("failed", "Failed"),
                            ("cancelled", "Cancelled"),
                        ],
                        default="queued",
                        max_length=16,
                    ),
                ),
                ("payload", webapp.common.fields.OrderedJSONField(default=dict)),
                ("attempt", models.PositiveIntegerField(default=0)),
                ("lost", models.PositiveSmallIntegerField(default=0)),
                ("worker", models.CharField(blank=True, max_length=200)),
                ("lease_until", models.DateTimeField(blank=True, null=True)),
                ("heartbeat_at", models.DateTimeField(blank=True, null=True)),
                ("cancel_requested", models.BooleanField(default=False)),
                ("done", models.PositiveIntegerField(default=0)),
                ("total", models.PositiveIntegerField(default=0)),
                ("note", models.CharField(blank=True, max_length=300)),
                ("result", webapp.common.fields.OrderedJSONField(blank=True, null=True)),
                ("error", models.TextField(blank=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("woken_at", models.DateTimeField(blank=True, null=True)),
                ("started_at", models.DateTimeField(blank=True, null=True)),
                ("finished_at", models.DateTimeField(blank=True, null=True)),
                (
                    "created_by",
                    models.ForeignKey(
                        blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(models.OrderBy(models.F("id"), descending=True), name="job_newest"),
                    models.Index(fields=["kind", "subject", "-id"], name="job_by_kind"),
                    models.Index(fields=["subject", "-id"], name="job_by_subject"),
                    models.Index(
                        condition=models.Q(("state__in", ["queued", "running"])),
                        fields=["state", "lease_until"],
                        name="job_open",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="JobLog",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("attempt", models.PositiveIntegerField()),
                ("level", models.CharField(default="info", max_length=8)),
                ("message", models.TextField()),
                ("at", models.DateTimeField(auto_now_add=True)),
                (
                    "job",
                    models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="lines", to="jobs.job"),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["job", "id"], name="joblog_by_job")],
            },
        ),
    ]

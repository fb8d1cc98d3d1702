import functools

import django.contrib.postgres.indexes
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import webapp.common.fields
import webapp.common.public_ids


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("accounts", "__first__"),
        ("datasets", "0001_initial"),
        ("endpoints", "0001_initial"),
        ("scenarios", "0001_initial"),
        ("trajectories", "0001_initial"),
    ]

    operations = [
        migrations.CreateModel(
            name="TrainingJob",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "public_id",
                    models.CharField(
                        default=functools.partial(webapp.common.public_ids.new_id, *("ftjob",), **{}),
                        editable=False,
                        max_length=48,
                        unique=True,
                    ),
                ),
                ("name", models.CharField(blank=True, max_length=200)),
                ("method", models.CharField(max_length=16)),
                ("model", models.CharField(max_length=300)),
                ("preset", models.CharField(blank=True, max_length=64)),
                ("changes", webapp.common.fields.OrderedJSONField(default=dict)),
                ("config", webapp.common.fields.OrderedJSONField(default=dict)),
                ("engine", models.CharField(default="transformers", max_length=16)),
                ("user_model", models.CharField(blank=True, max_length=200)),
                ("calls_allowed", models.PositiveIntegerField(default=100000)),
                ("calls_made", models.PositiveIntegerField(default=0)),
                ("call_tokens", models.BigIntegerField(default=0)),
                ("metadata", models.JSONField(default=dict)),
                ("estimate", webapp.common.fields.OrderedJSONField(default=dict)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("validating_files", "Validating"),
                            ("queued", "Queued"),
                            ("running", "Running"),
                            ("paused", "Paused"),
                            ("succeeded", "Succeeded"),
                            ("failed", "Failed"),
                            ("cancelled", "Cancelled"),
                        ],
                        default="validating_files",
                        max_length=20,
                    ),
                ),
                ("wish", models.CharField(blank=True, max_length=8)),
                ("reason", models.TextField(blank=True)),
                ("doubt", models.TextField(blank=True)),
                ("attempt", models.PositiveIntegerField(default=0)),
                ("lost", models.PositiveSmallIntegerField(default=0)),
                ("worker", models.CharField(blank=True, max_length=48)),
                ("worker_name", models.CharField(blank=True, max_length=200)),
                ("lease_until", models.DateTimeField(blank=True, null=True)),
                ("woken_at", models.DateTimeField(blank=True, null=True)),
                ("step", models.PositiveIntegerField(default=0)),
                ("total_steps", models.PositiveIntegerField(default=0)),
                ("infra_errors", models.PositiveIntegerField(default=0)),
                ("program_errors", models.PositiveIntegerField(default=0)),
                ("trained_tokens", models.BigIntegerField(default=0)),
                ("error_code", models.CharField(blank=True, max_length=40)),
                ("error", models.TextField(blank=True)),
                ("error_param", models.CharField(blank=True, max_length=200)),
                ("result", webapp.common.fields.OrderedJSONField(blank=True, null=True)),
                ("fine_tuned_model", models.CharField(blank=True, max_length=100)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("started_at", models.DateTimeField(blank=True, null=True)),
                ("finished_at", models.DateTimeField(blank=True, null=True)),
                (
                    "after",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="followers",
                        to="runs.trainingjob",
                    ),
                ),
                (
                    "created_by",
                    models.ForeignKey(
                        blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "dataset",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="jobs", to="datasets.dataset"
                    ),
                ),
                (
                    "evaluation",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="datasets.dataset",
                    ),
                ),
                (
                    "user_endpoint",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="endpoints.endpoint",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(models.OrderBy(models.F("id"), descending=True), name="trainingjob_newest"),
                    models.Index(fields=["state", "-id"], name="trainingjob_state"),
                    models.Index(
                        condition=models.Q(("state__in", ["validating_files", "queued", "running"])),
                        fields=["state", "lease_until"],
                        name="trainingjob_open",
                    ),
                    models.Index(fields=["dataset", "-id"], name="trainingjob_dataset"),
                    models.Index(
                        condition=models.Q(("state", "succeeded")),
                        fields=["preset", "method", "-id"],
                        name="trainingjob_past",
                    ),
                    models.Index(
                        condition=models.Q(("worker", ""), _negated=True), fields=["worker"], name="trainingjob_worker"
                    ),
                    django.contrib.postgres.indexes.GinIndex(
                        fields=["metadata"], name="trainingjob_metadata", opclasses=["jsonb_path_ops"]
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="TrainingEvent",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "public_id",
                    models.CharField(
                        default=functools.partial(webapp.common.public_ids.new_id, *("ftevent",), **{}),
                        editable=False,
                        max_length=48,
                        unique=True,
                    ),
                ),
                ("attempt", models.PositiveIntegerField(default=0)),
                ("seq", models.PositiveIntegerField(blank=True, null=True)),
                ("step", models.PositiveIntegerField(default=0)),
                ("kind", models.CharField(default="message", max_length=12)),
                ("level", models.CharField(default="info", max_length=8)),
                ("message", models.TextField()),
                ("data", webapp.common.fields.OrderedJSONField(default=dict)),
                ("at", models.DateTimeField()),
                (
                    "job",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="events", to="runs.trainingjob"
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["job", "-id"], name="trainingevent_newest")],
                "constraints": [models.UniqueConstraint(fields=("job", "attempt", "seq"), name="trainingevent_unique")],
            },
        ),
        migrations.CreateModel(
            name="TrainingAttempt",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("number", models.PositiveIntegerField()),
                ("worker", models.CharField(blank=True, max_length=48)),
                ("worker_name", models.CharField(blank=True, max_length=200)),
                ("worker_host", models.CharField(blank=True, max_length=200)),
                ("from_step", models.PositiveIntegerField(default=0)),
                ("next_seq", models.PositiveIntegerField(default=1)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("running", "Running"),
                            ("done", "Done"),
                            ("stopped", "Stopped"),
                            ("failed", "Failed"),
                            ("lost", "Lost"),
                        ],
                        default="running",
                        max_length=8,
                    ),
                ),
                ("exit", models.CharField(blank=True, max_length=20)),
                ("message", models.TextField(blank=True)),
                ("log", models.TextField(blank=True)),
                ("started_at", models.DateTimeField(auto_now_add=True)),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                (
                    "claimed_by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "job",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="attempts", to="runs.trainingjob"
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["worker"], name="trainingattempt_worker")],
                "constraints": [models.UniqueConstraint(fields=("job", "number"), name="trainingattempt_unique")],
            },
        ),
        migrations.CreateModel(
            name="RolloutFile",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("attempt", models.PositiveIntegerField()),
                ("step", models.PositiveIntegerField()),
                ("stored", models.CharField(blank=True, max_length=200)),
                ("bytes", models.BigIntegerField(default=0)),
                ("sha256", models.CharField(max_length=64)),
                ("count", models.PositiveIntegerField(default=0)),
                ("superseded", models.BooleanField(default=False)),
                ("verified", models.PositiveIntegerField(blank=True, null=True)),
                ("means", webapp.common.fields.OrderedJSONField(default=dict)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "job",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="rollout_files", to="runs.trainingjob"
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["job", "step"], name="rolloutfile_of_step"),
                    models.Index(
                        condition=models.Q(("verified", None)), fields=["job", "step"], name="rolloutfile_waiting"
                    ),
                ],
                "constraints": [models.UniqueConstraint(fields=("job", "attempt", "step"), name="rolloutfile_unique")],
            },
        ),
        migrations.CreateModel(
            name="MetricKey",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=300)),
                ("last_step", models.PositiveIntegerField(default=0)),
                ("last_value", models.FloatField(blank=True, null=True)),
                (
                    "job",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="keys", to="runs.trainingjob"
                    ),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("job", "name"), name="metrickey_unique")],
            },
        ),
        migrations.CreateModel(
            name="Checkpoint",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "public_id",
                    models.CharField(
                        default=functools.partial(webapp.common.public_ids.new_id, *("ftckpt",), **{}),
                        editable=False,
                        max_length=48,
                        unique=True,
                    ),
                ),
                ("attempt", models.PositiveIntegerField()),
                ("step", models.PositiveIntegerField()),
                ("final", models.BooleanField(default=False)),
                (
                    "state",
                    models.CharField(
                        choices=[("uploading", "Uploading"), ("ready", "Ready"), ("deleted", "Deleted")],
                        default="uploading",
                        max_length=12,
                    ),
                ),
                ("superseded", models.BooleanField(default=False)),
                ("bytes", models.BigIntegerField(default=0)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "job",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="checkpoints", to="runs.trainingjob"
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["job", "-step"], name="checkpoint_of_job")],
                "constraints": [
                    models.UniqueConstraint(fields=("job", "attempt", "step", "final"), name="checkpoint_unique")
                ],
            },
        ),
        migrations.CreateModel(
            name="CheckpointFile",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("path", models.CharField(max_length=200)),
                ("bytes", models.BigIntegerField()),
                ("sha256", models.CharField(max_length=64)),
                ("received", models.BigIntegerField(default=0)),
                ("stored", models.CharField(blank=True, max_length=200)),
                (
                    "checkpoint",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="files", to="runs.checkpoint"
                    ),
                ),
            ],
            options={
                "ordering": ["path"],
                "constraints": [models.UniqueConstraint(fields=("checkpoint", "path"), name="checkpointfile_unique")],
            },
        ),
        migrations.CreateModel(
            name="MetricPoint",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("attempt", models.PositiveIntegerField()),
                ("step", models.PositiveIntegerField()),
                ("value", models.FloatField(blank=True, null=True)),
                ("contradicted", models.FloatField(blank=True, null=True)),
                ("superseded", models.BooleanField(default=False)),
                (
                    "key",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="points", to="runs.metrickey"
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("contradicted__isnull", False)),
                        fields=["key"],
                        name="metricpoint_contradicted",
                    )
                ],
                "constraints": [models.UniqueConstraint(fields=("key", "step", "attempt"), name="metricpoint_unique")],
            },
        ),
        migrations.CreateModel(
            name="RunRollout",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("index", models.PositiveIntegerField()),
                ("row", models.CharField(max_length=200)),
                ("environment", models.CharField(blank=True, max_length=200)),
                ("verifier", models.CharField(blank=True, max_length=64)),
                ("setting", models.CharField(blank=True, max_length=16)),
                ("ordinal", models.PositiveIntegerField(default=0)),
                ("outcome", models.CharField(blank=True, max_length=16)),
                ("user_error", models.BooleanField(default=False)),
                ("masked", models.CharField(blank=True, max_length=40)),
                ("reward", models.FloatField(blank=True, null=True)),
                ("advantage", models.FloatField(blank=True, null=True)),
                ("turns", models.PositiveIntegerField(default=0)),
                ("tokens", models.PositiveIntegerField(default=0)),
                ("horizon", models.PositiveIntegerField(default=0)),
                ("policy_step", models.PositiveIntegerField(default=0)),
                ("quarantined", models.TextField(blank=True)),
                (
                    "file",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="rollouts", to="runs.rolloutfile"
                    ),
                ),
                (
                    "revision",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="scenarios.taskrevision",
                    ),
                ),
                (
                    "task",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="scenarios.task",
                    ),
                ),
                (
                    "trajectory",
                    models.OneToOneField(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="run_rollout",
                        to="trajectories.trajectory",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        models.F("file"),
                        models.OrderBy(models.F("advantage"), descending=True, nulls_last=True),
                        models.OrderBy(models.F("id")),
                        name="runrollout_advantage",
                    ),
                    models.Index(fields=["task", "-id"], name="runrollout_task"),
                ],
                "constraints": [models.UniqueConstraint(fields=("file", "index"), name="runrollout_unique")],
            },
        ),
    ]

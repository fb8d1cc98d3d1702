import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import webapp.common.fields


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("accounts", "__first__"),
        ("environments", "0001_initial"),
        ("jobs", "0001_initial"),
        ("scenarios", "0001_initial"),
        ("trajectories", "0001_initial"),
    ]

    operations = [
        migrations.CreateModel(
            name="Body",
            fields=[
                ("hash", models.CharField(max_length=64, primary_key=True, serialize=False)),
                ("size", models.PositiveIntegerField()),
                ("body", models.BinaryField()),
            ],
            options={
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="LaunchLimit",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("annotator_cap", models.FloatField(default=5.0)),
                ("annotator_themes", models.PositiveIntegerField(default=50)),
            ],
        ),
        migrations.CreateModel(
            name="Batch",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=200)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("draft", "Draft"),
                            ("running", "Running"),
                            ("paused", "Paused"),
                            ("capped", "capped: the spend cap is reached"),
                            ("done", "Done"),
                            ("cancelled", "Cancelled"),
                            ("failed", "failed: its workers were lost"),
                        ],
                        default="draft",
                        max_length=12,
                    ),
                ),
                ("settings", webapp.common.fields.OrderedJSONField(default=dict)),
                ("cap", models.FloatField(blank=True, null=True)),
                ("spent", models.FloatField(default=0.0)),
                ("assumed", models.FloatField(default=0.0)),
                ("unpriced", models.PositiveIntegerField(default=0)),
                ("requests", models.PositiveIntegerField(default=0)),
                ("lost", models.PositiveIntegerField(default=0)),
                ("scripted", models.BooleanField(default=False)),
                ("note", models.TextField(blank=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("started_at", models.DateTimeField(blank=True, null=True)),
                ("finished_at", models.DateTimeField(blank=True, null=True)),
                (
                    "cloned_from",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="clones",
                        to="batches.batch",
                    ),
                ),
                (
                    "created_by",
                    models.ForeignKey(
                        blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(models.OrderBy(models.F("id"), descending=True), name="batch_newest"),
                    models.Index(fields=["state", "-id"], name="batch_state"),
                ],
            },
        ),
        migrations.CreateModel(
            name="BatchItem",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("level", models.CharField(max_length=12)),
                ("rank", models.PositiveSmallIntegerField(default=0)),
                ("path", models.CharField(max_length=400)),
                ("position", models.PositiveIntegerField(default=0)),
                ("spec", webapp.common.fields.OrderedJSONField(default=dict)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("waiting", "Waiting"),
                            ("running", "Running"),
                            ("kept", "Kept"),
                            ("rejected", "Rejected"),
                            ("failed", "Failed"),
                            ("cancelled", "Cancelled"),
                        ],
                        default="waiting",
                        max_length=12,
                    ),
                ),
                ("stage", models.CharField(max_length=40)),
                ("claim", models.PositiveIntegerField(default=0)),
                ("starts", models.PositiveIntegerField(default=0)),
                ("reason", models.CharField(blank=True, max_length=60)),
                ("message", models.TextField(blank=True)),
                ("signature", models.CharField(blank=True, max_length=300)),
                ("call_key", models.CharField(blank=True, max_length=64)),
                ("seconds", models.FloatField(default=0.0)),
                ("cost", models.FloatField(default=0.0)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                (
                    "batch",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="items", to="batches.batch"
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
                    "parent",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="children",
                        to="batches.batchitem",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        models.F("batch"),
                        models.F("state"),
                        models.OrderBy(models.F("rank"), descending=True),
                        models.F("id"),
                        name="batchitem_to_claim",
                    ),
                    models.Index(fields=["batch", "id"], name="batchitem_of_batch"),
                    models.Index(fields=["batch", "level", "state", "id"], name="batchitem_by_level"),
                    models.Index(fields=["batch", "signature", "id"], name="batchitem_by_signature"),
                ],
                "constraints": [models.UniqueConstraint(fields=("batch", "path"), name="batchitem_unique")],
            },
        ),
        migrations.CreateModel(
            name="BatchLane",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("reserved", models.FloatField(default=0.0)),
                ("over", models.BooleanField(default=False)),
                (
                    "batch",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="lanes", to="batches.batch"
                    ),
                ),
                (
                    "job",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE, related_name="lane", to="jobs.job"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="BatchProduct",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("provenance", webapp.common.fields.OrderedJSONField(default=dict)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "environment",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="batch_products",
                        to="environments.environment",
                    ),
                ),
                (
                    "item",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE, related_name="product", to="batches.batchitem"
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
                    "scenario",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="batch_products",
                        to="scenarios.scenario",
                    ),
                ),
                (
                    "task",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="batch_products",
                        to="scenarios.task",
                    ),
                ),
                (
                    "trajectory",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="batch_products",
                        to="trajectories.trajectory",
                    ),
                ),
                (
                    "version",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="batch_products",
                        to="environments.version",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="BatchStageCount",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("stage", models.CharField(max_length=40)),
                (
                    "state",
                    models.CharField(
                        choices=[("kept", "Kept"), ("rejected", "Rejected"), ("failed", "Failed")], max_length=12
                    ),
                ),
                ("reason", models.CharField(blank=True, max_length=60)),
                ("count", models.IntegerField(default=0)),
                ("seconds", models.FloatField(default=0.0)),
                ("requests", models.PositiveIntegerField(default=0)),
                ("replayed", models.PositiveIntegerField(default=0)),
                ("prompt_tokens", models.PositiveBigIntegerField(default=0)),
                ("completion_tokens", models.PositiveBigIntegerField(default=0)),
                ("cost", models.FloatField(default=0.0)),
                ("unpriced", models.PositiveIntegerField(default=0)),
                (
                    "batch",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="counts", to="batches.batch"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("batch", "stage", "state", "reason"), name="batchstagecount_unique")
                ],
            },
        ),
        migrations.CreateModel(
            name="LLMCall",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("key", models.CharField(max_length=64, unique=True)),
                ("path", models.CharField(max_length=400)),
                ("role", models.CharField(max_length=16)),
                ("stage", models.CharField(max_length=40)),
                ("sample", models.PositiveIntegerField(default=0)),
                ("model", models.CharField(max_length=300)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("sent", "Sent"),
                            ("done", "Done"),
                            ("failed", "Failed"),
                            ("aside", "set aside: a person asked for another try"),
                        ],
                        default="sent",
                        max_length=8,
                    ),
                ),
                ("prompt_tokens", models.PositiveIntegerField(default=0)),
                ("completion_tokens", models.PositiveIntegerField(default=0)),
                ("cached_tokens", models.PositiveIntegerField(default=0)),
                ("requests", models.PositiveIntegerField(default=0)),
                ("lost", models.PositiveIntegerField(default=0)),
                ("open", models.PositiveIntegerField(default=0)),
                ("seconds", models.FloatField(default=0.0)),
                ("cost", models.FloatField(default=0.0, null=True)),
                ("reason", models.CharField(blank=True, max_length=40)),
                ("error", models.TextField(blank=True)),
                ("signature", models.CharField(blank=True, max_length=300)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                (
                    "batch",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="calls",
                        to="batches.batch",
                    ),
                ),
                (
                    "item",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="first_calls",
                        to="batches.batchitem",
                    ),
                ),
                (
                    "reply",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="batches.body",
                    ),
                ),
                (
                    "request",
                    models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name="+", to="batches.body"),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["batch", "-id"], name="llmcall_of_batch"),
                    models.Index(fields=["batch", "state", "-id"], name="llmcall_by_state"),
                    models.Index(fields=["role", "stage", "-id"], name="llmcall_by_stage"),
                    models.Index(fields=["batch", "role", "stage", "-id"], name="llmcall_by_place"),
                    models.Index(fields=["item", "id"], name="llmcall_of_item"),
                ],
            },
        ),
        migrations.CreateModel(
            name="StageRun",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("stage", models.CharField(max_length=40)),
                (
                    "state",
                    models.CharField(
                        choices=[("kept", "Kept"), ("rejected", "Rejected"), ("failed", "Failed")], max_length=12
                    ),
                ),
                ("reason", models.CharField(blank=True, max_length=60)),
                ("message", models.TextField(blank=True)),
                ("call_key", models.CharField(blank=True, max_length=64)),
                ("calls", webapp.common.fields.OrderedJSONField(default=list)),
                ("used", webapp.common.fields.OrderedJSONField(default=dict)),
                ("seconds", models.FloatField(default=0.0)),
                ("requests", models.PositiveIntegerField(default=0)),
                ("replayed", models.PositiveIntegerField(default=0)),
                ("prompt_tokens", models.PositiveBigIntegerField(default=0)),
                ("completion_tokens", models.PositiveBigIntegerField(default=0)),
                ("cost", models.FloatField(default=0.0)),
                ("unpriced", models.PositiveIntegerField(default=0)),
                ("attempt", models.PositiveIntegerField(default=1)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "item",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="runs", to="batches.batchitem"
                    ),
                ),
                (
                    "output",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="batches.body",
                    ),
                ),
            ],
            options={
                "ordering": ["id"],
                "constraints": [models.UniqueConstraint(fields=("item", "stage"), name="stagerun_unique")],
            },
        ),
    ]

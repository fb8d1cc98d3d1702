import django.contrib.postgres.indexes
import django.db.models.deletion
from django.db import migrations, models

import webapp.common.fields


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("endpoints", "0001_initial"),
        ("environments", "0001_initial"),
        ("jobs", "0001_initial"),
        ("scenarios", "0001_initial"),
    ]

    operations = [
        migrations.CreateModel(
            name="Rollout",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("policy", models.CharField(max_length=200)),
                ("spec", webapp.common.fields.OrderedJSONField(default=dict)),
                ("total", models.PositiveIntegerField()),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "endpoint",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="endpoints.endpoint",
                    ),
                ),
                (
                    "job",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE, related_name="rollout", to="jobs.job"
                    ),
                ),
                (
                    "revision",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="scenarios.taskrevision"
                    ),
                ),
                (
                    "task",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="rollouts", to="scenarios.task"
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
                "indexes": [models.Index(fields=["task", "-id"], name="rollout_of_task")],
            },
        ),
        migrations.CreateModel(
            name="Trajectory",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("source", models.CharField(max_length=32)),
                ("content_hash", models.CharField(max_length=64, unique=True)),
                ("policy", models.CharField(blank=True, max_length=200)),
                ("conversational", models.BooleanField(default=False)),
                ("validation", models.CharField(default="source", max_length=8)),
                ("seed", models.BigIntegerField(default=0)),
                ("now", models.CharField(max_length=40)),
                ("live", models.BooleanField(default=False)),
                ("starts", models.PositiveIntegerField(default=0)),
                ("outcome", models.CharField(blank=True, max_length=16)),
                ("user_error", models.BooleanField(default=False)),
                ("note", models.TextField(blank=True)),
                ("recorded_reward", models.FloatField(blank=True, null=True)),
                ("reward", models.FloatField(blank=True, null=True)),
                ("passed", models.PositiveIntegerField(blank=True, null=True)),
                ("total", models.PositiveIntegerField(blank=True, null=True)),
                ("answer", models.TextField(blank=True)),
                (
                    "replay",
                    models.CharField(
                        choices=[
                            ("pending", "Pending"),
                            ("identical", "identical: every observation and the reward"),
                            ("reproduced", "the reward is the same, an observation is not"),
                            ("diverged", "the reward differs"),
                            ("failed", "could not be replayed"),
                            ("made_here", "made here: its steps are the execution itself"),
                        ],
                        default="pending",
                        max_length=16,
                    ),
                ),
                ("replay_note", models.TextField(blank=True)),
                ("first_divergence", models.PositiveIntegerField(blank=True, null=True)),
                ("step_count", models.PositiveIntegerField(default=0)),
                ("call_count", models.PositiveIntegerField(default=0)),
                ("error_count", models.PositiveIntegerField(default=0)),
                ("duration_us", models.BigIntegerField(default=0)),
                ("environment_s", models.FloatField(blank=True, null=True)),
                ("agent_s", models.FloatField(blank=True, null=True)),
                ("user_s", models.FloatField(blank=True, null=True)),
                ("verification_s", models.FloatField(blank=True, null=True)),
                ("provenance", webapp.common.fields.OrderedJSONField(default=dict)),
                ("final_hash", models.CharField(blank=True, max_length=64)),
                ("matrix", webapp.common.fields.OrderedJSONField(blank=True, null=True)),
                ("matrix_hash", models.CharField(blank=True, max_length=64)),
                ("record", webapp.common.fields.OrderedJSONField(default=dict)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "environment",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="trajectories",
                        to="environments.environment",
                    ),
                ),
                (
                    "revision",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="trajectories",
                        to="scenarios.taskrevision",
                    ),
                ),
                (
                    "task",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="trajectories", to="scenarios.task"
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(models.OrderBy(models.F("id"), descending=True), name="trajectory_newest"),
                    models.Index(fields=["task", "-id"], name="trajectory_task"),
                    models.Index(fields=["environment", "-id"], name="trajectory_environment"),
                    models.Index(fields=["outcome", "-id"], name="trajectory_outcome"),
                    models.Index(fields=["replay", "-id"], name="trajectory_replay"),
                    models.Index(fields=["source", "-id"], name="trajectory_source"),
                    models.Index(
                        django.contrib.postgres.indexes.OpClass("policy", "varchar_pattern_ops"),
                        models.OrderBy(models.F("id"), descending=True),
                        name="trajectory_policy",
                    ),
                    models.Index(
                        models.OrderBy(models.F("reward")), models.OrderBy(models.F("id")), name="trajectory_lowest"
                    ),
                    models.Index(
                        models.OrderBy(models.F("reward"), descending=True, nulls_last=True),
                        models.OrderBy(models.F("id"), descending=True),
                        name="trajectory_highest",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Step",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("index", models.PositiveIntegerField()),
                ("turn", models.PositiveIntegerField(default=0)),
                (
                    "kind",
                    models.CharField(
                        choices=[("user", "User"), ("message", "Message"), ("query", "Query"), ("change", "Change")],
                        max_length=8,
                    ),
                ),
                ("content", models.TextField(blank=True)),
                ("reasoning", models.TextField(blank=True)),
                ("tool", models.CharField(blank=True, max_length=200)),
                ("arguments", webapp.common.fields.OrderedJSONField(blank=True, null=True)),
                ("ok", models.BooleanField(blank=True, null=True)),
                ("error_kind", models.CharField(blank=True, max_length=16)),
                ("result", webapp.common.fields.OrderedJSONField(blank=True, null=True)),
                ("recorded", models.TextField(blank=True)),
                ("matches", models.BooleanField(blank=True, null=True)),
                ("patch", webapp.common.fields.OrderedJSONField(default=list)),
                ("change_count", models.PositiveIntegerField(default=0)),
                ("duration_us", models.PositiveBigIntegerField(default=0)),
                (
                    "snapshot",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="scenarios.statebody",
                    ),
                ),
                (
                    "trajectory",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="steps", to="trajectories.trajectory"
                    ),
                ),
            ],
            options={
                "ordering": ["index"],
                "constraints": [models.UniqueConstraint(fields=("trajectory", "index"), name="step_unique")],
            },
        ),
        migrations.CreateModel(
            name="Score",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("verifier_hash", models.CharField(max_length=64)),
                ("reward", models.FloatField()),
                ("passed", models.PositiveIntegerField()),
                ("total", models.PositiveIntegerField()),
                ("verdicts", webapp.common.fields.OrderedJSONField(default=list)),
                ("outside", webapp.common.fields.OrderedJSONField(blank=True, default=list)),
                ("source", models.CharField(max_length=16)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "revision",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="scenarios.taskrevision"
                    ),
                ),
                (
                    "trajectory",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="scores", to="trajectories.trajectory"
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["trajectory", "-id"], name="score_newest")],
            },
        ),
        migrations.CreateModel(
            name="RolloutAttempt",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("ordinal", models.PositiveIntegerField()),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("waiting", "Waiting"),
                            ("running", "Running"),
                            ("done", "Done"),
                            ("infra_error", "Infra Error"),
                            ("cancelled", "Cancelled"),
                        ],
                        default="waiting",
                        max_length=12,
                    ),
                ),
                ("claim", models.PositiveIntegerField(default=0)),
                (
                    "rollout",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="attempts", to="trajectories.rollout"
                    ),
                ),
                (
                    "trajectory",
                    models.OneToOneField(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="attempt",
                        to="trajectories.trajectory",
                    ),
                ),
            ],
            options={
                "ordering": ["ordinal"],
                "constraints": [models.UniqueConstraint(fields=("rollout", "ordinal"), name="rolloutattempt_unique")],
            },
        ),
    ]

import django.contrib.postgres.indexes
import django.db.models.deletion
import django.db.models.functions.text
from django.conf import settings
from django.db import migrations, models

import webapp.common.fields


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("accounts", "__first__"),
        ("environments", "0001_initial"),
    ]

    operations = [
        migrations.CreateModel(
            name="Audit",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("key", models.CharField(max_length=64)),
                ("verifier_hash", models.CharField(max_length=64)),
                ("reference_hash", models.CharField(blank=True, max_length=64)),
                ("audit_version", models.PositiveIntegerField()),
                ("judge", models.CharField(blank=True, max_length=200)),
                (
                    "state",
                    models.CharField(
                        choices=[("green", "Green"), ("red", "Red"), ("incomplete", "Incomplete"), ("stale", "Stale")],
                        max_length=12,
                    ),
                ),
                ("why", models.TextField(blank=True)),
                ("do_nothing", models.FloatField(blank=True, null=True)),
                ("reference_reward", models.FloatField(blank=True, null=True)),
                ("mutants", models.PositiveIntegerField(blank=True, null=True)),
                ("below", models.PositiveIntegerField(blank=True, null=True)),
                ("equivalent", models.PositiveIntegerField(blank=True, null=True)),
                ("nondeterministic", models.BooleanField(blank=True, null=True)),
                ("unseen", models.FloatField(blank=True, null=True)),
                ("probes", webapp.common.fields.OrderedJSONField(default=dict)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
            ],
        ),
        migrations.CreateModel(
            name="StateBody",
            fields=[
                ("hash", models.CharField(max_length=64, primary_key=True, serialize=False)),
                ("size", models.PositiveIntegerField()),
                ("body", models.BinaryField()),
                ("state_hash", models.CharField(max_length=64)),
            ],
            options={
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="TaskReference",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("content_hash", models.CharField(max_length=64)),
                ("source", models.CharField(max_length=32)),
                ("calls", webapp.common.fields.OrderedJSONField(default=list)),
                ("answer", models.TextField(blank=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
            ],
        ),
        migrations.CreateModel(
            name="Scenario",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=300)),
                ("task_count", models.PositiveIntegerField(default=0)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "environment",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="scenarios",
                        to="environments.environment",
                    ),
                ),
                (
                    "version",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="scenarios", to="environments.version"
                    ),
                ),
                (
                    "initial",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="scenarios.statebody"
                    ),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("version", "initial"), name="scenario_unique")],
            },
        ),
        migrations.CreateModel(
            name="Playground",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("seed", models.BigIntegerField(default=0)),
                ("now", models.CharField(max_length=40)),
                ("serial", models.PositiveIntegerField(default=0)),
                ("length", models.PositiveIntegerField(default=0)),
                ("undone", webapp.common.fields.OrderedJSONField(default=list)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                (
                    "origin",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="resets",
                        to="scenarios.playground",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="playgrounds",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "version",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="playgrounds",
                        to="environments.version",
                    ),
                ),
                (
                    "scenario",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="playgrounds",
                        to="scenarios.scenario",
                    ),
                ),
                (
                    "initial",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="scenarios.statebody",
                    ),
                ),
                (
                    "start",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="scenarios.statebody",
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["user", "-id"], name="playground_of_user")],
            },
        ),
        migrations.CreateModel(
            name="Task",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("source", models.CharField(max_length=32)),
                ("key", models.CharField(max_length=200)),
                ("title", models.CharField(max_length=300)),
                ("words", models.TextField(blank=True, default="")),
                ("check_count", models.PositiveIntegerField(default=0)),
                ("finding_count", models.PositiveIntegerField(default=0)),
                ("trajectory_count", models.PositiveIntegerField(default=0)),
                ("do_nothing", models.FloatField(blank=True, null=True)),
                (
                    "audit_state",
                    models.CharField(
                        blank=True,
                        choices=[("green", "Green"), ("red", "Red"), ("incomplete", "Incomplete"), ("stale", "Stale")],
                        default="",
                        max_length=12,
                    ),
                ),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "audit",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="scenarios.audit",
                    ),
                ),
                (
                    "environment",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="tasks", to="environments.environment"
                    ),
                ),
                (
                    "scenario",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="tasks", to="scenarios.scenario"
                    ),
                ),
            ],
        ),
        migrations.AddField(
            model_name="audit",
            name="reference",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to="scenarios.taskreference",
            ),
        ),
        migrations.CreateModel(
            name="TaskRevision",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("number", models.PositiveIntegerField()),
                ("content_hash", models.CharField(max_length=64)),
                ("origin_hash", models.CharField(blank=True, default="", max_length=64)),
                ("instruction", models.TextField()),
                ("verifier_kind", models.CharField(default="checks", max_length=16)),
                ("criteria", webapp.common.fields.OrderedJSONField(blank=True, default=list)),
                ("score_rule", models.CharField(default="proportion", max_length=16)),
                ("verifier_hash", models.CharField(max_length=64)),
                ("frame", webapp.common.fields.OrderedJSONField(blank=True, null=True)),
                ("do_nothing", models.FloatField(blank=True, null=True)),
                ("record", webapp.common.fields.OrderedJSONField(default=dict)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "scenario",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="scenarios.scenario"
                    ),
                ),
                (
                    "task",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="revisions", to="scenarios.task"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("task", "content_hash"), name="revision_content_unique"),
                    models.UniqueConstraint(fields=("task", "number"), name="revision_number_unique"),
                ],
            },
        ),
        migrations.AddField(
            model_name="taskreference",
            name="revision",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="references", to="scenarios.taskrevision"
            ),
        ),
        migrations.CreateModel(
            name="TaskFinding",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("kind", models.CharField(max_length=64)),
                ("severity", models.CharField(max_length=8)),
                ("place", models.CharField(blank=True, max_length=300)),
                ("message", models.TextField()),
                ("data", webapp.common.fields.OrderedJSONField(default=dict)),
                (
                    "revision",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="findings",
                        to="scenarios.taskrevision",
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["kind", "revision"], name="taskfinding_by_kind")],
            },
        ),
        migrations.AddField(
            model_name="task",
            name="current",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to="scenarios.taskrevision",
            ),
        ),
        migrations.CreateModel(
            name="Check",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("position", models.PositiveIntegerField()),
                ("label", models.TextField(blank=True)),
                ("source", models.TextField()),
                ("mark", models.CharField(blank=True, max_length=8)),
                ("start_error", models.TextField(blank=True)),
                (
                    "revision",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="checks", to="scenarios.taskrevision"
                    ),
                ),
            ],
            options={
                "ordering": ["position"],
                "constraints": [models.UniqueConstraint(fields=("revision", "position"), name="check_unique")],
            },
        ),
        migrations.AddField(
            model_name="audit",
            name="revision",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="audits", to="scenarios.taskrevision"
            ),
        ),
        migrations.CreateModel(
            name="AuditFault",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("position", models.PositiveIntegerField()),
                ("kind", models.CharField(max_length=32)),
                ("check_index", models.PositiveIntegerField(blank=True, null=True)),
                ("message", models.TextField()),
                (
                    "audit",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="faults", to="scenarios.audit"
                    ),
                ),
            ],
            options={
                "ordering": ["position"],
                "indexes": [models.Index(fields=["kind", "audit"], name="auditfault_by_kind")],
                "constraints": [models.UniqueConstraint(fields=("audit", "position"), name="auditfault_unique")],
            },
        ),
        migrations.CreateModel(
            name="PlaygroundCall",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("index", models.PositiveIntegerField()),
                ("tool", models.CharField(max_length=200)),
                ("arguments", webapp.common.fields.OrderedJSONField(default=dict)),
                ("validation", models.CharField(default="schema", max_length=8)),
                ("ok", models.BooleanField()),
                ("result", webapp.common.fields.OrderedJSONField(blank=True, null=True)),
                ("error", webapp.common.fields.OrderedJSONField(blank=True, null=True)),
                ("patch", webapp.common.fields.OrderedJSONField(default=list)),
                ("change_count", models.PositiveIntegerField(default=0)),
                ("duration_us", models.PositiveBigIntegerField(default=0)),
                ("state_hash", models.CharField(max_length=64)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "playground",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="calls", to="scenarios.playground"
                    ),
                ),
            ],
            options={
                "ordering": ["index"],
                "constraints": [models.UniqueConstraint(fields=("playground", "index"), name="playgroundcall_unique")],
            },
        ),
        migrations.AddConstraint(
            model_name="taskreference",
            constraint=models.UniqueConstraint(fields=("revision", "content_hash"), name="reference_unique"),
        ),
        migrations.AddIndex(
            model_name="task",
            index=models.Index(models.OrderBy(models.F("id"), descending=True), name="task_newest"),
        ),
        migrations.AddIndex(
            model_name="task",
            index=models.Index(fields=["do_nothing", "id"], name="task_do_nothing"),
        ),
        migrations.AddIndex(
            model_name="task",
            index=models.Index(
                models.OrderBy(models.F("do_nothing"), descending=True, nulls_last=True),
                models.OrderBy(models.F("id"), descending=True),
                name="task_do_nothing_most",
            ),
        ),
        migrations.AddIndex(
            model_name="task",
            index=models.Index(fields=["check_count", "id"], name="task_checks"),
        ),
        migrations.AddIndex(
            model_name="task",
            index=models.Index(fields=["finding_count", "id"], name="task_findings"),
        ),
        migrations.AddIndex(
            model_name="task",
            index=models.Index(fields=["trajectory_count", "id"], name="task_trajectories"),
        ),
        migrations.AddIndex(
            model_name="task",
            index=models.Index(fields=["audit_state", "id"], name="task_audit_state"),
        ),
        migrations.AddIndex(
            model_name="task",
            index=django.contrib.postgres.indexes.GinIndex(
                django.contrib.postgres.indexes.OpClass(
                    django.db.models.functions.text.Upper("words"), name="gin_trgm_ops"
                ),
                name="task_search",
            ),
        ),
        migrations.AddConstraint(
            model_name="task",
            constraint=models.UniqueConstraint(fields=("environment", "source", "key"), name="task_unique"),
        ),
        migrations.AddIndex(
            model_name="audit",
            index=models.Index(fields=["key"], name="audit_by_key"),
        ),
        migrations.AddIndex(
            model_name="audit",
            index=models.Index(models.OrderBy(models.F("id"), descending=True), name="taskaudit_newest"),
        ),
        migrations.AddConstraint(
            model_name="audit",
            constraint=models.UniqueConstraint(fields=("revision", "key"), name="audit_unique"),
        ),
    ]

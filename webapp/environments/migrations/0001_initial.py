import django.contrib.postgres.fields
import django.contrib.postgres.indexes
import django.db.models.deletion
import django.db.models.functions.text
from django.db import migrations, models

import webapp.common.fields


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("taxonomy", "0001_initial"),
    ]

    operations = [
        migrations.CreateModel(
            name="CaseState",
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
            name="Environment",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("source", models.CharField(max_length=32)),
                ("key", models.CharField(max_length=200)),
                ("name", models.CharField(max_length=300)),
                ("summary", models.TextField(blank=True)),
                ("category", models.CharField(blank=True, max_length=200)),
                ("tool_count", models.PositiveIntegerField(default=0)),
                ("finding_count", models.PositiveIntegerField(default=0)),
                ("scenario_count", models.PositiveIntegerField(default=0)),
                ("task_count", models.PositiveIntegerField(default=0)),
                ("green_count", models.IntegerField(default=0)),
                ("red_count", models.IntegerField(default=0)),
                ("trajectory_count", models.PositiveIntegerField(default=0)),
                ("scored_count", models.IntegerField(default=0)),
                ("solved_count", models.IntegerField(default=0)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                (
                    "node",
                    models.ForeignKey(
                        blank=True,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="environments",
                        to="taxonomy.node",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Version",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("number", models.PositiveIntegerField()),
                ("content_hash", models.CharField(max_length=64)),
                ("class_name", models.CharField(max_length=200)),
                ("source", models.TextField()),
                ("introduction", models.TextField(blank=True)),
                ("rules", webapp.common.fields.OrderedJSONField(default=list)),
                ("state_schema", webapp.common.fields.OrderedJSONField(default=list)),
                ("record", webapp.common.fields.OrderedJSONField(default=dict)),
                ("rule_count", models.PositiveIntegerField(default=0)),
                (
                    "category_sizes",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.PositiveIntegerField(), default=list, size=None
                    ),
                ),
                ("query_count", models.PositiveIntegerField(default=0)),
                ("change_count", models.PositiveIntegerField(default=0)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "environment",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="versions",
                        to="environments.environment",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("environment", "content_hash"), name="version_content_unique"),
                    models.UniqueConstraint(fields=("environment", "number"), name="version_number_unique"),
                ],
            },
        ),
        migrations.CreateModel(
            name="Tool",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("position", models.PositiveIntegerField()),
                ("name", models.CharField(max_length=200)),
                ("kind", models.CharField(choices=[("query", "query"), ("change", "change")], max_length=8)),
                ("description", models.TextField(blank=True)),
                ("parameters", webapp.common.fields.OrderedJSONField(default=dict)),
                ("raw_schema", webapp.common.fields.OrderedJSONField(blank=True, null=True)),
                ("source", models.TextField(blank=True)),
                (
                    "version",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="tools", to="environments.version"
                    ),
                ),
            ],
            options={
                "ordering": ["position"],
                "constraints": [models.UniqueConstraint(fields=("version", "name"), name="tool_unique")],
            },
        ),
        migrations.CreateModel(
            name="Finding",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("kind", models.CharField(max_length=64)),
                ("severity", models.CharField(max_length=8)),
                ("place", models.CharField(blank=True, max_length=300)),
                ("message", models.TextField()),
                ("data", webapp.common.fields.OrderedJSONField(default=dict)),
                (
                    "version",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="findings", to="environments.version"
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["kind", "version"], name="finding_by_kind")],
            },
        ),
        migrations.AddField(
            model_name="environment",
            name="current",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to="environments.version",
            ),
        ),
        migrations.CreateModel(
            name="Assessment",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("content_hash", models.CharField(max_length=64)),
                ("score", models.FloatField()),
                ("strict", models.FloatField()),
                ("threshold", models.FloatField()),
                ("confidence", models.FloatField(blank=True, null=True)),
                ("kept", models.BooleanField()),
                ("planned", models.PositiveIntegerField()),
                ("made", models.PositiveIntegerField()),
                ("saved", models.PositiveIntegerField()),
                ("passed", models.PositiveIntegerField()),
                ("warned", models.PositiveIntegerField()),
                ("failed", models.PositiveIntegerField()),
                ("rates", webapp.common.fields.OrderedJSONField(default=list)),
                ("roles", webapp.common.fields.OrderedJSONField(default=dict)),
                ("prompts", webapp.common.fields.OrderedJSONField(default=dict)),
                ("scripted", models.BooleanField(default=False)),
                ("rerun_at", models.DateTimeField(blank=True, null=True)),
                ("same_count", models.PositiveIntegerField(default=0)),
                ("differs_count", models.PositiveIntegerField(default=0)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "version",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="assessments",
                        to="environments.version",
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["version", "-id"], name="assessment_of_version")],
                "constraints": [models.UniqueConstraint(fields=("version", "content_hash"), name="assessment_unique")],
            },
        ),
        migrations.CreateModel(
            name="ToolCase",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("position", models.PositiveIntegerField()),
                ("tool", models.CharField(max_length=200)),
                ("case", models.CharField(choices=[("positive", "positive"), ("negative", "negative")], max_length=8)),
                ("arguments", webapp.common.fields.OrderedJSONField(default=dict)),
                ("seed", models.BigIntegerField()),
                ("now", models.CharField(max_length=40)),
                ("ok", models.BooleanField()),
                ("result", webapp.common.fields.OrderedJSONField(blank=True, null=True)),
                ("error", models.TextField(blank=True)),
                ("patch", webapp.common.fields.OrderedJSONField(default=list)),
                ("digest", models.CharField(max_length=64)),
                ("cut", models.BooleanField(default=False)),
                (
                    "verdict",
                    models.CharField(
                        choices=[("pass", "pass"), ("warning", "warning"), ("fail", "fail")], max_length=8
                    ),
                ),
                ("reason", models.TextField(blank=True)),
                (
                    "rerun",
                    models.CharField(blank=True, choices=[("same", "same"), ("differs", "differs")], max_length=8),
                ),
                ("differs", models.CharField(blank=True, max_length=100)),
                (
                    "assessment",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="cases",
                        to="environments.assessment",
                    ),
                ),
                (
                    "state",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="environments.casestate",
                    ),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("assessment", "position"), name="tool_case_unique")],
            },
        ),
        migrations.AddIndex(
            model_name="environment",
            index=models.Index(models.OrderBy(models.F("id"), descending=True), name="environment_newest"),
        ),
        migrations.AddIndex(
            model_name="environment",
            index=models.Index(fields=["category", "-id"], name="environment_category"),
        ),
        migrations.AddIndex(
            model_name="environment",
            index=models.Index(fields=["node", "-id"], name="environment_node"),
        ),
        migrations.AddIndex(
            model_name="environment",
            index=models.Index(fields=["tool_count", "id"], name="environment_by_tools"),
        ),
        migrations.AddIndex(
            model_name="environment",
            index=models.Index(fields=["finding_count", "id"], name="environment_by_findings"),
        ),
        migrations.AddIndex(
            model_name="environment",
            index=models.Index(fields=["task_count", "id"], name="environment_by_tasks"),
        ),
        migrations.AddIndex(
            model_name="environment",
            index=models.Index(fields=["name", "id"], name="environment_name"),
        ),
        migrations.AddIndex(
            model_name="environment",
            index=models.Index(django.db.models.functions.text.Upper("key"), name="environment_key"),
        ),
        migrations.AddIndex(
            model_name="environment",
            index=django.contrib.postgres.indexes.GinIndex(
                django.contrib.postgres.indexes.OpClass(
                    django.db.models.functions.text.Upper("name"), name="gin_trgm_ops"
                ),
                name="environment_search",
            ),
        ),
        migrations.AddConstraint(
            model_name="environment",
            constraint=models.UniqueConstraint(fields=("source", "key"), name="environment_unique"),
        ),
    ]

import django.contrib.postgres.fields
import django.contrib.postgres.indexes
import django.db.models.deletion
import django.db.models.functions.text
from django.conf import settings
from django.contrib.postgres.operations import TrigramExtension
from django.db import migrations, models

import webapp.common.fields


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("accounts", "__first__"),
        ("jobs", "0001_initial"),
    ]

    operations = [
        TrigramExtension(),
        migrations.CreateModel(
            name="Node",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("level", models.PositiveSmallIntegerField()),
                ("position", models.PositiveSmallIntegerField(default=0)),
                ("name", models.CharField(max_length=200)),
                ("path", models.CharField(db_collation="C", max_length=700, unique=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "parent",
                    models.ForeignKey(
                        blank=True,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="nodes",
                        to="taxonomy.node",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["parent", "position", "path"], name="node_siblings"),
                    django.contrib.postgres.indexes.GinIndex(
                        django.contrib.postgres.indexes.OpClass(
                            django.db.models.functions.text.Upper("name"), name="gin_trgm_ops"
                        ),
                        name="node_search",
                    ),
                ],
                "constraints": [
                    models.CheckConstraint(condition=models.Q(("level__gte", 1), ("level__lte", 3)), name="node_level")
                ],
            },
        ),
        migrations.CreateModel(
            name="ThemeSource",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=200, unique=True)),
                (
                    "origin",
                    models.CharField(
                        choices=[
                            ("tasks", "discovered in a task set"),
                            ("servers", "an MCP server"),
                            ("typed", "typed by a person"),
                            ("scripted", "bundled"),
                        ],
                        max_length=16,
                    ),
                ),
                ("created_at", models.DateTimeField(auto_now_add=True)),
            ],
        ),
        migrations.CreateModel(
            name="Decision",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("grouping", "grouped"),
                            ("apart", "kept apart"),
                            ("choice", "kept instead"),
                            ("batch", "folded by a batch"),
                            ("undo", "undone"),
                        ],
                        max_length=12,
                    ),
                ),
                ("words", models.CharField(max_length=300)),
                ("at", models.DateTimeField(auto_now_add=True)),
                ("themes", models.PositiveIntegerField(default=0)),
                (
                    "by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "undoes",
                    models.OneToOneField(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="undone_by",
                        to="taxonomy.decision",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Grouping",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("threshold", models.FloatField()),
                ("vectoriser", models.CharField(max_length=300)),
                ("themes", models.PositiveIntegerField()),
                ("groups", models.PositiveIntegerField()),
                ("folded", models.PositiveIntegerField()),
                ("counts", webapp.common.fields.OrderedJSONField(default=list)),
                ("seconds", models.FloatField(default=0)),
                ("at", models.DateTimeField(auto_now_add=True)),
                (
                    "decision",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE, related_name="grouping", to="taxonomy.decision"
                    ),
                ),
                (
                    "job",
                    models.OneToOneField(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="jobs.job",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="NodeCounts",
            fields=[
                (
                    "node",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="counts",
                        serialize=False,
                        to="taxonomy.node",
                    ),
                ),
                ("children", models.IntegerField(default=0)),
                ("environments", models.IntegerField(default=0)),
                ("themes", models.IntegerField(default=0)),
                ("tools", models.IntegerField(default=0)),
                ("tasks", models.IntegerField(default=0)),
                ("green", models.IntegerField(default=0)),
                ("red", models.IntegerField(default=0)),
                ("trajectories", models.IntegerField(default=0)),
                ("scored", models.IntegerField(default=0)),
                ("solved", models.IntegerField(default=0)),
            ],
        ),
        migrations.CreateModel(
            name="Theme",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("source", models.CharField(max_length=200)),
                (
                    "origin",
                    models.CharField(
                        choices=[
                            ("tasks", "discovered in a task set"),
                            ("servers", "an MCP server"),
                            ("typed", "typed by a person"),
                            ("scripted", "bundled"),
                        ],
                        default="servers",
                        max_length=16,
                    ),
                ),
                ("origin_text", models.TextField(blank=True)),
                ("provenance", webapp.common.fields.OrderedJSONField(default=dict)),
                ("similarity", models.FloatField(blank=True, null=True)),
                (
                    "verdict",
                    models.CharField(
                        blank=True,
                        choices=[("", "none"), ("apart", "kept apart"), ("chosen", "kept instead of others")],
                        default="",
                        max_length=8,
                    ),
                ),
                ("duplicates", models.PositiveIntegerField(default=0)),
                ("key", models.CharField(max_length=200)),
                ("name", models.CharField(max_length=300)),
                ("description", models.TextField(blank=True)),
                (
                    "labels",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=200), default=list, size=None
                    ),
                ),
                ("usage", models.BigIntegerField(blank=True, null=True)),
                ("tool_count", models.PositiveIntegerField(default=0)),
                ("content_hash", models.CharField(max_length=64)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                (
                    "created_by",
                    models.ForeignKey(
                        blank=True,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "folded_into",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="folded",
                        to="taxonomy.theme",
                    ),
                ),
                (
                    "node",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="themes",
                        to="taxonomy.node",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(models.OrderBy(models.F("id"), descending=True), name="theme_newest"),
                    models.Index(fields=["node", "-id"], name="theme_of_node"),
                    models.Index(fields=["origin", "-id"], name="theme_by_origin"),
                    models.Index(
                        models.OrderBy(models.F("duplicates"), descending=True),
                        models.OrderBy(models.F("id"), descending=True),
                        condition=models.Q(("duplicates__gt", 0)),
                        name="theme_by_duplicates",
                    ),
                    models.Index(fields=["name", "id"], name="theme_by_name"),
                    models.Index(fields=["tool_count", "id"], name="theme_by_tools"),
                    models.Index(
                        models.OrderBy(models.F("usage"), descending=True, nulls_last=True),
                        models.OrderBy(models.F("id"), descending=True),
                        name="theme_by_usage",
                    ),
                    django.contrib.postgres.indexes.GinIndex(
                        django.contrib.postgres.indexes.OpClass(
                            django.db.models.functions.text.Upper("name"), name="gin_trgm_ops"
                        ),
                        name="theme_search",
                    ),
                    django.contrib.postgres.indexes.GinIndex(fields=["labels"], name="theme_labels"),
                ],
                "constraints": [models.UniqueConstraint(fields=("source", "key"), name="theme_unique")],
            },
        ),
        migrations.CreateModel(
            name="DecisionChange",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("before_into", models.BigIntegerField(null=True)),
                ("before_similarity", models.FloatField(null=True)),
                (
                    "before_verdict",
                    models.CharField(
                        blank=True,
                        choices=[("", "none"), ("apart", "kept apart"), ("chosen", "kept instead of others")],
                        max_length=8,
                    ),
                ),
                ("after_into", models.BigIntegerField(null=True)),
                ("after_similarity", models.FloatField(null=True)),
                (
                    "after_verdict",
                    models.CharField(
                        blank=True,
                        choices=[("", "none"), ("apart", "kept apart"), ("chosen", "kept instead of others")],
                        max_length=8,
                    ),
                ),
                (
                    "decision",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="changes", to="taxonomy.decision"
                    ),
                ),
                (
                    "theme",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="taxonomy.theme"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="SourceCount",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("reason", models.CharField(blank=True, max_length=64)),
                ("number", models.PositiveIntegerField(default=0)),
                (
                    "source",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="counts",
                        to="taxonomy.themesource",
                    ),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("source", "reason"), name="source_count_unique")],
            },
        ),
        migrations.CreateModel(
            name="JudgedText",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("key", models.CharField(max_length=200)),
                ("reason", models.CharField(blank=True, max_length=64)),
                ("message", models.CharField(blank=True, max_length=500)),
                ("text", models.TextField(blank=True)),
                ("evidence", webapp.common.fields.OrderedJSONField(blank=True, null=True)),
                ("at", models.DateTimeField(auto_now=True)),
                (
                    "source",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="judged",
                        to="taxonomy.themesource",
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["source", "reason", "-id"], name="judged_by_reason")],
                "constraints": [models.UniqueConstraint(fields=("source", "key"), name="judged_text_unique")],
            },
        ),
        migrations.CreateModel(
            name="ThemeTool",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("position", models.PositiveIntegerField()),
                ("name", models.CharField(max_length=200)),
                ("description", models.TextField(blank=True)),
                ("parameters", webapp.common.fields.OrderedJSONField(blank=True, null=True)),
                (
                    "theme",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="tools", to="taxonomy.theme"
                    ),
                ),
            ],
            options={
                "ordering": ["position"],
                "constraints": [models.UniqueConstraint(fields=("theme", "position"), name="themetool_unique")],
            },
        ),
    ]

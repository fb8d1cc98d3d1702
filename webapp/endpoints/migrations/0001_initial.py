import django.db.models.deletion
from django.db import migrations, models

import webapp.common.fields


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Endpoint",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=60, unique=True)),
                ("base_url", models.CharField(max_length=500)),
                ("sealed_key", models.TextField(blank=True)),
                ("model_names", webapp.common.fields.OrderedJSONField(default=list)),
                ("max_concurrency", models.PositiveSmallIntegerField(default=8)),
                ("timeout_s", models.PositiveSmallIntegerField(default=120)),
                (
                    "structured",
                    models.CharField(
                        choices=[
                            ("none", "words alone"),
                            ("json_object", "a JSON object (json_object)"),
                            ("json_schema", "a JSON schema (json_schema)"),
                        ],
                        default="none",
                        max_length=12,
                    ),
                ),
                ("prices", webapp.common.fields.OrderedJSONField(default=dict)),
                ("from_environment", models.BooleanField(default=False)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
            ],
            options={
                "ordering": ["name"],
            },
        ),
        migrations.CreateModel(
            name="RoleModel",
            fields=[
                (
                    "role",
                    models.CharField(
                        choices=[
                            ("agent", "agent: acts in an environment"),
                            ("user", "user: plays the person an agent talks to"),
                            ("judge", "judge: decides on rubrics and on users"),
                            ("author", "author: writes environments and tasks"),
                            ("tester", "tester: tries tools"),
                            ("checker", "checker: judges what tools did"),
                            ("teacher", "teacher: makes trajectories to learn from"),
                            ("diagnoser", "diagnoser: explains failures"),
                        ],
                        max_length=16,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("model", models.CharField(max_length=200)),
                (
                    "endpoint",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="roles", to="endpoints.endpoint"
                    ),
                ),
            ],
        ),
    ]

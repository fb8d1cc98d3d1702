import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("batches", "0007_operators_shifts"),
        ("environments", "0006_replay_version_runs"),
        ("scenarios", "0008_pictures_solved_counts"),
    ]

    operations = [
        migrations.AddField(
            model_name="batchproduct",
            name="replaced_version",
            field=models.ForeignKey(
                blank=True,
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to="environments.version",
            ),
        ),
        migrations.AddField(
            model_name="batchproduct",
            name="replaced_revision",
            field=models.ForeignKey(
                blank=True,
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to="scenarios.taskrevision",
            ),
        ),
        migrations.AddIndex(
            model_name="batchproduct",
            index=models.Index(
                models.F("replaced_version"),
                condition=models.Q(("replaced_version", None), _negated=True),
                name="product_version_gone",
            ),
        ),
        migrations.AddIndex(
            model_name="batchproduct",
            index=models.Index(
                models.F("replaced_revision"),
                condition=models.Q(("replaced_revision", None), _negated=True),
                name="product_revision_gone",
            ),
        ),
    ]

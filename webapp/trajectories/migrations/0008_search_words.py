import django.contrib.postgres.indexes
import django.contrib.postgres.search
import django.db.models.deletion
from django.db import migrations, models

# No query reads the words of every row: the index answers, so that the rows are kept small and no statistics are needed.
STORAGE = """
    ALTER TABLE trajectories_trajectorytext SET (toast_tuple_target = 128);
    ALTER TABLE trajectories_trajectorytext ALTER COLUMN words SET STATISTICS 0;
"""

# To read every row costs far more than the planner believes, because the words are stored apart from the rows.
FUNCTION = """
    CREATE FUNCTION trajectories_with_words(wanted tsquery) RETURNS bigint[]
    LANGUAGE sql STABLE SET enable_seqscan = off
    AS $$SELECT coalesce(array_agg(trajectory_id), '{}') FROM trajectories_trajectorytext WHERE words @@ wanted$$;
"""
NO_FUNCTION = "DROP FUNCTION trajectories_with_words(tsquery)"


def queue_filling(apps, schema_editor):
    """Queue the job that stores the words of the trajectories that are there; the reaper wakes it."""
    if apps.get_model("trajectories", "Trajectory").objects.exists():
        title = "Words of older trajectories, for the search"
        apps.get_model("jobs", "Job").objects.create(kind="index_trajectories", queue="sandbox", title=title)


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0003_nothing_made"),
        ("trajectories", "0007_solver"),
    ]

    operations = [
        migrations.CreateModel(
            name="TrajectoryText",
            fields=[
                (
                    "trajectory",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="text",
                        serialize=False,
                        to="trajectories.trajectory",
                    ),
                ),
                ("words", django.contrib.postgres.search.SearchVectorField()),
            ],
            options={
                "indexes": [
                    django.contrib.postgres.indexes.GinIndex(
                        fields=["words"], gin_pending_list_limit=1024, name="trajectory_words"
                    )
                ],
            },
        ),
        migrations.RunSQL(STORAGE, migrations.RunSQL.noop),
        migrations.RunSQL(FUNCTION, NO_FUNCTION),
        migrations.RunPython(queue_filling, migrations.RunPython.noop),
    ]

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

SCORED = "reward IS NOT NULL AND outcome NOT IN ('infra_error', 'cancelled')"
ENVIRONMENTS = f"""
UPDATE environments_environment AS row SET scored_count = found.scored, solved_count = found.solved
FROM (SELECT environment_id, count(*) FILTER (WHERE {SCORED}) AS scored,
             count(*) FILTER (WHERE {SCORED} AND outcome = 'solved') AS solved
      FROM trajectories_trajectory GROUP BY environment_id) AS found
WHERE found.environment_id = row.id
"""
NODES = """
UPDATE taxonomy_nodecounts AS row
SET environments = found.environments, tools = row.tools + found.tools, tasks = found.tasks,
    trajectories = found.trajectories, scored = found.scored, solved = found.solved
FROM (SELECT node_id, count(*) AS environments, sum(tool_count) AS tools, sum(task_count) AS tasks,
             sum(trajectory_count) AS trajectories, sum(scored_count) AS scored, sum(solved_count) AS solved
      FROM environments_environment GROUP BY node_id) AS found
WHERE found.node_id = row.node_id
"""


class Migration(migrations.Migration):
    """The home page's visits; and the counts of what was here before environments hung in the tree."""

    initial = True

    dependencies = [
        ("accounts", "0003_tokens_and_audit"),
        ("taxonomy", "0001_tree_and_themes"),
        ("environments", "0003_place_in_the_tree"),
        ("trajectories", "0002_list_indexes"),
    ]

    operations = [
        migrations.CreateModel(
            name="Visit",
            fields=[
                (
                    "user",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("at", models.DateTimeField()),
                ("before", models.DateTimeField(blank=True, null=True)),
            ],
        ),
        migrations.RunSQL(ENVIRONMENTS, migrations.RunSQL.noop),
        migrations.RunSQL(NODES, migrations.RunSQL.noop),
    ]

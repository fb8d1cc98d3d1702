"""How often each policy solved each revision of a task, filled from the attempts."""

from __future__ import annotations

from django.db import migrations

FILL = """
INSERT INTO scenarios_policypass (revision_id, policy, tried, solved, ten)
SELECT revision_id, policy, count(*), count(*) FILTER (WHERE outcome = 'solved'),
    CASE WHEN count(*) >= 10 THEN count(*) FILTER (WHERE place <= 10 AND outcome = 'solved') END
FROM (
    SELECT revision_id, policy, outcome, row_number() OVER (PARTITION BY revision_id, policy ORDER BY id) AS place
    FROM trajectories_trajectory
    WHERE NOT solver AND parent_id IS NULL AND NOT conversational AND NOT live AND revision_id IS NOT NULL
        AND (outcome = 'program_error' OR reward IS NOT NULL AND outcome NOT IN ('infra_error', 'cancelled'))
) AS judged GROUP BY 1, 2
"""


class Migration(migrations.Migration):
    dependencies = [("scenarios", "0013_measures"), ("trajectories", "0015_user_calls")]

    operations = [
        migrations.RunSQL(FILL, migrations.RunSQL.noop, elidable=True),
    ]

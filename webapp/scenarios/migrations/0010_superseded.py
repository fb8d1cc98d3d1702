"""Mark revisions whose checks read the answer's words by helpers that are gone; scores and attempts stay."""

from __future__ import annotations

from django.db import migrations, models

HELPERS = "answer_fields|denies|mentions|says_cannot|says_date|says_duration|says_list|says_money|says_name|says_number|says_time"
# One pass over the checks; the plain texts spare nearly all of them the regular expression.
MARK = rf"""
WITH called AS (
  SELECT revision_id, string_agg(DISTINCT name || '()', ', ') AS names FROM (
    SELECT revision_id, source, (regexp_matches(source, '(?:^|[^.\w])({HELPERS})\s*\(', 'g'))[1] AS name
    FROM scenarios_check
    WHERE strpos(source, 'says_') > 0 OR strpos(source, 'answer_fields') > 0 OR strpos(source, 'mentions') > 0
      OR strpos(source, 'denies') > 0
  ) AS one WHERE source !~ ('def\s+' || name || '\M') GROUP BY revision_id
)
UPDATE scenarios_taskrevision AS revision SET superseded = 'Its checks read the words of the answer by ' || called.names
  || ', which this version of Envarium does not do any more.'
FROM called WHERE called.revision_id = revision.id
"""
COPY = """
UPDATE scenarios_task AS task SET superseded = true
FROM scenarios_taskrevision AS revision WHERE revision.id = task.current_id AND revision.superseded <> ''
"""


class Migration(migrations.Migration):
    dependencies = [("scenarios", "0009_unproven_audits")]

    operations = [
        migrations.AddField("taskrevision", "superseded", models.TextField(blank=True, db_default="", default="")),
        migrations.AddField("task", "superseded", models.BooleanField(db_default=False, default=False)),
        migrations.RunSQL(MARK, migrations.RunSQL.noop),
        migrations.RunSQL(COPY, migrations.RunSQL.noop),
        migrations.AddIndex(
            "task", models.Index(condition=models.Q(superseded=True), fields=["id"], name="task_superseded")
        ),
    ]

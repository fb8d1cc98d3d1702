"""Says of homes that had edits before what people made: the facts that imports and batches go by."""

from __future__ import annotations

from django.db import migrations

VERSIONS = """
UPDATE environments_environment AS environment SET current_by_id = edit.author_id
FROM (
  SELECT DISTINCT ON (saved_version_id) saved_version_id, author_id FROM edits_edit
  WHERE state = 'saved' AND saved_version_id IS NOT NULL ORDER BY saved_version_id, id DESC
) AS edit
WHERE environment.current_id = edit.saved_version_id AND environment.current_by_id IS NULL;
"""
# An edited task stays one when a later edit of its program gave it a further revision.
TASKS = """
UPDATE scenarios_task AS task SET current_by_id = edit.author_id
FROM (
  SELECT DISTINCT ON (edit.task_id) edit.task_id, edit.author_id, revision.number
  FROM edits_edit AS edit JOIN scenarios_taskrevision AS revision ON revision.id = edit.saved_revision_id
  WHERE edit.state = 'saved' ORDER BY edit.task_id, edit.id DESC
) AS edit, scenarios_taskrevision AS current
WHERE task.id = edit.task_id AND current.id = task.current_id AND task.current_by_id IS NULL
  AND current.number >= edit.number;
"""


class Migration(migrations.Migration):
    dependencies = [
        ("edits", "0001_initial"),
        ("environments", "0005_kept_current_by"),
        ("scenarios", "0007_kept_current_by"),
    ]

    operations = [migrations.RunSQL(VERSIONS + TASKS, migrations.RunSQL.noop)]

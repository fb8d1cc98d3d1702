"""The variant of what batches made, written to its environments, tasks and their revisions."""

from __future__ import annotations

from django.db import migrations

ENVIRONMENTS = """
UPDATE environments_environment AS one SET variant = made.variant FROM (
    SELECT DISTINCT ON (product.environment_id) product.environment_id, batch.variant
    FROM batches_batchproduct AS product
    JOIN batches_batchitem AS item ON item.id = product.item_id
    JOIN batches_batch AS batch ON batch.id = item.batch_id
    WHERE item.level = 'theme' AND product.environment_id IS NOT NULL AND item.spec ->> 'version' IS NULL
    ORDER BY product.environment_id, product.id
) AS made WHERE made.environment_id = one.id
"""
REVISIONS = """
UPDATE scenarios_taskrevision AS revision SET variant = made.variant FROM (
    SELECT DISTINCT ON (product.task_id) product.task_id, batch.variant
    FROM batches_batchproduct AS product
    JOIN batches_batchitem AS item ON item.id = product.item_id
    JOIN batches_batch AS batch ON batch.id = item.batch_id
    WHERE item.level = 'task' AND product.task_id IS NOT NULL
    ORDER BY product.task_id, product.id DESC
) AS made WHERE made.task_id = revision.task_id
"""
TASKS = """
UPDATE scenarios_task AS task SET variant = revision.variant
FROM scenarios_taskrevision AS revision
WHERE revision.id = task.current_id AND revision.variant <> ''
"""


class Migration(migrations.Migration):
    dependencies = [("batches", "0010_variant"), ("environments", "0007_variant"), ("scenarios", "0013_measures")]

    operations = [
        migrations.RunSQL(sql, migrations.RunSQL.noop, elidable=True) for sql in (ENVIRONMENTS, REVISIONS, TASKS)
    ]

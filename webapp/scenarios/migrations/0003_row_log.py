from __future__ import annotations

from django.db import migrations

from webapp.accounts.row_log import log_rows, no_log

CHANGED = (
    "OLD.current_id IS NOT NULL AND (OLD.current_id IS DISTINCT FROM NEW.current_id "
    "OR OLD.review_state IS DISTINCT FROM NEW.review_state)"
)


class Migration(migrations.Migration):
    dependencies = [("scenarios", "0002_review_state"), ("accounts", "0002_row_log")]

    operations = [
        migrations.RunSQL(
            log_rows(
                "scenarios_task", "task", ["current_id", "review_state"], "title",
                of="current_id, review_state", when=CHANGED,
            ),
            no_log("scenarios_task"),
        ),
    ]  # fmt: skip

from __future__ import annotations

from django.db import migrations

from webapp.accounts.row_log import log_rows, no_log

LOGGED: dict[str, tuple[str, list[str], str]] = {
    "review_reviewdecision": (
        "decision",
        ["task_id", "tool_id", "trajectory_id", "revision_id", "queue_id", "user_id", "judge", "verdict", "reasons",
         "comment", "places", "detail", "overrides", "adjudicates", "undone_at", "undone_by_id"],
        "verdict",
    ),
    "review_reviewqueue": (
        "queue",
        ["name", "query", "order", "overlap", "lease_minutes", "roles", "guideline", "gold_share", "is_open"],
        "name",
    ),
    "review_queueitem": ("queueitem", ["assignee_id", "gold", "note"], "why"),
    "review_remark": ("remark", ["task_id", "tool_id", "trajectory_id", "place", "text", "resolved_at"], "text"),
}  # fmt: skip


class Migration(migrations.Migration):
    dependencies = [("review", "0001_initial"), ("accounts", "0002_row_log")]

    operations = [
        *(
            migrations.RunSQL(log_rows(table, name, columns, label), no_log(table))
            for table, (name, columns, label) in LOGGED.items()
            if table != "review_queueitem"
        ),
        migrations.RunSQL(
            log_rows(
                "review_queueitem", *LOGGED["review_queueitem"], of="assignee_id, gold",
                when="OLD.assignee_id IS DISTINCT FROM NEW.assignee_id OR OLD.gold::text IS DISTINCT FROM NEW.gold::text",
            ),
            no_log("review_queueitem"),
        ),
    ]  # fmt: skip

"""`manage.py find_mixed_tasks --json`: report tasks that hold several unrelated ones, and split them on request."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from webapp.common.commands import dump_json, report_in_one_line
from webapp.common.templatetags.show import plain
from webapp.edits.mixed_tasks import find_mixed_tasks, split_mixed_task


class Command(BaseCommand):
    help = (
        "Report tasks whose revisions come from different batch items with different instructions or states. With "
        "--split each part without a decision, an edit or a training job becomes a task of its own."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--split", action="store_true", help="split the tasks apart if that is safe")
        parser.add_argument("--json", action="store_true", help="print the result as one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        with report_in_one_line():
            mixed_tasks = find_mixed_tasks()
            for mixed in mixed_tasks:
                if options["split"]:
                    split_mixed_task(mixed)
        for mixed in mixed_tasks:
            self.stderr.write(f"task {mixed.task.pk}, {plain(mixed.task.title)}: {len(mixed.parts)} tasks in one")
            for part in mixed.parts:
                numbers = ", ".join(map(str, part.numbers))
                batches = ", ".join(map(str, part.batches))
                words = "current, " if part.is_current else ""
                self.stderr.write(
                    f"  {words}revisions {numbers}, of batches {batches}, {part.attempts} attempts: "
                    f"{plain(part.instruction)[:120]}"
                )
            for line in mixed.split:
                self.stderr.write(f"  {line}")
        self.stderr.write(f"{len(mixed_tasks)} mixed task{'s' if len(mixed_tasks) != 1 else ''}")
        if options["json"]:
            self.stdout.write(
                dump_json({"mixed": len(mixed_tasks), "tasks": [mixed.report() for mixed in mixed_tasks]})
            )

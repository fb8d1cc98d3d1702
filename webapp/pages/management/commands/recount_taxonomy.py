"""`manage.py recount_taxonomy`: counts of environments, themes and the tree, from the rows themselves."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from webapp.common.commands import dump_json, report_in_one_line
from webapp.common.templatetags.show import plain
from webapp.pages.recount import recount_all

SAID = 50


class Command(BaseCommand):
    help = "Count again what environments, themes and the taxonomy's nodes show, and say what differed."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="print every difference as one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        with report_in_one_line():
            differences = recount_all()
        for row in differences[:SAID]:
            self.stderr.write(f"{row['kind']} {plain(row['name'])}: {row['count']} was {row['was']}, is {row['now']}")
        if len(differences) > SAID:
            self.stderr.write(f"and {len(differences) - SAID} more")
        self.stderr.write(
            f"{len(differences)} counts differed and were set right." if differences else "Every count was right."
        )
        if options["json"]:
            self.stdout.write(dump_json({"differences": differences}))

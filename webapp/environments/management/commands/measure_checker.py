"""`manage.py measure_checker --scripted --json`: precision and recall of a checker, on faults seeded into sound
tools."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from synthesis.errors import InputError
from synthesis.runtime import get_default_sandbox
from webapp.common.commands import dump_json, make_progress_writer, report_in_one_line
from webapp.environments.checkers.services import (
    SCRIPTED,
    create_measure,
    find_checker_model,
    open_scripted_checker,
    report_measure,
)


class Command(BaseCommand):
    help = (
        "Measure a checker: faults are seeded into the tools of the bundled environments, and the checker judges calls "
        "on which they show, and the same calls without the fault. Precision and recall are stored and shown on a page."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        who = parser.add_mutually_exclusive_group(required=True)
        who.add_argument("--endpoint", metavar="NAME", help="a registered endpoint")
        who.add_argument("--scripted", action="store_true", help="the offline provider")
        parser.add_argument("--model", default="", help="of the endpoint; without: the one that plays the checker")
        parser.add_argument("--count", type=int, default=60, help="faults, each asked about twice (60)")
        parser.add_argument("--seed", type=int, default=0)
        parser.add_argument("--json", action="store_true", help="the result as one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        with report_in_one_line():
            if not 1 <= options["count"] <= 2_000:
                raise InputError("--count is a number from 1 to 2000.")
            named = None if options["scripted"] else find_checker_model(options["endpoint"], options["model"])
            name, model = named or (SCRIPTED, open_scripted_checker())
            tell = make_progress_writer(self.stderr.write)
            row = create_measure(get_default_sandbox(), model, name, options["count"], options["seed"], tell)
        result = report_measure(row)
        if options["json"]:
            self.stdout.write(dump_json(result))
        else:
            self.stdout.write("\n".join(f"{name}: {value}" for name, value in result.items()))

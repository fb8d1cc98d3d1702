"""`manage.py golden --environment KEY --json`: judge tasks by the golden states of their references, at once."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from synthesis.errors import InputError
from synthesis.runtime import get_default_sandbox
from webapp.common.commands import dump_json, make_progress_writer, parse_source_name, report_in_one_line
from webapp.common.templatetags.show import plain
from webapp.scenarios.golden.page import EQUALITIES
from webapp.scenarios.golden.services import make_goldens
from webapp.scenarios.human_work import BESIDE
from webapp.scenarios.management.commands.audit import select_tasks


class Command(BaseCommand):
    help = (
        "Judge tasks by golden states: each gets a further revision whose reward is 1 if an attempt ends in the state "
        "that its reference leaves. If people edited or decided on the task, it is stored beside their work. "
        "Audits are queued."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        which = parser.add_mutually_exclusive_group(required=True)
        which.add_argument("--source", type=parse_source_name, help="all tasks of a source")
        which.add_argument("--all", action="store_true", help="every task")
        which.add_argument("--environment", metavar="KEY", help="the tasks of the environment with this key")
        which.add_argument("--task", metavar="KEY", help="the tasks with this key or number")
        parser.add_argument(
            "--equality",
            choices=list(EQUALITIES),
            default="roles",
            help="roles: ids, moments and generated values may be others; plain: every value must be the same",
        )
        parser.add_argument("--json", action="store_true", help="print the result as one JSON object, last")

    def handle(self, *args: Any, **options: Any) -> None:
        with report_in_one_line():
            rows = select_tasks(options).filter(current__isnull=False).order_by("id")
            ids = list(rows.values_list("id", flat=True))
            if not ids:
                raise InputError("No task is chosen: look at `manage.py golden --help`, or import tasks first.")
            tell = make_progress_writer(self.stderr.write)
            result = make_goldens(get_default_sandbox(), ids, None, options["equality"], tell).report()
        for item in result["failed"]:
            self.stderr.write(f"  {plain(item['place'])}: {plain(item['reason'])}")
        self.stderr.write(
            f"golden states: {result['made']} made, {result['had_one']} had one, {result['unsuitable']} without a "
            f"reference, superseded or judged by a rubric, {len(result.get(BESIDE, ()))} beside human work, "
            f"{len(result['failed'])} failed"
        )
        if options["json"]:
            self.stdout.write(dump_json(result))
        if result["failed"]:
            raise CommandError(f"{len(result['failed'])} of the golden states could not be made.", returncode=1)

"""`manage.py withhold --source starter --json`: make withheld variants of tasks at once, and audit them."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from synthesis.errors import InputError
from synthesis.runtime import get_default_sandbox
from synthesis.starter import SOURCE, load_bundle
from webapp.common.commands import BAD_HOUSE, dump_json, make_progress_writer, parse_source_name, report_in_one_line
from webapp.common.templatetags.show import plain
from webapp.scenarios.audits.audit_job import audit_tasks
from webapp.scenarios.audits.report import list_fresh_faults
from webapp.scenarios.audits.rubric_judge import find_registered_judge
from webapp.scenarios.management.commands.audit import select_tasks
from webapp.scenarios.models import AUDIT_RESULTS, Task
from webapp.scenarios.starter_set import load_starter
from webapp.scenarios.withheld.services import VariantsMade, make_variants


class Command(BaseCommand):
    help = (
        "Make withheld variants: of each task one that lacks a tool or a parameter which it needs, so that the right "
        "thing is to say so. Tasks are audited first, and so are their variants."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        which = parser.add_mutually_exclusive_group(required=True)
        which.add_argument(
            "--source", type=parse_source_name, help="of all tasks of a source; `starter` is loaded first"
        )
        which.add_argument("--environment", metavar="KEY", help="of the tasks of the environment with this key")
        which.add_argument("--task", metavar="KEY", help="of the tasks with this key or number")
        parser.add_argument("--count", type=int, metavar="N", help="maximum number of variants")
        parser.add_argument("--json", action="store_true", help="print the result as one JSON object, last")

    def handle(self, *args: Any, **options: Any) -> None:
        count = options["count"]
        with report_in_one_line():
            if count is not None and count < 1:
                raise InputError("--count: name 1 or more, or leave it out for one variant of every task.")
            sandbox, tell = get_default_sandbox(), make_progress_writer(self.stderr.write)
            if options["source"] == SOURCE:
                environments, records, _runs = load_bundle()
                load_starter(sandbox, environments, records)
            rows = select_tasks(options | {"all": False}).filter(current__isnull=False, withheld="").order_by("id")
            ids = list(rows.values_list("id", flat=True))
            if not ids:
                raise InputError("No task is chosen: look at `manage.py withhold --help`, or import tasks first.")
            judge = find_registered_judge()
            unaudited = list(rows.filter(audit_state__in=("", "stale")).values_list("id", flat=True))
            failed = audit_tasks(sandbox, unaudited, tell, judge=judge)["failed"] if unaudited else []
            variants = make_variants(sandbox, ids, None, tell, most=count)
            if variants.all:
                failed += audit_tasks(sandbox, variants.all, tell, judge=judge)["failed"]
        result = build_report(variants) | {"failed": [*variants.failed, *failed]}
        for line in format_report(result):
            self.stderr.write(line)
        if options["json"]:
            self.stdout.write(dump_json(result))
        if result["failed"]:
            raise CommandError(
                f"{len(result['failed'])} tasks could not be looked at or audited.", returncode=BAD_HOUSE
            )


def build_report(made: VariantsMade) -> dict[str, Any]:
    """Return the variants with their audits, and the reasons why others cannot be made."""
    rows = Task.objects.filter(pk__in=made.all).select_related("parent").order_by("id")
    states = [row.audit_state for row in rows]
    return {
        "made": len(made.made),
        "unchanged": len(made.unchanged),
        **{state: states.count(state) for state in AUDIT_RESULTS},
        "variants": [
            {
                "task": row.pk,
                "key": row.key,
                "parent": row.parent.key if row.parent else "",
                "withheld": row.withheld,
                "audit": row.audit_state,
            }
            for row in rows
        ],
        "faults": list_fresh_faults(Task.objects.filter(pk__in=made.all), notes=False),
        "unsuitable": made.unsuitable,
    }


def format_report(result: dict[str, Any]) -> list[str]:
    """Format the result as lines of text."""
    states = ", ".join(f"{result[state]} {state}" for state in AUDIT_RESULTS)
    without = f"{len(result['unsuitable'])} tasks without"
    lines = [f"{len(result['variants'])} variants ({result['made']} new), {states}; {without}"]
    lines += [
        f"  {plain(row['key'])}: withholds {plain(row['withheld'])}, {row['audit']}" for row in result["variants"]
    ]
    lines += [f"  {plain(row['key'])}: {plain('; '.join(row['reasons']))[:400]}" for row in result["unsuitable"]]
    return lines + [f"  {plain(row['place'])}: {plain(row['reason'])}" for row in result["failed"]]

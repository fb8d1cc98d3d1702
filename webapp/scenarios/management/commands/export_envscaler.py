"""`manage.py export_envscaler OUT_ENVS [OUT_SCENARIOS]`: records equal to the imported ones, and those made here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.db.models import Q, QuerySet

from synthesis.formats.envscaler_export import environments_to_envscaler, scenarios_to_envscaler
from webapp.common.commands import parse_source_name, report_in_one_line, require_known_source, write_file
from webapp.environments.exporter import iterate_exported_records
from webapp.environments.models import Environment
from webapp.scenarios.models import Task
from webapp.scenarios.task_records import iterate_exported_scenarios


class Command(BaseCommand):
    help = "Export environments (an object keyed by id) and scenarios (a list) in EnvScaler's form."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("environments", type=Path)
        parser.add_argument("scenarios", type=Path, nargs="?")
        parser.add_argument("--source", type=parse_source_name, help="only records of this source; else those of all")

    def handle(self, *args: Any, **options: Any) -> None:
        source = options["source"] or ""
        with report_in_one_line():
            source_names = [
                rows.order_by().values_list("source", flat=True) for rows in (Environment.objects, Task.objects)
            ]
            require_known_source(source, source_names[0].union(source_names[1]))
            rows, left_out = select_environments(source)
            write_file(options["environments"], environments_to_envscaler(iterate_exported_records(rows)))
            if options["scenarios"]:
                tasks = Task.objects.filter(**({"source": source} if source else {})).exclude(environment__in=left_out)
                write_file(options["scenarios"], scenarios_to_envscaler(iterate_exported_scenarios(tasks)))
        if left_out:
            message = f"{len(left_out)} environments were left out, with their tasks: another source has their id."
            self.stderr.write(f"{message} Name a --source to export them.")
        self.stderr.write(f"{rows.count()} environments in {options['environments']}")


def select_environments(source: str) -> tuple[QuerySet[Environment], list[int]]:
    """Return the environments of a source and of its tasks, or all; and the primary keys of those that are left out.

    A file has one record for each id: of environments with the same id the first one is kept.
    """
    rows = Environment.objects.all()
    if source:
        rows = rows.filter(Q(source=source) | Q(pk__in=Task.objects.filter(source=source).values("environment")))
    # Those of the source itself first, then in order of their import.
    environments = sorted(rows.values_list("key", "source", "pk"), key=lambda row: (row[1] != source, row[2]))
    first_by_key: dict[str, int] = {}
    left_out = [pk for key, _, pk in environments if first_by_key.setdefault(key, pk) != pk]
    return rows.exclude(pk__in=left_out), left_out

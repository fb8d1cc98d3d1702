"""`manage.py export_envscaler OUT_ENVS [OUT_SCENARIOS]`: records equal to what was imported, and what was made here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.db.models import Q, QuerySet

from synthesis.formats.envscaler_export import environments_to_envscaler, scenarios_to_envscaler
from webapp.commands import known_source, one_clear_line, source_name, write_file
from webapp.environments.exporter import exported_environments
from webapp.environments.models import Environment
from webapp.scenarios.models import Task
from webapp.scenarios.task_records import exported_scenarios


class Command(BaseCommand):
    help = "Export environments (an object keyed by id) and scenarios (a list) in EnvScaler's form."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("environments", type=Path)
        parser.add_argument("scenarios", type=Path, nargs="?")
        parser.add_argument("--source", type=source_name, help="only records of this source; else those of all")

    def handle(self, *args: Any, **options: Any) -> None:
        source = options["source"] or ""
        with one_clear_line():
            named = [rows.order_by().values_list("source", flat=True) for rows in (Environment.objects, Task.objects)]
            known_source(source, named[0].union(named[1]))
            rows, left_out = chosen_environments(source)
            write_file(options["environments"], environments_to_envscaler(exported_environments(rows)))
            if options["scenarios"]:
                tasks = Task.objects.filter(**({"source": source} if source else {})).exclude(environment__in=left_out)
                write_file(options["scenarios"], scenarios_to_envscaler(exported_scenarios(tasks)))
        if left_out:
            told = f"{len(left_out)} environments were left out, with their tasks: another source has their id."
            self.stderr.write(f"{told} Name a --source to export them.")
        self.stderr.write(f"{rows.count()} environments in {options['environments']}")


def chosen_environments(source: str) -> tuple[QuerySet[Environment], list[int]]:
    """The environments of a source and those that its tasks stand on, or all; and those that another one of the same id
    keeps out, as a file has one record for an id: the one that came first."""
    rows = Environment.objects.all()
    if source:
        rows = rows.filter(Q(source=source) | Q(pk__in=Task.objects.filter(source=source).values("environment")))
    # Of the source itself first, then as they came in.
    environments = sorted(rows.values_list("key", "source", "pk"), key=lambda row: (row[1] != source, row[2]))
    kept: dict[str, int] = {}
    left_out = [pk for key, _, pk in environments if kept.setdefault(key, pk) != pk]
    return rows.exclude(pk__in=left_out), left_out

"""`manage.py export_envscaler OUT_ENVS [OUT_SCENARIOS]`: the records of a source, equal to what was imported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from synthesis.formats.envscaler_export import environments_to_envscaler, scenarios_to_envscaler
from webapp.commands import one_clear_line, source_name, write_file
from webapp.environments.services import exported_environments
from webapp.scenarios.services import exported_scenarios


class Command(BaseCommand):
    help = "Export environments (an object keyed by id) and scenarios (a list) in EnvScaler's form."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("environments", type=Path)
        parser.add_argument("scenarios", type=Path, nargs="?")
        parser.add_argument("--source", type=source_name, default="envscaler")

    def handle(self, *args: Any, **options: Any) -> None:
        source = options["source"]
        with one_clear_line():
            write_file(options["environments"], environments_to_envscaler(exported_environments(source)))
            if options["scenarios"]:
                write_file(options["scenarios"], scenarios_to_envscaler(exported_scenarios(source)))

"""`manage.py import_envscaler ENVS [SCENARIOS]`: import EnvScaler's environments and scenarios into the database."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from synthesis.formats.files import read_entries
from synthesis.runtime import get_default_sandbox
from webapp.common.commands import (
    dump_json,
    make_progress_writer,
    parse_source_name,
    report_failures,
    report_frames,
    report_in_one_line,
)
from webapp.jobs.uploads import require_success
from webapp.scenarios.importer import import_entries


class Command(BaseCommand):
    help = "Import EnvScaler's environments (and scenarios) from JSON or JSON Lines, plain or gzipped."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("environments", type=Path, help="env_metadata: an object keyed by id, or a list")
        parser.add_argument("scenarios", type=Path, nargs="?", help="rl_scenarios: a list, or an object")
        source_help = "the name these records are kept under; by default what an export says"
        parser.add_argument("--source", type=parse_source_name, default="envscaler", help=source_help)
        parser.add_argument(
            "--frame", action="store_true", help="give tasks whose reference is known a frame: all else is reward 0"
        )
        parser.add_argument("--json", action="store_true", help="print the result as one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        with report_in_one_line():
            environments = read_entries(options["environments"])
            scenarios = read_entries(options["scenarios"]) if options["scenarios"] else []
            tell = make_progress_writer(self.stderr.write)
            frames = options["frame"]
            result = import_entries(
                get_default_sandbox(), environments, scenarios, options["source"], tell, frames=frames
            )
        for kind in ("environments", "scenarios", "tasks"):
            counts = result[kind]
            report_failures(self.stderr.write, kind, counts["failed"])
            self.stderr.write(
                f"{kind}: {counts['created']} created, {counts['updated']} updated, {counts['unchanged']} unchanged, "
                f"{counts['beside']} stored beside human work, {counts['kept']} kept as people made them, "
                f"{len(counts['failed'])} failed"
            )
        report_frames(self.stderr.write, result)
        if options["json"]:
            self.stdout.write(dump_json(result))
        with report_in_one_line():
            require_success(result)

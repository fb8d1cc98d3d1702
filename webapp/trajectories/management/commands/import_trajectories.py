"""`manage.py import_trajectories FILE`: recorded runs, each executed again and compared with its record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from synthesis.formats.files import read_entries
from synthesis.runtime import default_sandbox
from webapp.commands import as_json, one_clear_line, source_name, tell_failures, tell_frames, teller
from webapp.trajectories.importer import import_runs
from webapp.uploads import require_success


class Command(BaseCommand):
    help = "Import recorded runs from JSON or JSON Lines and replay them in the sandbox."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path)
        parser.add_argument(
            "--source", type=source_name, default="envscaler", help="the source its environments were imported under"
        )
        parser.add_argument(
            "--frame",
            action="store_true",
            help="where a run earns everything, take it as its task's reference and give the task a frame",
        )
        parser.add_argument("--json", action="store_true", help="print the result as one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        with one_clear_line():
            entries = read_entries(options["file"])
            tell = teller(self.stderr.write)
            result = import_runs(default_sandbox(), entries, options["source"], tell, frames=options["frame"])
        tell_failures(self.stderr.write, "run", result["failed"])
        for item in result["diverged"]:
            self.stderr.write(
                f"{item['task']}: recorded {item['recorded']}, reproduced {item['reproduced']}, "
                f"first differing step {item['first_divergent_step']}"
            )
        self.stderr.write(
            f"runs: {result['created']} created, {result['unchanged']} unchanged, {result['reproduced']} reproduced, "
            f"{len(result['diverged'])} diverged, {len(result['failed'])} failed"
        )
        tell_frames(self.stderr.write, result)
        if options["json"]:
            self.stdout.write(as_json(result))
        with one_clear_line():
            require_success(result)

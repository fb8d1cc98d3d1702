"""`manage.py import_trajectories FILE`: recorded runs, each executed again and compared with its record; or ATIF."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from synthesis.formats.atif_reader import holds_atif
from synthesis.formats.files import MAX_FILE_BYTES, parse_entries, read_content, unpack
from synthesis.runtime import default_sandbox
from webapp.commands import as_json, one_clear_line, source_name, tell_failures, tell_frames, teller
from webapp.trajectories.foreign_runs import import_foreign_runs
from webapp.trajectories.importer import import_runs
from webapp.uploads import require_success


class Command(BaseCommand):
    help = (
        "Import recorded runs from JSON or JSON Lines and replay them in the sandbox; trajectories in ATIF 1.0 to 1.8 "
        "come in without an environment, to be read."
    )

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
            content, tell = read_content(options["file"]), teller(self.stderr.write)
            name = options["file"].name
            foreign = holds_atif(unpack(content, name, MAX_FILE_BYTES))
            if foreign:
                result = import_foreign_runs(content, name, MAX_FILE_BYTES, tell)
            else:
                entries = parse_entries(content, name)
                result = import_runs(default_sandbox(), entries, options["source"], tell, frames=options["frame"])
        self._tell_foreign(result) if foreign else self._tell_runs(result)
        if options["json"]:
            self.stdout.write(as_json(result))
        with one_clear_line():
            require_success(result)

    def _tell_foreign(self, result: dict[str, Any]) -> None:
        tell_failures(self.stderr.write, "trajectory", result["failed"])
        failed = len(result["failed"]) + result.get("more_failed", 0)
        self.stderr.write(
            f"trajectories without an environment: {result['created']} created, {result['unchanged']} unchanged, "
            f"{failed} failed"
        )

    def _tell_runs(self, result: dict[str, Any]) -> None:
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

"""`manage.py import_trajectories FILE`: recorded runs, each executed again and compared with its record; or ATIF."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from synthesis.formats.files import MAX_FILE_BYTES, read_content
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
from webapp.trajectories.importer import import_file


class Command(BaseCommand):
    help = (
        "Import recorded runs from JSON or JSON Lines and replay them in the sandbox. An export of this site brings "
        "the environments and tasks along; trajectories in ATIF 1.0 to 1.8 come in without an environment, to be read."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path)
        source_help = "the source its environments were imported under; by default what an export says"
        parser.add_argument("--source", type=parse_source_name, default="envscaler", help=source_help)
        parser.add_argument(
            "--frame",
            action="store_true",
            help="if a run earns the full reward, take it as its task's reference and give the task a frame",
        )
        parser.add_argument("--json", action="store_true", help="print the result as one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        with report_in_one_line():
            content, tell = read_content(options["file"]), make_progress_writer(self.stderr.write)
            result = import_file(
                get_default_sandbox(),
                content,
                options["file"].name,
                MAX_FILE_BYTES,
                options["source"],
                tell,
                frames=options["frame"],
            )
        self._print_run_result(result) if "reproduced" in result else self._print_foreign_result(result)
        if options["json"]:
            self.stdout.write(dump_json(result))
        with report_in_one_line():
            require_success(result)

    def _print_foreign_result(self, result: dict[str, Any]) -> None:
        report_failures(self.stderr.write, "trajectory", result["failed"])
        failed = len(result["failed"]) + result.get("more_failed", 0)
        self.stderr.write(
            f"trajectories without an environment: {result['created']} created, {result['unchanged']} unchanged, "
            f"{failed} failed"
        )

    def _print_run_result(self, result: dict[str, Any]) -> None:
        for kind, counts in result.get("brought", {}).items():
            count_words = ", ".join(f"{count} {name}" for name, count in counts.items())
            self.stderr.write(f"{kind} that they rest on: {count_words}")
        report_failures(self.stderr.write, "run", result["failed"])
        for item in result["diverged"]:
            self.stderr.write(
                f"{item['task']}: recorded {item['recorded']}, reproduced {item['reproduced']}, "
                f"first differing step {item['first_divergent_step']}"
            )
        self.stderr.write(
            f"runs: {result['created']} created, {result['unchanged']} unchanged, {result['reproduced']} reproduced, "
            f"{len(result['diverged'])} diverged, {len(result['failed'])} failed"
        )
        report_frames(self.stderr.write, result)

"""`manage.py export_trajectories OUT [--source SOURCE]`: runs as JSON Lines, equal to what was imported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from synthesis.formats.envscaler_export import runs_to_jsonl
from webapp.commands import known_source, one_clear_line, source_name, write_file
from webapp.trajectories.services import exported_runs, sources


class Command(BaseCommand):
    help = "Export runs as JSON Lines: those that were imported, and those that were made here."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path)
        parser.add_argument("--source", type=source_name, help="only runs of this source")

    def handle(self, *args: Any, **options: Any) -> None:
        with one_clear_line():
            source = options["source"] or ""
            known_source(source, sources())
            write_file(options["file"], runs_to_jsonl(exported_runs(source)))

"""`manage.py export_trajectories OUT`: recorded runs as JSON Lines, equal to what was imported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from synthesis.formats.envscaler_export import runs_to_jsonl
from webapp.commands import one_clear_line, source_name, write_file
from webapp.trajectories.services import exported_runs


class Command(BaseCommand):
    help = "Export recorded runs as JSON Lines."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path)
        parser.add_argument("--source", type=source_name, default="envscaler")

    def handle(self, *args: Any, **options: Any) -> None:
        with one_clear_line():
            write_file(options["file"], runs_to_jsonl(exported_runs(options["source"])))

"""`manage.py export_trajectories OUT [--source SOURCE]`: runs as JSON Lines, with what they rest on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from webapp.commands import known_source, one_clear_line, source_name, write_file
from webapp.trajectories.models import Trajectory
from webapp.trajectories.services import sources
from webapp.trajectories.transfer.written_records import exported_lines


class Command(BaseCommand):
    help = (
        "Export runs as JSON Lines: those that were imported, as they were recorded, and those that were made here, "
        "with the environments and tasks that they rest on. import_trajectories takes the file anywhere."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path)
        parser.add_argument("--source", type=source_name, help="only runs of this source")

    def handle(self, *args: Any, **options: Any) -> None:
        with one_clear_line():
            source = options["source"] or ""
            known_source(source, sources())
            rows = Trajectory.objects.filter(**({"source": source} if source else {}))
            write_file(options["file"], exported_lines(rows, "id"))

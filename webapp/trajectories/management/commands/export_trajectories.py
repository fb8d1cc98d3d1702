"""`manage.py export_trajectories OUT [--source SOURCE]`: runs as JSON Lines, with their environments and tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from webapp.common.commands import parse_source_name, report_in_one_line, require_known_source, write_file
from webapp.trajectories.models import Trajectory
from webapp.trajectories.services import list_sources
from webapp.trajectories.transfer.written_records import iterate_exported_lines


class Command(BaseCommand):
    help = (
        "Export runs as JSON Lines: those that were imported, as they were recorded, and those that were made here, "
        "with the environments and tasks that they rest on. import_trajectories takes the file anywhere."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path)
        parser.add_argument("--source", type=parse_source_name, help="only runs of this source")

    def handle(self, *args: Any, **options: Any) -> None:
        with report_in_one_line():
            source = options["source"] or ""
            require_known_source(source, list_sources())
            rows = Trajectory.objects.filter(**({"source": source} if source else {}))
            write_file(options["file"], iterate_exported_lines(rows, "id"))

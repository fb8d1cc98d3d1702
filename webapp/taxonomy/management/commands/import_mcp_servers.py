"""`manage.py import_mcp_servers FILE`: MCP servers with their tools and labels as themes in the tree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from synthesis.formats.mcp import read_servers
from webapp.common.commands import (
    dump_json,
    make_progress_writer,
    parse_source_name,
    report_failures,
    report_in_one_line,
)
from webapp.jobs.uploads import require_success
from webapp.taxonomy.importer import import_servers
from webapp.taxonomy.services import SOURCE


class Command(BaseCommand):
    help = "Import MCP servers as themes from JSON Lines or JSON, plain or gzipped. Importing again changes nothing."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("servers", type=Path, metavar="FILE", help="one server a line: name, labels, tools")
        parser.add_argument("--source", type=parse_source_name, default=SOURCE, help="the name they are kept under")
        parser.add_argument("--json", action="store_true", help="print the result as one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        with report_in_one_line():
            entries = read_servers(options["servers"])
            result = import_servers(entries, options["source"], make_progress_writer(self.stderr.write))
        counts, failed = result["themes"], result["failed"]
        report_failures(self.stderr.write, "themes", failed)
        self.stderr.write(
            f"themes: {counts['created']} created, {counts['updated']} updated, {counts['unchanged']} unchanged, "
            f"{len(failed)} failed; {result['tools']} tools"
        )
        if options["json"]:
            self.stdout.write(dump_json(result))
        with report_in_one_line():
            require_success(result)

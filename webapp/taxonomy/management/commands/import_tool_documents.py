"""`manage.py import_tool_documents FILE ...`: documents of tools, or of product requirements, as themes in the tree."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

from django.core.management.base import BaseCommand, CommandError, CommandParser

from synthesis.errors import InputError
from synthesis.formats.files import read_content
from synthesis.tool_documents.document_reader import MOST_BYTES, DocumentKind
from webapp.common.commands import dump_json, parse_source_name, report_in_one_line
from webapp.taxonomy.importer import import_document
from webapp.taxonomy.services import DOCUMENT_SOURCES
from webapp.taxonomy.tool_documents import read_tool_document


class Command(BaseCommand):
    help = (
        "Import tool documents as themes, one a file: OpenAPI 3.0 and 3.1, Swagger 2, MCP tool lists, function lists "
        "and Markdown; or product requirements in Markdown. Importing again changes nothing."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("documents", nargs="+", type=Path, metavar="FILE", help="JSON, YAML or Markdown")
        parser.add_argument("--name", default="", help="the theme's name, for a single file; default: its own title")
        parser.add_argument("--category", default="", help="the label of the first level under which they are kept")
        parser.add_argument("--source", type=parse_source_name, default=None, help="the name they are kept under")
        parser.add_argument(
            "--kind",
            choices=get_args(DocumentKind),
            default="tools",
            help="what the documents describe; default: tools",
        )
        parser.add_argument("--json", action="store_true", help="print the result as one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["name"] and len(options["documents"]) > 1:
            raise CommandError("--name is for a single file; each of several keeps its own title.")
        counts = {"created": 0, "updated": 0, "unchanged": 0}
        tools, failed = 0, []
        kind: DocumentKind = options["kind"]
        for path in options["documents"]:
            try:
                content = read_content(path, limit=MOST_BYTES)
                record = read_tool_document(content, path.name, options["name"], options["category"], kind)
            except InputError as error:
                failed.append({"place": str(path), "reason": str(error)})
                self.stderr.write(str(error))
                continue
            with report_in_one_line():
                result = import_document(record, options["source"] or DOCUMENT_SOURCES[kind], kind)
            if note := result.get("note"):
                self.stderr.write(f"{path}: {note}")
            for name, count in result["themes"].items():
                counts[name] += count
            tools += result["tools"]
        self.stderr.write(
            f"themes: {counts['created']} created, {counts['updated']} updated, {counts['unchanged']} unchanged, "
            f"{len(failed)} failed; {tools} tools"
        )
        if options["json"]:
            self.stdout.write(dump_json({"themes": counts, "tools": tools, "failed": failed}))
        if failed and not any(counts.values()):
            raise CommandError("Nothing was imported.")

"""Importer of MCP servers and tool documents as themes: idempotent by content, a chunk a transaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import transaction
from django.utils import timezone

from synthesis.formats.files import Entry
from synthesis.formats.mcp import parse_themes
from synthesis.formats.records import Failure, ThemeRecord
from synthesis.formats.values import clean_text
from synthesis.skeleton.documented_tools import MOST_TOOLS
from synthesis.tool_documents.document_reader import DocumentKind
from webapp.common.content_store import content_hash
from webapp.taxonomy.changes.queries import find_moved_by_people
from webapp.taxonomy.labels import build_theme_path
from webapp.taxonomy.models import IMPORTED, Origin, Theme, ThemeSource, ThemeTool
from webapp.taxonomy.services import SOURCE, TREE_LOCK, add_counts, place_paths, take_advisory_lock

CHUNK = 250
"""Servers in one transaction; between two, progress is reported and a cancelled job stops."""
IMPORT_LOCK = 7_305_102
FILLED = (
    "node", "name", "description", "workflows", "tasks", "labels", "usage", "tool_count", "content_hash", "updated_at",
    "provenance",
)  # fmt: skip
ORIGINS: dict[DocumentKind, Origin] = {"tools": Origin.DOCUMENTS, "requirements": Origin.REQUIREMENTS}
Progress = Callable[[int, int, str], None]


@dataclass
class ThemeTally:
    """The results of the servers of a file. `tools` are those of all themes that it holds, new or known."""

    created: int = 0
    unchanged: int = 0
    updated: int = 0
    tools: int = 0
    failed: list[dict[str, str]] = field(default_factory=list)

    def report(self) -> dict[str, Any]:
        counts = {"created": self.created, "unchanged": self.unchanged, "updated": self.updated}
        return {"themes": counts, "tools": self.tools, "failed": self.failed}


def import_servers(
    entries: Sequence[Entry], source: str = SOURCE, progress: Progress = lambda done, total, note: None
) -> dict[str, Any]:
    """Import servers; a bad one is reported and the rest goes in. `progress` may raise to stop between chunks.

    Chunks that went in before a stop or a crash are `unchanged` the next time.
    """
    tally = ThemeTally()
    chunk: list[ThemeRecord] = []
    for done, (place_, record) in enumerate(parse_themes(list(entries))):
        if isinstance(record, Failure):
            tally.failed.append({"place": clean_text(record.place), "reason": clean_text(record.reason)})
        else:
            chunk.append(record)
        if len(chunk) == CHUNK:
            progress(done, len(entries), f"Server at {place_}")
            save_themes(chunk, source, tally)
            chunk = []
    progress(max(0, len(entries) - 1), len(entries), "The last servers")
    save_themes(chunk, source, tally)
    progress(len(entries), len(entries), "")
    return tally.report()


def import_document(record: ThemeRecord, source: str, kind: DocumentKind = "tools") -> dict[str, Any]:
    """Store the theme of a tool document or of product requirements under `source`. The same again changes nothing.

    A document of the same title replaces the other if they share a tool or a workflow; if not they are two. The report
    says which `theme` it is, and has a `note` if no environment can grow from it as it is.
    """
    tally = ThemeTally()
    record = record.model_copy(update={"key": find_document_key(record, source)})
    save_themes([record], source, tally, ORIGINS[kind])
    theme = Theme.objects.only("origin", "tool_count").get(source=source, key=record.key)
    return tally.report() | {"theme": theme.pk} | ({"note": note} if (note := warn_about_tool_count(theme)) else {})


def find_document_key(record: ThemeRecord, source: str) -> str:
    """Return the key of a document's theme: its own, or one that is made of its contents if another document has that.

    Many titles say nothing ("OpenAPI definition"), so a title alone does not make two documents one.
    """
    row = Theme.objects.filter(source=source, key=record.key).first()
    own = {*(tool.name for tool in record.tools), *(flow.name for flow in record.workflows)}
    if row is None or not own:
        return record.key
    known_names = {*row.tools.values_list("name", flat=True), *(flow["name"] for flow in row.workflows)}
    return record.key if own & known_names else f"{record.key[:180]}-{content_hash(sorted(own))[:10]}"


def warn_about_tool_count(theme: Theme) -> str:
    """Return a warning if documents fix more tools than one environment can have, or an empty string."""
    if theme.origin != Origin.DOCUMENTS or theme.tool_count <= MOST_TOOLS:
        return ""
    told = f"It names {theme.tool_count:,} tools; one environment can have {MOST_TOOLS}."
    return f"{told} A batch refuses it: split the document and import the parts."


def compute_theme_hash(record: ThemeRecord) -> str:
    return content_hash(record.model_dump(mode="json"))


@transaction.atomic
def save_themes(
    records: Sequence[ThemeRecord], source: str, tally: ThemeTally, origin: Origin = Origin.SERVERS
) -> None:
    """Store themes of different keys with their tools, hang them into the tree and count them there.

    A known one whose labels are the same, or that a user moved, keeps its node.
    """
    if not records:
        return
    take_advisory_lock(IMPORT_LOCK)
    take_advisory_lock(TREE_LOCK, shared=True)
    ThemeSource.objects.get_or_create(name=source, defaults={"origin": origin})
    known_themes = {
        row.key: row for row in Theme.objects.filter(source=source, key__in=[record.key for record in records])
    }
    digests = {record.key: compute_theme_hash(record) for record in records}
    fresh = [
        record
        for record in records
        if record.key not in known_themes or known_themes[record.key].content_hash != digests[record.key]
    ]
    paths = {record.key: build_theme_path(record.primary, record.secondary, record.custom) for record in fresh}
    changed_pairs = [(record, known_themes[record.key]) for record in fresh if record.key in known_themes]
    relabelled = {row.pk: row.node_id for record, row in changed_pairs if not _has_same_labels(record, row)}
    moving = relabelled.keys() - find_moved_by_people("themes", relabelled)
    stay = {row.key: row.node_id for _, row in changed_pairs if row.pk not in moving}
    placed = place_paths({path for key, path in paths.items() if key not in stay})
    nodes = {key: placed[path] for key, path in paths.items() if key not in stay} | stay
    changes: dict[int, Counter[str]] = {}
    rows = [
        _fill_row(record, known_themes.get(record.key), source, digests[record.key], nodes[record.key], changes)
        for record in fresh
    ]
    new = [row for row in rows if row.pk is None]
    old = [row for row in rows if row.pk is not None]
    for row in new:
        row.origin = origin
    Theme.objects.bulk_create(new)
    Theme.objects.bulk_update(old, FILLED)
    ThemeTool.objects.filter(theme__in=old).delete()
    ThemeTool.objects.bulk_create(_iter_tools(zip(rows, fresh, strict=True)), batch_size=2000)
    add_counts(changes)
    tally.created += len(new)
    tally.updated += len(old)
    tally.unchanged += len(records) - len(fresh)
    tally.tools += sum(len(record.tools) for record in records)


def _has_same_labels(record: ThemeRecord, row: Theme) -> bool:
    return list(row.labels) == list(record.labels)


def _fill_row(
    record: ThemeRecord, row: Theme | None, source: str, digest: str, node: int, changes: dict[int, Counter[str]]
) -> Theme:
    """Return the row that holds `record`, not saved yet; its changes to the tree go into `changes`."""
    if row is None:
        row = Theme(source=source, key=record.key)
    else:
        changes.setdefault(row.node_id, Counter()).update({"themes": -1, "tools": -row.tool_count})
        row.updated_at = timezone.now()
        row.provenance = {} if IMPORTED in row.provenance else row.provenance  # the words that it describes are gone
    changes.setdefault(node, Counter()).update({"themes": 1, "tools": len(record.tools)})
    row.node_id = node
    row.name, row.description, row.usage = record.name, record.description, record.usage
    row.workflows, row.tasks = [flow.model_dump() for flow in record.workflows], list(record.tasks)
    row.labels, row.tool_count, row.content_hash = list(record.labels), len(record.tools), digest
    return row


def _iter_tools(pairs: Iterable[tuple[Theme, ThemeRecord]]) -> Iterable[ThemeTool]:
    for row, record in pairs:
        for index, tool in enumerate(record.tools):
            yield ThemeTool(
                theme=row,
                position=index,
                name=tool.name,
                description=tool.description,
                parameters=tool.parameters,
            )

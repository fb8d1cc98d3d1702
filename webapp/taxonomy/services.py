"""Writes on the tree: nodes by path, and the counts that roll up. Every app that counts something calls them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from django.core.files.base import File
from django.db import connection, transaction

from synthesis.formats.values import clean_text, shorten_text
from synthesis.tool_documents.document_reader import DocumentKind
from webapp.jobs.models import Job
from webapp.jobs.services import enqueue_job
from webapp.jobs.uploads import store_upload
from webapp.taxonomy.former import map_former_paths
from webapp.taxonomy.labels import SEPARATOR, Path, format_path, rank_name
from webapp.taxonomy.models import LEVELS, Node, NodeCounts

SOURCE = "mcp"
DOCUMENT_SOURCES: dict[DocumentKind, str] = {"tools": "tool-documents", "requirements": "requirements"}
COUNTED = ("environments", "themes", "tools", "tasks", "green", "red", "trajectories", "scored", "solved")
"""What `count` takes. `children` belongs to the tree itself."""
NODES_LOCK = 7_305_101
"""Advisory lock for adding nodes, until the end of the transaction."""
TREE_LOCK = 7_305_104
"""Advisory lock of the tree's shape: shared by who hangs or counts something, alone by who changes it (`changes/`)."""

Change = Mapping[str, int]


@transaction.atomic
def place_paths(paths: Iterable[Path]) -> dict[Path, int]:
    """Return the node of every path, made with its ancestors if there is none. Safe beside other imports.

    A path that was renamed, moved or merged away leads to what its node became (`former.py`), and what is below it
    there; if that is on the last level, to that one itself. The tree keeps its shape to the end of the transaction.
    """
    take_advisory_lock(TREE_LOCK, shared=True)
    prefixes = {path[:depth] for path in paths for depth in range(1, len(path) + 1)}
    known_nodes = _find_known_paths(prefixes)
    if len(known_nodes) < len(prefixes):
        _follow_former_paths(prefixes, known_nodes)
    if len(known_nodes) < len(prefixes):
        # Read again under the lock: another import may have added the nodes meanwhile.
        take_advisory_lock(NODES_LOCK)
        known_nodes = _find_known_paths(prefixes)
        _follow_former_paths(prefixes, known_nodes)
        for level in range(1, LEVELS + 1):
            _add_nodes([path for path in prefixes if len(path) == level and path not in known_nodes], known_nodes)
    return known_nodes


def take_advisory_lock(key: int, *, shared: bool = False) -> None:
    """Wait for an advisory lock, held to the end of the transaction; a `shared` one is held by several at once."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT pg_advisory_xact_lock{'_shared' if shared else ''}(%s)", [key])


def _find_known_paths(paths: Iterable[Path]) -> dict[Path, int]:
    texts = {path: format_path(path) for path in paths}
    pks = dict(Node.objects.filter(path__in=set(texts.values())).values_list("path", "pk"))
    return {path: pks[text] for path, text in texts.items() if text in pks}


def _follow_former_paths(wanted: Iterable[Path], known: dict[Path, int]) -> None:
    """Find paths whose label, or one above it, was changed, and add them to `known`."""
    for level in range(1, LEVELS + 1):
        missing = [path for path in wanted if len(path) == level and path not in known]
        former = map_former_paths(format_path(path) for path in missing)
        known.update({path: former[text] for path in missing if (text := format_path(path)) in former})
        below = [path for path in missing if path not in known and path[:-1] in known]
        parents = Node.objects.in_bulk({known[path[:-1]] for path in below})
        texts: dict[Path, str] = {}
        for path in below:
            parent = parents[known[path[:-1]]]
            if parent.level == LEVELS:
                known[path] = parent.pk
            else:
                texts[path] = SEPARATOR.join((parent.path, format_path(path[-1:])))
        nodes_by_path = dict(Node.objects.filter(path__in=set(texts.values())).values_list("path", "pk"))
        nodes_by_path = map_former_paths(set(texts.values()) - nodes_by_path.keys()) | nodes_by_path
        known.update({path: nodes_by_path[text] for path, text in texts.items() if text in nodes_by_path})


def _add_nodes(paths: list[Path], known: dict[Path, int]) -> None:
    """Add nodes, whose parents are known, with zero counts, and add them to `known`."""
    parents = Node.objects.in_bulk({known[path[:-1]] for path in paths if len(path) > 1})
    new: dict[str, Node] = {}
    text_by_path: dict[Path, str] = {}
    for path in sorted(paths):
        parent = parents[known[path[:-1]]] if len(path) > 1 else None
        if parent and parent.level == LEVELS:
            known[path] = parent.pk
            continue
        rank = 0 if parent else rank_name(path[0])
        text = format_path(path[-1:])
        text = SEPARATOR.join((parent.path, text)) if parent else text
        level = parent.level + 1 if parent else 1
        new.setdefault(text, Node(parent=parent, level=level, position=rank, name=path[-1], path=text))
        text_by_path[path] = text
    rows = Node.objects.bulk_create(new.values(), batch_size=1000)
    NodeCounts.objects.bulk_create((NodeCounts(node=row) for row in rows), batch_size=1000)
    known.update({path: new[text].pk for path, text in text_by_path.items()})
    _apply_counts(
        {pk: {"children": number} for pk, number in Counter(row.parent_id for row in rows if row.parent_id).items()}
    )


@transaction.atomic
def add_counts(changes: Mapping[int, Change] | Mapping[int | None, Change]) -> None:
    """Add to the counts of nodes and of all their ancestors; `changes` is by node, names are those of `COUNTED`.

    Call it last in a transaction, and once: the rows are locked in one order, so that two writers never wait for each
    other. The key None is for what hangs on no node and is left out.
    """
    own = {node: change for node, change in changes.items() if node is not None and any(change.values())}
    if not own:
        return
    take_advisory_lock(TREE_LOCK, shared=True)
    chains = Node.objects.filter(pk__in=own).values_list("pk", "parent_id", "parent__parent_id")
    rolled: dict[int, Counter[str]] = {}
    for pk, parent, above in chains:
        for node in (pk, parent, above):
            if node is not None:
                rolled.setdefault(node, Counter()).update(own[pk])
    _apply_counts(rolled)


def _apply_counts(changes: Mapping[int, Change]) -> None:
    if not changes:
        return
    names = sorted({name for change in changes.values() for name in change})
    unknown = set(names) - {"children", *COUNTED}
    if unknown:
        raise ValueError(f"nothing counts {unknown}")
    nodes = sorted(changes)
    rows = NodeCounts.objects.select_for_update().filter(pk__in=nodes).order_by("pk")
    list(rows.values_list("pk", flat=True))
    sets = ", ".join(f"{name} = counts.{name} + more.{name}" for name in names)
    arrays = ", ".join(["%s::bigint[]", *["%s::int[]"] * len(names)])
    sql = (
        f"UPDATE {NodeCounts._meta.db_table} AS counts SET {sets} "
        f"FROM unnest({arrays}) AS more(node_id, {', '.join(names)}) WHERE counts.node_id = more.node_id"
    )
    with connection.cursor() as cursor:
        cursor.execute(sql, [nodes, *([changes[node].get(name, 0) for node in nodes] for name in names)])


def start_document_import(
    user: Any, file: File[bytes], name: str = "", category: str = "", kind: DocumentKind = "tools"
) -> Job:
    """Store an uploaded document and queue its import. Raises `InputError` (empty, too large)."""
    stored = store_upload(user, file)
    named = {"name": shorten_text(clean_text(name), 120), "category": shorten_text(clean_text(category), 120)}
    payload = {"file": stored, "source": DOCUMENT_SOURCES[kind], "kind": kind, **named}
    return enqueue_job("import_tool_documents", f"Import {stored['original']}", payload, user)


def start_mcp_import(user: Any, file: File[bytes], source: str = SOURCE) -> Job:
    """Store an upload and queue its import. Raises `InputError` (empty, too large)."""
    stored = store_upload(user, file)
    return enqueue_job("import_mcp_servers", f"Import {stored['original']}", {"file": stored, "source": source}, user)

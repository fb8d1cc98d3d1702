"""A large tree, made in bulk as the importer makes it."""

from __future__ import annotations

from collections import Counter

from django.db import connection

from webapp.taxonomy.models import Node, Theme
from webapp.taxonomy.services import add_counts, place_paths

TOP, MIDDLE, LOW = 40, 12, 20


def plant(themes: int = 12_000) -> dict[str, int]:
    """The pk of each node by its path. `Domain 00` has most of the themes."""
    paths = [
        (f"Domain {a:02d}", f"Field {a:02d}-{b:02d}", f"Topic {a:02d}-{b:02d}-{c:02d}")
        for a in range(TOP)
        for b in range(MIDDLE)
        for c in range(LOW)
    ]
    nodes = place_paths(paths)
    rows = []
    for number in range(themes):
        path = paths[number % len(paths)]
        fields = {"source": "mcp", "key": str(number), "content_hash": f"{number:064d}", "tool_count": number % 40}
        rows.append(Theme(node_id=nodes[path], name=f"Server {number:05d}", labels=list(path), **fields))
    Theme.objects.bulk_create(rows, batch_size=1000)
    added: dict[int, Counter[str]] = {}
    for row in rows:
        added.setdefault(row.node_id, Counter()).update(themes=1, tools=row.tool_count)
    add_counts(added)
    return dict(Node.objects.values_list("path", "pk"))


def settle() -> None:
    """What autovacuum does sooner or later: without it plans are made of what the tables held before."""
    with connection.cursor() as cursor:
        for index in ("node_search", "theme_search", "theme_labels"):
            cursor.execute("SELECT gin_clean_pending_list(%s::regclass)", [index])
        cursor.execute("ANALYZE taxonomy_node; ANALYZE taxonomy_nodecounts; ANALYZE taxonomy_theme")

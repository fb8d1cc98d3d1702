"""Writer of a delta: nodes with their paths, what hangs on them, the counts, and the targets of old addresses and
paths."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db import connection

from webapp.taxonomy.changes.delta import Delta, list_repathed_nodes
from webapp.taxonomy.changes.draft import TreeDraft
from webapp.taxonomy.changes.hung import KINDS
from webapp.taxonomy.models import LEVELS, FormerNode, FormerPath, Node, NodeCounts, TreeChange
from webapp.taxonomy.services import COUNTED

Numbers = dict[int, Counter[str]]
Made = Mapping[int, int]
"""The ids of new nodes, by those that the draft gave them."""


def write_delta(draft: TreeDraft, delta: Delta) -> Delta:
    """Write the differences of a draft; the caller holds the tree's lock. Return the delta with the ids of new
    nodes."""
    counts = _compute_counts(draft, delta)
    removed_ids = [step.pk for step in delta.nodes if step.after is None]
    repathed = list_repathed_nodes(draft, delta)
    written_ids = {*repathed, *(step.pk for step in delta.nodes if step.after is not None)}
    _free_paths([pk for pk in repathed if pk in draft.was] + removed_ids)
    new_ids = _create_nodes(draft, delta)
    _hang_things(delta, new_ids)
    _update_nodes(draft, [pk for pk in written_ids if pk in draft.was], new_ids)
    # Deepest level first: the foreign key protects a parent that still has children.
    for level in range(LEVELS, 0, -1):
        Node.objects.filter(pk__in=removed_ids, level=level).delete()
    _set_counts(counts, new_ids)
    return delta.renumber_nodes(new_ids)


def keep_addresses(change: TreeChange, draft: TreeDraft, delta: Delta) -> None:
    """Store the targets of the addresses and paths that a change removes. An undone change takes back its own.

    An undo leaves no path behind: for what is imported later, it is as if the change had never been.
    """
    removed_steps = [step for step in delta.nodes if step.after is None]
    restored_ids = [step.pk for step in delta.nodes if step.before is None]
    FormerNode.objects.filter(pk__in=restored_ids).delete()
    FormerNode.objects.bulk_create(
        FormerNode(id=step.pk, name=step.before.name, into=step.into, change=change)
        for step in removed_steps
        if step.before
    )
    if change.undoes is not None:
        change.undoes.former_paths.all().delete()
        return
    paths = {pk: draft.was[pk].path for pk in list_repathed_nodes(draft, delta) if pk in draft.was}
    paths |= {step.pk: draft.was[step.pk].path for step in removed_steps if step.into is not None}
    rows = (FormerPath(path=path, node=pk, change=change) for pk, path in paths.items())
    FormerPath.objects.bulk_create(rows, batch_size=2_000)


def _free_paths(nodes: Sequence[int]) -> None:
    """Give paths that change temporary values: paths are unique, so the old ones must be free first."""
    with connection.cursor() as cursor:
        sql = f"UPDATE {Node._meta.db_table} SET path = '~' || id WHERE id = ANY(%s)"
        cursor.execute(sql, [list(nodes)])


def _create_nodes(draft: TreeDraft, delta: Delta) -> Made:
    """Add nodes that are new, or restored under their old ids, parents first."""
    new_ids: dict[int, int] = {}
    steps = [step for step in delta.nodes if step.before is None and step.after is not None]
    for step in sorted(steps, key=lambda step: draft.level(step.pk)):
        shape = step.after
        assert shape is not None
        parent = new_ids.get(shape.parent, shape.parent) if shape.parent is not None else None
        node = Node(
            pk=step.pk if step.pk > 0 else None, parent_id=parent, level=draft.level(step.pk), name=shape.name,
            position=draft.place(step.pk), path=draft.path(step.pk),
        )  # fmt: skip
        node.save(force_insert=True)
        NodeCounts.objects.create(node=node)
        if shape.made:
            Node.objects.filter(pk=node.pk).update(created_at=datetime.fromisoformat(shape.made))
        if step.pk < 0:
            new_ids[step.pk] = node.pk
    return new_ids


def _update_nodes(draft: TreeDraft, nodes: Sequence[int], made: Made) -> None:
    """Update the name, parent, level, order and path of existing nodes."""
    if not nodes:
        return
    columns: list[list[Any]] = [[], [], [], [], [], []]
    for pk in nodes:
        node = draft.nodes[pk]
        parent = made.get(node.parent, node.parent) if node.parent is not None else None
        values = (pk, parent, draft.level(pk), draft.place(pk), node.name, draft.path(pk))
        for column, value in zip(columns, values, strict=True):
            column.append(value)
    sql = (
        f"UPDATE {Node._meta.db_table} AS node SET parent_id = new.parent, level = new.level, "
        "position = new.position, name = new.name, path = new.path "
        "FROM unnest(%s::bigint[], %s::bigint[], %s::smallint[], %s::smallint[], %s::text[], %s::text[]) "
        "AS new(id, parent, level, position, name, path) WHERE node.id = new.id"
    )
    with connection.cursor() as cursor:
        cursor.execute(sql, columns)


def _hang_things(delta: Delta, made: Made) -> None:
    for name, moves in delta.hung.items():
        by_node: dict[int, list[int]] = {}
        for thing, (_, node) in moves.items():
            by_node.setdefault(made.get(node, node), []).append(thing)
        for node, things in by_node.items():
            KINDS[name].model._default_manager.filter(pk__in=things).update(node=node)


def _compute_counts(draft: TreeDraft, delta: Delta) -> Numbers:
    """Return the new counts of every node above something that moves, by the draft's ids.

    A node's own part is what it counts less what its children count; parts move with the things, and are added up anew
    from below.
    """
    upward = _find_touched_ancestors(draft, delta)
    were: dict[int | None, list[int]] = {}
    for pk, row in draft.was.items():
        were.setdefault(row.parent, []).append(pk)
    near = {pk for one in upward for pk in (one, *were.get(one, ()), *draft.children(one)) if pk in draft.was}
    rows = NodeCounts.objects.filter(pk__in=near).values_list("pk", *COUNTED)
    have: Numbers = {pk: Counter(dict(zip(COUNTED, values, strict=True))) for pk, *values in rows}
    own: Numbers = {}
    for pk in upward:
        own[pk] = Counter(have.get(pk, Counter()))
        for child in were.get(pk, ()) if pk in draft.was else ():
            own[pk].subtract(have.get(child, Counter()))
    _move_parts(delta, own)
    after: Numbers = {}
    for pk in sorted((one for one in upward if one in draft.nodes), key=draft.level, reverse=True):
        after[pk] = Counter(own[pk])
        for child in draft.children(pk):
            after[pk].update(after[child] if child in after else have.get(child, Counter()))
    for pk in after:
        after[pk]["children"] = len(draft.children(pk))
    return after


def _find_touched_ancestors(draft: TreeDraft, delta: Delta) -> set[int]:
    """Return the nodes that a delta touches and all above them, as they were and as they will be."""
    touched: set[int] = set()
    for pk in delta.node_ids():
        at: int | None = pk
        while at is not None and at in draft.was:
            touched.add(at)
            at = draft.was[at].parent
        touched |= set(draft.chain(pk)) if pk in draft.nodes else set()
    return touched


def _move_parts(delta: Delta, own: Numbers) -> None:
    for name, moves in delta.hung.items():
        for thing, part in KINDS[name].count_additions(moves).items():
            source, to = moves[thing]
            own.setdefault(source, Counter()).subtract(part)
            own.setdefault(to, Counter()).update(part)


def _set_counts(counts: Numbers, made: Made) -> None:
    names = ("children", *COUNTED)
    rows = [(made.get(pk, pk), [numbers[name] for name in names]) for pk, numbers in sorted(counts.items())]
    sets = ", ".join(f"{name} = now.{name}" for name in names)
    arrays = ", ".join(["%s::bigint[]", *["%s::int[]"] * len(names)])
    sql = (
        f"UPDATE {NodeCounts._meta.db_table} AS counts SET {sets} "
        f"FROM unnest({arrays}) AS now(node_id, {', '.join(names)}) WHERE counts.node_id = now.node_id"
    )
    columns: Iterable[list[int]] = ([values[place] for _, values in rows] for place in range(len(names)))
    with connection.cursor() as cursor:
        cursor.execute(sql, [[pk for pk, _ in rows], *columns])

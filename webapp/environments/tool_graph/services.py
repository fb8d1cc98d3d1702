"""Edges of a version's graph of tools: stored as a model judged them, corrected by people, read by later batches."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db import transaction
from django.utils import timezone

from synthesis.contracts import GraphEdge, GraphEdgeKind, JudgedEdges
from synthesis.formats.values import clean_text
from webapp.accounts.services import write_audit_entry
from webapp.common.content_store import Saved
from webapp.common.errors import Conflict, NotFound
from webapp.environments.models import EdgeJudgement, ToolEdge, Version

REASON_CHARS = 400
AT_ONCE = 500


@transaction.atomic
def save_edges(version: Version, judged: JudgedEdges, *, model: str, batch: int | None) -> Saved:
    """Store the edges that a model judged, in place of earlier judgements; identical ones are `unchanged`.

    Edges that a person added or removed stay. Judgements that are not graded replace only the strong edges: stored weak
    edges are not asked for again, and stay.
    """
    _lock_version(version)
    judgement = EdgeJudgement.objects.filter(version=version).first()
    keeps_weak = judgement is not None and judgement.graded and not judged.graded
    rows = {row.place: row for row in version.edges.all()}
    own = {
        place: row
        for place, row in rows.items()
        if row.added_by_id is None and row.removed_at is None and not (keeps_weak and row.kind == "weak")
    }
    corrected = {place for place, row in rows.items() if row.added_by_id is not None or row.removed_at is not None}
    new_edges = {edge.place: edge for edge in judged.edges if edge.place not in corrected}
    same = {place: row.kind for place, row in own.items()} == {place: edge.kind for place, edge in new_edges.items()}
    if judgement is not None and same and judgement.model == model and judgement.graded >= judged.graded:
        return "unchanged"
    ToolEdge.objects.filter(
        pk__in=[row.pk for place, row in rows.items() if place in own or place in new_edges]
    ).delete()
    ToolEdge.objects.bulk_create(
        (_make_row(version, edge, model=model, batch=batch) for edge in new_edges.values()), batch_size=AT_ONCE
    )
    EdgeJudgement.objects.update_or_create(
        version=version,
        defaults={
            "graded": judged.graded or keeps_weak,
            "model": model[:300],
            "batch": batch,
            "judged_at": timezone.now(),
        },
    )
    return "created" if judgement is None else "updated"


def _make_row(version: Version, edge: GraphEdge, **made_by: Any) -> ToolEdge:
    return ToolEdge(
        version=version,
        kind=edge.kind,
        source=edge.source,
        target=edge.target,
        parameter=edge.parameter,
        reason=clean_text(edge.reason),
        **made_by,
    )


def read_known_edges(versions: Iterable[int]) -> dict[int, JudgedEdges]:
    """Return the edges of versions as later batches take them, by version; only of judged versions. Two queries."""
    graded = dict(EdgeJudgement.objects.filter(version__in=list(versions)).values_list("version", "graded"))
    rows: dict[int, list[ToolEdge]] = {pk: [] for pk in graded}
    for row in ToolEdge.objects.filter(version__in=list(graded)).order_by("version", "source", "target", "parameter"):
        rows[row.version_id].append(row)
    return {pk: _to_judged_edges(rows[pk], graded[pk]) for pk in graded}


def read_judgement(version: Version) -> EdgeJudgement | None:
    """Return the time and the author of the judgement of a version's edges; None if they were not judged yet."""
    return EdgeJudgement.objects.filter(version=version).first()


def read_edge_rows(version: Version) -> list[ToolEdge]:
    """Return all edges of a version, removed ones included, in a fixed order."""
    rows = version.edges.select_related("added_by", "removed_by")
    return list(rows.order_by("source", "target", "parameter"))


def _to_judged_edges(rows: list[ToolEdge], graded: bool) -> JudgedEdges:
    counting = [row for row in rows if row.removed_at is None]
    return JudgedEdges(
        edges=tuple(map(_to_graph_edge, counting)),
        graded=graded,
        added=tuple(_to_graph_edge(row) for row in counting if row.added_by_id is not None),
        removed=tuple(row.place for row in rows if row.removed_at is not None),
    )


def _to_graph_edge(row: ToolEdge) -> GraphEdge:
    kind: GraphEdgeKind = "weak" if row.kind == "weak" else "strong"
    return GraphEdge(source=row.source, target=row.target, parameter=row.parameter, reason=row.reason, kind=kind)


@transaction.atomic
def remove_edge(user: Any, pk: int) -> ToolEdge:
    """Remove an edge, as a person's correction. Raises NotFound and Conflict."""
    row = _lock_edge(pk)
    if row.removed_at is not None:
        raise Conflict("This edge was taken out already. Reload the page.")
    row.removed_by, row.removed_at = user, timezone.now()
    row.save(update_fields=["removed_by", "removed_at"])
    write_audit_entry(user, "tool_edge.remove", row, version=row.version_id)
    return row


@transaction.atomic
def restore_edge(user: Any, pk: int) -> ToolEdge:
    """Restore an edge that a person removed. Raises NotFound and Conflict."""
    row = _lock_edge(pk)
    if row.removed_at is None:
        raise Conflict("This edge already exists. Reload the page.")
    row.removed_by = row.removed_at = None
    row.save(update_fields=["removed_by", "removed_at"])
    write_audit_entry(user, "tool_edge.restore", row, version=row.version_id)
    return row


@transaction.atomic
def add_edge(user: Any, version: Version, edge: GraphEdge) -> ToolEdge:
    """Add an edge that no model judged to be one. Raises NotFound if it names a tool or parameter that the version does
    not have, and Conflict if it exists already, or if nothing was judged yet."""
    _lock_version(version)
    if not EdgeJudgement.objects.filter(version=version).exists():
        raise Conflict("The edges of this version were not judged yet: there is nothing to correct.")
    parameters = read_parameters(version)
    if edge.source not in parameters or edge.target not in parameters:
        raise NotFound("This version has no such tool. Choose both from the lists.")
    if edge.source == edge.target:
        raise Conflict("An edge leads from one tool to another one.")
    if edge.parameter not in parameters[edge.target]:
        named = ", ".join(parameters[edge.target]) or "nothing"
        raise NotFound(f"{edge.target} takes no parameter {edge.parameter!r:.80}; it takes {named}.")
    existing_edge = version.edges.filter(source=edge.source, target=edge.target, parameter=edge.parameter).first()
    if existing_edge is not None:
        end = "it was taken out; put it back instead." if existing_edge.removed_at else "it already exists."
        raise Conflict(f"There is an edge from {edge.source} into {edge.parameter} of {edge.target}: {end}")
    row = _make_row(version, edge, added_by=user)
    row.save()
    write_audit_entry(user, "tool_edge.add", row, version=version.pk, kind=edge.kind)
    return row


def read_parameters(version: Version) -> dict[str, tuple[str, ...]]:
    """Return the names of parameters, by tool, in the order of the tools."""
    schemas = version.tools.values_list("name", "parameters")
    return {name: tuple((schema or {}).get("properties", {})) for name, schema in schemas}


def _lock_version(version: Version) -> None:
    Version.objects.select_for_update(of=("self",)).only("pk").get(pk=version.pk)


def _lock_edge(pk: int) -> ToolEdge:
    row = ToolEdge.objects.select_for_update(of=("self",)).filter(pk=pk).first()
    if row is None:
        raise NotFound("This edge no longer exists: the edges have been judged again meanwhile. Reload the page.")
    return row

"""Datasets that a change of the tree affects."""

from __future__ import annotations

from django.urls import reverse

from webapp.datasets.models import Dataset
from webapp.taxonomy.changes.affected import LOOKED_AT, NAMED, AffectedPart, Named, Scope


def find_affected_datasets(scope: Scope) -> AffectedPart | None:
    """Return those, of the newest, whose filter names an affected node."""
    rows = Dataset.objects.order_by("-id").values_list("public_id", "name", "selection")[:LOOKED_AT]
    affected_rows = [(key, name) for key, name, selection in rows if selection.get("category") in scope.nodes]
    if not affected_rows:
        return None
    lines = tuple(Named(name, reverse("datasets:dataset", args=[key])) for key, name in affected_rows[:NAMED])
    words = "What is frozen stays as it is; the same filter finds later what hangs on what the label became."
    return AffectedPart("Datasets", len(affected_rows), lines, words)

"""What a change of the tree touches of datasets."""

from __future__ import annotations

from django.urls import reverse

from webapp.datasets.models import Dataset
from webapp.taxonomy.changes.affected import LOOKED_AT, NAMED, AffectedPart, Named, Scope


def datasets(scope: Scope) -> AffectedPart | None:
    """Those, of the newest, whose filter names a node that is touched."""
    rows = Dataset.objects.order_by("-id").values_list("public_id", "name", "selection")[:LOOKED_AT]
    found = [(key, name) for key, name, selection in rows if selection.get("category") in scope.nodes]
    if not found:
        return None
    lines = tuple(Named(name, reverse("datasets:dataset", args=[key])) for key, name in found[:NAMED])
    words = "What is frozen stays as it is; the same filter finds later what hangs on what the label became."
    return AffectedPart("Datasets", len(found), lines, words)

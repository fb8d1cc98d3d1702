"""What a page shows of labels that are being grouped: the groups so far, and the labels that stand alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from webapp.labelling.grouping.suggestions import suggestions
from webapp.labelling.models import LabelItem


@dataclass(frozen=True)
class ShownGroup:
    """A group so far. `renames`: its only label takes the group's name."""

    name: str
    labels: tuple[dict[str, Any], ...]
    renames: bool = False

    @property
    def lone(self) -> dict[str, Any] | None:
        """Its only label, if that has another name."""
        return self.labels[0] if len(self.labels) == 1 and self.labels[0]["name"] != self.name else None


def grouping_context(
    item: LabelItem, names: Mapping[str, str], renamed: Collection[int] = (), refused: Collection[str] = ()
) -> dict[str, Any]:
    """Return the labels by group, those of no group apart, in the item's order."""
    left: list[dict[str, Any]] = []
    found: dict[str, list[dict[str, Any]]] = {}
    for label in item.content["labels"]:
        name = names.get(str(label["id"]), "")
        (found.setdefault(name, []) if name else left).append(label)
    groups = [
        ShownGroup(name, tuple(rows), renames=len(rows) == 1 and rows[0]["id"] in renamed)
        for name, rows in found.items()
    ]
    return {
        "left_labels": left, "groups": groups, "total_labels": len(item.content["labels"]), "renamed": renamed,
        "refused_keys": refused, "suggestions": suggestions(item, names, refused),
        "names": [(label["id"], names.get(str(label["id"]), "")) for label in item.content["labels"]],
    }  # fmt: skip

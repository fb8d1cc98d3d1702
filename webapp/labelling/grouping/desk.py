"""Page context of labels that are being grouped: the groups so far, and the labels without a group."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from webapp.labelling.grouping.suggestions import suggest_groups
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


def build_grouping_context(
    item: LabelItem, names: Mapping[str, str], renamed: Collection[int] = (), refused: Collection[str] = ()
) -> dict[str, Any]:
    """Return the labels by group, those of no group apart, in the item's order."""
    ungrouped: list[dict[str, Any]] = []
    labels_by_group: dict[str, list[dict[str, Any]]] = {}
    for label in item.content["labels"]:
        name = names.get(str(label["id"]), "")
        (labels_by_group.setdefault(name, []) if name else ungrouped).append(label)
    groups = [
        ShownGroup(name, tuple(rows), renames=len(rows) == 1 and rows[0]["id"] in renamed)
        for name, rows in labels_by_group.items()
    ]
    return {
        "left_labels": ungrouped, "groups": groups, "total_labels": len(item.content["labels"]), "renamed": renamed,
        "refused_keys": refused, "suggestions": suggest_groups(item, names, refused),
        "names": [(label["id"], names.get(str(label["id"]), "")) for label in item.content["labels"]],
    }  # fmt: skip

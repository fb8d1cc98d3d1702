"""What a page shows of labels that are being grouped: the groups so far, and the labels that are in none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from webapp.labelling.models import LabelItem


@dataclass(frozen=True)
class ShownGroup:
    """A group so far. `key` is its place, for ids on the page."""

    key: int
    name: str
    labels: tuple[dict[str, Any], ...]


def grouping_context(item: LabelItem, names: Mapping[str, str]) -> dict[str, Any]:
    """The labels by group, those of no group apart, in the item's order."""
    left: list[dict[str, Any]] = []
    found: dict[str, list[dict[str, Any]]] = {}
    for label in item.content["labels"]:
        name = names.get(str(label["id"]), "")
        (found.setdefault(name, []) if name else left).append(label)
    groups = [ShownGroup(number, name, tuple(rows)) for number, (name, rows) in enumerate(found.items(), start=1)]
    total = len(item.content["labels"])
    return {
        "left_labels": left, "groups": groups, "total_labels": total, "placed_labels": total - len(left),
        "names": [(label["id"], names.get(str(label["id"]), "")) for label in item.content["labels"]],
    }  # fmt: skip

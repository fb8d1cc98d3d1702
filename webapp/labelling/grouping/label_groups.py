"""A grouping of the labels of an item: checked, counted, and put into words.

A grouping is stored as a list of `{"name": ..., "labels": [ids]}` in which every label of the item is exactly once. A
label without others is a group of one that has the label's name. A group of one with another name renames the label
only if it says so (`"rename": True`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from synthesis.errors import InputError
from synthesis.formats.values import clean_text
from webapp.labelling.models import LabelItem

GROUP_CHARS = 200
"""As long as the name of a node."""
Group = dict[str, Any]
Groups = list[Group]


def clean_groups(item: LabelItem, given: Sequence[Mapping[str, Any]]) -> Groups:
    """Return the grouping in the item's order; each label in no group becomes a group of one. Raises InputError."""
    own_names = {label["id"]: label["name"] for label in item.content["labels"]}
    groups_by_name: dict[str, Group] = {}
    placed: set[int] = set()
    for group in given:
        name = clean_text(str(group.get("name", ""))).strip()
        labels = group.get("labels")
        if not name or len(name) > GROUP_CHARS:
            raise InputError(f"Every group needs a name of 1 to {GROUP_CHARS} characters.")
        if not isinstance(labels, list | tuple) or not labels:
            raise InputError(f"The group “{name}” has no labels.")
        for pk in labels:
            if pk not in own_names:
                raise InputError(f"There is no label {str(pk)[:20]} in this session.")
            if pk in placed:
                raise InputError(f"“{own_names[pk]}” is in two groups. A label is in one group at most.")
            placed.add(pk)
        stands_alone = len(labels) == 1 and name == own_names[labels[0]]
        if stands_alone:
            placed.discard(labels[0])
            continue
        if name in groups_by_name:
            raise InputError(f"Two groups are called “{name}”. Put their labels together, or rename one.")
        groups_by_name[name] = {"name": name, "labels": list(labels)}
        if len(labels) == 1 and group.get("rename"):
            groups_by_name[name]["rename"] = True
    order = {pk: number for number, pk in enumerate(own_names)}
    for group in groups_by_name.values():
        group["labels"].sort(key=lambda pk: order[pk])
    alone = [{"name": name, "labels": [pk]} for pk, name in own_names.items() if pk not in placed]
    return sorted([*groups_by_name.values(), *alone], key=lambda group: order[group["labels"][0]])


def require_every_label(item: LabelItem, given: Sequence[Mapping[str, Any]]) -> None:
    """Raise InputError if a label is in no group: a model that leaves one out has overlooked it."""
    placed = {pk for group in given for pk in group["labels"]}
    left = [label["name"] for label in item.content["labels"] if label["id"] not in placed]
    if left:
        more = f" and {len(left) - 1} more" if len(left) > 1 else ""
        raise InputError(f"“{left[0]}”{more} is in no group yet. A label on its own is a group of one.")


def group_labels(item: LabelItem, names: Mapping[str, str], renamed: Sequence[int] = ()) -> Groups:
    """Return the groups from the name that each label (its id as text) was given; labels without a name are left out.

    A label that is `renamed` and alone in its group takes the group's name.
    """
    labels_by_name: dict[str, list[int]] = {}
    for label in item.content["labels"]:
        name = str(names.get(str(label["id"]), "")).strip()
        if name:
            labels_by_name.setdefault(name, []).append(label["id"])
    return [
        {"name": name, "labels": labels} | ({"rename": True} if len(labels) == 1 and labels[0] in renamed else {})
        for name, labels in labels_by_name.items()
    ]


def map_group_names(item: LabelItem, groups: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the name of the group of each label (its id as text); labels without a group are left out."""
    own = {label["id"]: label["name"] for label in item.content["labels"]}
    return {
        str(pk): group["name"]
        for group in groups for pk in group["labels"]
        if len(group["labels"]) > 1 or group["name"] != own.get(pk)
    }  # fmt: skip


def list_renamed_labels(groups: Sequence[Mapping[str, Any]]) -> list[int]:
    """Return the labels that are alone in their group and take its name."""
    return [group["labels"][0] for group in groups if is_renaming(group)]


def is_renaming(group: Mapping[str, Any]) -> bool:
    return len(group["labels"]) == 1 and bool(group.get("rename"))


def is_lone(group: Mapping[str, Any]) -> bool:
    """Return whether a group is a single label that keeps its name."""
    return len(group["labels"]) == 1 and not group.get("rename")


def describe_groups(groups: Sequence[Mapping[str, Any]], *, with_names: bool = False) -> str:
    """Return how many groups there are and how many labels are alone; with their names and sizes if asked."""
    real_groups = [group for group in groups if len(group["labels"]) > 1]
    renamed = [group for group in groups if is_renaming(group)]
    alone = len(groups) - len(real_groups) - len(renamed)
    sizes = ", ".join(f"{group['name']} ({len(group['labels'])})" for group in real_groups) if with_names else ""
    parts = [_format_count(len(real_groups), "group") + (f": {sizes}" if sizes else "")]
    parts += [f"{_format_count(len(renamed), 'label')} renamed"] if renamed else []
    parts += [f"{_format_count(alone, 'label')} ungrouped"] if alone else []
    return "; ".join(parts)


def _format_count(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"

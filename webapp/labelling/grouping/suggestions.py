"""Labels with equal or similar names, offered to people who group labels."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from synthesis.themes.dedupe import FoldedGroup, find_similar_pairs, group_pairs
from webapp.labelling.models import LabelItem

THRESHOLD = 0.6
MOST_SUGGESTED = 12


@dataclass(frozen=True)
class Suggestion:
    """Labels that can be put together as `name`, which is an existing group if `joins`."""

    labels: tuple[dict[str, Any], ...]
    name: str
    joins: bool

    @property
    def key(self) -> str:
        """The ids of its labels, for the answers to it."""
        return "-".join(str(label["id"]) for label in self.labels)


def suggest_groups(item: LabelItem, names: Mapping[str, str], refused: Collection[str] = ()) -> list[Suggestion]:
    """Return labels of no group whose names are alike, or like those of one group; without those that were refused."""
    labels = item.content["labels"]
    offered = []
    for near in _group_similar_names(tuple(label["name"] for label in labels)):
        members = [labels[index] for index in (near.kept, *(member.index for member in near.members))]
        ungrouped = tuple(label for label in members if not names.get(str(label["id"])))
        known_groups = {names[str(label["id"])] for label in members if names.get(str(label["id"]))}
        if len(known_groups) > 1 or len(ungrouped) + len(known_groups) < 2:
            continue
        joins = bool(known_groups)
        suggestion = Suggestion(ungrouped, known_groups.pop() if joins else find_commonest_name(ungrouped), joins)
        if suggestion.key not in refused:
            offered.append(suggestion)
    return offered[:MOST_SUGGESTED]


def find_commonest_name(labels: Collection[Mapping[str, Any]]) -> str:
    """Return the name of the label that has the most environments and themes, the first if several have."""
    return str(max(labels, key=lambda label: label["environments"] + label["themes"])["name"])


@lru_cache(maxsize=64)
def _group_similar_names(names: tuple[str, ...]) -> tuple[FoldedGroup, ...]:
    """Group equal and similar names. The names of a session never change, so that each session is compared once."""
    pairs = find_similar_pairs([_strip_endings(name) for name in names])
    return tuple(group for group in group_pairs(len(names), pairs, THRESHOLD) if group.members)


def _strip_endings(name: str) -> str:
    """Return a name without what often differs between equal ones: case, hyphens, "&" and a plural's s."""
    words = re.findall(r"\w+", re.sub(r"[-'\u2019]", "", name.casefold().replace("&", " and ")))
    return " ".join(word.removesuffix("s") if len(word) > 3 else word for word in words) or name

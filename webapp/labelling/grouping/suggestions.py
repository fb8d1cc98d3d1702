"""Labels with equal or similar names, offered to people who group labels."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from synthesis.themes.dedupe import FoldedGroup, grouped, similar
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


def suggestions(item: LabelItem, names: Mapping[str, str], refused: Collection[str] = ()) -> list[Suggestion]:
    """Return labels of no group whose names are alike, or like those of one group; without those that were refused."""
    labels = item.content["labels"]
    found = []
    for near in _similar_names(tuple(label["name"] for label in labels)):
        members = [labels[index] for index in (near.kept, *(member.index for member in near.members))]
        left = tuple(label for label in members if not names.get(str(label["id"])))
        known = {names[str(label["id"])] for label in members if names.get(str(label["id"]))}
        if len(known) > 1 or len(left) + len(known) < 2:
            continue
        joins = bool(known)
        one = Suggestion(left, known.pop() if joins else commonest_name(left), joins)
        if one.key not in refused:
            found.append(one)
    return found[:MOST_SUGGESTED]


def commonest_name(labels: Collection[Mapping[str, Any]]) -> str:
    """Return the name of the label that has the most environments and themes, the first of several."""
    return str(max(labels, key=lambda label: label["environments"] + label["themes"])["name"])


@lru_cache(maxsize=64)
def _similar_names(names: tuple[str, ...]) -> tuple[FoldedGroup, ...]:
    """Group equal and similar names. The names of a session never change, so that each session is compared once."""
    pairs = similar([_without_endings(name) for name in names])
    return tuple(group for group in grouped(len(names), pairs, THRESHOLD) if group.members)


def _without_endings(name: str) -> str:
    """Return a name without what often differs between equal ones: case, hyphens, "&" and a plural's s."""
    words = re.findall(r"\w+", re.sub(r"[-'\u2019]", "", name.casefold().replace("&", " and ")))
    return " ".join(word.removesuffix("s") if len(word) > 3 else word for word in words) or name

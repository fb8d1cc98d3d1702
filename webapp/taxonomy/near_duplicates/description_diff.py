"""Differences between the descriptions of two themes, word by word, and the tools that both have."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from webapp.taxonomy.models import Theme, ThemeTool

WORDS = re.compile(r"\s+|\w+|[^\w\s]")
COMPARED = 600
"""Characters of a description that are compared: its search is quadratic."""
LEAST_RATIO = 0.3
"""Less alike texts are shown as they are: marks on nearly every word would not help."""
TOOLS = 40


@dataclass(frozen=True)
class Piece:
    """A stretch of text. `kind` is `same`, `gone` (the kept theme alone says it) or `new` (this one alone does)."""

    kind: str
    text: str


def diff_words(kept: str, other: str) -> list[Piece]:
    """Return the pieces of two descriptions; empty if they have little in common or are the same."""
    before, after = WORDS.findall(kept[:COMPARED]), WORDS.findall(other[:COMPARED])
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    if before == after or matcher.quick_ratio() < LEAST_RATIO:
        return []
    pieces = []
    for kind, a, b, c, d in matcher.get_opcodes():
        if kind == "equal":
            pieces.append(Piece("same", "".join(before[a:b])))
            continue
        if b > a:
            pieces.append(Piece("gone", "".join(before[a:b])))
        if d > c:
            pieces.append(Piece("new", "".join(after[c:d])))
    return pieces


@dataclass(frozen=True)
class ToolComparison:
    """The first tools of two themes by name."""

    shared: tuple[str, ...] = ()
    own: tuple[str, ...] = ()


def compare_tools(kept: Theme, members: Sequence[Theme], names: dict[int, list[str]]) -> dict[int, ToolComparison]:
    """Return by member which of its tools the kept theme has too, and which it alone has."""
    kept_names = set(names.get(kept.pk, []))
    compared = {}
    for member in members:
        own = names.get(member.pk, [])
        shared = tuple(name for name in own if name in kept_names)
        compared[member.pk] = ToolComparison(shared, tuple(name for name in own if name not in kept_names))
    return compared


def load_tool_names(themes: Sequence[int]) -> dict[int, list[str]]:
    """Return the names of the first tools of several themes, in one query."""
    names: dict[int, list[str]] = {pk: [] for pk in themes}
    rows = ThemeTool.objects.filter(theme__in=names, position__lt=TOOLS).order_by("theme_id", "position")
    for theme, name in rows.values_list("theme_id", "name"):
        names[theme].append(name)
    return names

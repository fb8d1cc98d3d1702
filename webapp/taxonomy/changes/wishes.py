"""Changes that people wish: each draws itself on a draft of the tree, and says in one sentence what it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from synthesis.errors import InputError
from webapp.errors import Conflict
from webapp.taxonomy.changes.draft import TreeDraft
from webapp.taxonomy.changes.hung import KINDS
from webapp.taxonomy.models import ChangeKind

NAMED = 4
"""So many labels are named in a sentence; of more, how many there are."""


@dataclass(frozen=True)
class Wish:
    """`draw` changes the draft and gives the sentence; it raises what the draft raises, and InputError."""

    kind: str
    draw: Callable[[TreeDraft], str]


def move(node: int, parent: int | None) -> Wish:
    """Put a label below another, or on the first level."""

    def draw(draft: TreeDraft) -> str:
        name, came = draft.node(node).name, draft.words(draft.node(node).parent)
        draft.move(node, parent)
        return f"Moved “{name}” from {came} to {draft.words(parent)}"

    return Wish(ChangeKind.MOVE, draw)


def merge(sources: Sequence[int], into: int, name: str = "") -> Wish:
    """Let labels become another one."""
    wanted = [pk for pk in dict.fromkeys(sources) if pk != into]

    def draw(draft: TreeDraft) -> str:
        if not wanted:
            raise InputError("Choose at least one other label to merge.")
        target = draft.words(into) if into in draft.nodes else ""
        named = in_words([draft.node(pk).name for pk in wanted])
        draft.merge(wanted, into, name)
        called = draft.node(into).name
        return f"Merged {named} into “{target}”" + (f", now “{called}”" if not target.endswith(called) else "")

    return Wish(ChangeKind.MERGE, draw)


@dataclass(frozen=True)
class Parting:
    """What leaves a label for a new one: things by kind that hang on the label itself, and labels right below it."""

    things: Mapping[str, Sequence[int]] = field(default_factory=dict)
    nodes: Sequence[int] = ()


def split(node: int, name: str, parting: Parting, *, below: bool = False) -> Wish:
    """Take some of what a label holds out of it, into a new one beside or below it."""

    def draw(draft: TreeDraft) -> str:
        row = draft.node(node)
        new = draft.add(name, node if below else row.parent, origin=node)
        for child in dict.fromkeys(parting.nodes):
            if draft.node(child).parent != node:
                raise InputError(f"“{draft.node(child).name}” is no label right below “{row.name}”.")
            draft.move(child, new)
        number = len(set(parting.nodes))
        for kind, things in parting.things.items():
            standing = KINDS[kind].standing(things)
            if strangers := {pk for pk in things if standing.get(pk) != node}:
                words = f"{len(strangers)} of the {KINDS[kind].name} do not hang on “{row.name}” itself any more."
                raise Conflict(words, code="moved_since")
            draft.hang(kind, things, new)
            number += len(set(things))
        if not number:
            raise InputError("Choose what the new label takes: environments, themes, or labels below.")
        return f"Split “{draft.node(new).name}” off “{row.name}”, {'below' if below else 'beside'} it"

    return Wish(ChangeKind.SPLIT, draw)


def rename(node: int, name: str) -> Wish:
    """Give a label another name."""

    def draw(draft: TreeDraft) -> str:
        was = draft.words(node) if node in draft.nodes else ""
        draft.rename(node, name)
        return f"Renamed “{was}” to “{draft.node(node).name}”"

    return Wish(ChangeKind.RENAME, draw)


def delete(node: int, target: int | None = None) -> Wish:
    """Take a label away. Another one takes what hangs on it; without one, nothing may."""

    def draw(draft: TreeDraft) -> str:
        words = draft.words(node) if node in draft.nodes else ""
        if target is None:
            draft.remove(node)
            return f"Deleted “{words}”, which was empty"
        draft.merge([node], target)
        return f"Deleted “{words}”; “{draft.words(target)}” has what hung there"

    return Wish(ChangeKind.DELETE, draw)


def place(theme: int, node: int) -> Wish:
    """Hang one theme on another label."""

    def draw(draft: TreeDraft) -> str:
        known = dict(KINDS["themes"].names([theme], 1))
        if theme not in known:
            raise InputError("This theme does not exist any more.")
        came = KINDS["themes"].standing([theme])[theme]
        draft.node(node)
        if came == node:
            raise Conflict("The theme hangs on this label already. Choose another one.", code="no_change")
        draft.hang("themes", [theme], node)
        return f"Placed the theme “{known[theme][:80]}” on {draft.words(node)}, before on {draft.words(came)}"

    return Wish(ChangeKind.MOVE, draw)


def in_words(names: Sequence[str]) -> str:
    """Names as a sentence lists them."""
    shown = [f"“{name}”" for name in names[:NAMED]]
    if len(names) > NAMED:
        return f"{', '.join(shown)} and {len(names) - NAMED:,} more"
    return " and ".join((", ".join(shown[:-1]), shown[-1])) if len(shown) > 1 else "".join(shown)

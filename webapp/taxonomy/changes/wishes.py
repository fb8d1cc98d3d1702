"""Changes that users request: each draws itself on a draft of the tree, and describes itself in one sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from synthesis.errors import InputError
from webapp.common.errors import Conflict
from webapp.taxonomy.changes.draft import TreeDraft
from webapp.taxonomy.changes.hung import KINDS
from webapp.taxonomy.models import ChangeKind

NAMED = 4
"""Number of labels that are named in a sentence; of more, only the number."""


@dataclass(frozen=True)
class Wish:
    """A requested change. `draw` changes the draft and returns the sentence; it raises what the draft raises, and
    InputError."""

    kind: str
    draw: Callable[[TreeDraft], str]


def build_move(node: int, parent: int | None) -> Wish:
    """Return the wish to put a label below another, or on the first level."""

    def draw_move(draft: TreeDraft) -> str:
        name, came = draft.node(node).name, draft.words(draft.node(node).parent)
        draft.move(node, parent)
        return f"Moved “{name}” from {came} to {draft.words(parent)}"

    return Wish(ChangeKind.MOVE, draw_move)


def build_merge(sources: Sequence[int], into: int, name: str = "") -> Wish:
    """Return the wish to let labels become another one."""
    merged_ids = [pk for pk in dict.fromkeys(sources) if pk != into]

    def draw_merge(draft: TreeDraft) -> str:
        if not merged_ids:
            raise InputError("Choose at least one other label to merge.")
        target = draft.words(into) if into in draft.nodes else ""
        named = format_names([draft.node(pk).name for pk in merged_ids])
        draft.merge(merged_ids, into, name)
        called = draft.node(into).name
        return f"Merged {named} into “{target}”" + (f", now “{called}”" if not target.endswith(called) else "")

    return Wish(ChangeKind.MERGE, draw_merge)


@dataclass(frozen=True)
class Parting:
    """The parts of a label that go to a new one: things by kind that hang on the label itself, and labels right
    below it."""

    things: Mapping[str, Sequence[int]] = field(default_factory=dict)
    nodes: Sequence[int] = ()


def build_split(node: int, name: str, parting: Parting, *, below: bool = False) -> Wish:
    """Return the wish to take some of what a label holds into a new one beside or below it."""

    def draw_split(draft: TreeDraft) -> str:
        row = draft.node(node)
        new = draft.add(name, node if below else row.parent, origin=node)
        for child in dict.fromkeys(parting.nodes):
            if draft.node(child).parent != node:
                raise InputError(f"“{draft.node(child).name}” is no label right below “{row.name}”.")
            draft.move(child, new)
        number = len(set(parting.nodes))
        for kind, thing_ids in parting.things.items():
            standing = KINDS[kind].standing(thing_ids)
            if strangers := {pk for pk in thing_ids if standing.get(pk) != node}:
                words = f"{len(strangers)} of the {KINDS[kind].name} do not hang on “{row.name}” itself any more."
                raise Conflict(words, code="moved_since")
            draft.hang(kind, thing_ids, new)
            number += len(set(thing_ids))
        if not number:
            raise InputError("Choose what the new label takes: environments, themes, or labels below.")
        return f"Split “{draft.node(new).name}” off “{row.name}”, {'below' if below else 'beside'} it"

    return Wish(ChangeKind.SPLIT, draw_split)


def build_rename(node: int, name: str) -> Wish:
    """Return the wish to give a label another name."""

    def draw_rename(draft: TreeDraft) -> str:
        was = draft.words(node) if node in draft.nodes else ""
        draft.rename(node, name)
        return f"Renamed “{was}” to “{draft.node(node).name}”"

    return Wish(ChangeKind.RENAME, draw_rename)


def build_delete(node: int, target: int | None = None) -> Wish:
    """Return the wish to remove a label. Another one takes what hangs on it; without one, nothing may hang on it."""

    def draw_delete(draft: TreeDraft) -> str:
        words = draft.words(node) if node in draft.nodes else ""
        if target is None:
            draft.remove(node)
            return f"Deleted “{words}”, which was empty"
        draft.merge([node], target)
        return f"Deleted “{words}”; “{draft.words(target)}” has what hung there"

    return Wish(ChangeKind.DELETE, draw_delete)


def build_placement(theme: int, node: int) -> Wish:
    """Return the wish to hang one theme on another label."""

    def draw_placement(draft: TreeDraft) -> str:
        theme_names = dict(KINDS["themes"].names([theme], 1))
        if theme not in theme_names:
            raise InputError("This theme does not exist any more.")
        current_node = KINDS["themes"].standing([theme])[theme]
        draft.node(node)
        if current_node == node:
            raise Conflict("The theme hangs on this label already. Choose another one.", code="no_change")
        draft.hang("themes", [theme], node)
        words, words_before = draft.words(node), draft.words(current_node)
        return f"Placed the theme “{theme_names[theme][:80]}” on {words}, before on {words_before}"

    return Wish(ChangeKind.MOVE, draw_placement)


def format_names(names: Sequence[str]) -> str:
    """Return names as a sentence lists them."""
    shown = [f"“{name}”" for name in names[:NAMED]]
    if len(names) > NAMED:
        return f"{', '.join(shown)} and {len(names) - NAMED:,} more"
    return " and ".join((", ".join(shown[:-1]), shown[-1])) if len(shown) > 1 else "".join(shown)

"""Undo of a change: what it wrote goes back, unless a later change prevents it, which is named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.db.models import QuerySet

from webapp.common.errors import Conflict, NotFound
from webapp.taxonomy.changes.delta import Delta, Shape
from webapp.taxonomy.changes.draft import TreeDraft
from webapp.taxonomy.changes.hung import KINDS
from webapp.taxonomy.changes.rights import require_reshaper
from webapp.taxonomy.changes.services import carry_out_undo
from webapp.taxonomy.changes.wishes import Wish
from webapp.taxonomy.models import ChangeKind, TreeChange

Hook = Callable[[Any, TreeChange], None]
HOOKS: list[Hook] = []
NAMED = 3


def register_undo(hook: Hook) -> None:
    """Call `hook(user, change)` in the transaction that undoes a change; what it raises, stops the undo."""
    HOOKS.append(hook)


def take_back_change(user: Any, pk: int, why: str = "") -> TreeChange:
    """Undo a change, as a change of its own. Raises NotFound; Conflict: later changes prevent it."""
    require_reshaper(user)
    change = TreeChange.objects.select_related("undone_by").filter(pk=pk).first()
    if change is None:
        raise NotFound("There is no such change of the tree.")
    require_undoable(change)

    def run_hooks(_: TreeChange) -> None:
        for hook in HOOKS:
            hook(user, change)

    return carry_out_undo(user, build_undo_wish(change), change, why, run_hooks)


def require_undoable(change: TreeChange) -> None:
    """Raise Conflict if a change is an undo, or is undone."""
    if change.kind == ChangeKind.UNDO:
        raise Conflict("An undo cannot be undone. Make the change again instead.", code="is_undo")
    if TreeChange.objects.filter(undoes=change).exists():
        raise Conflict(f"“{change.words}” is undone already.", code="undone_already")


def build_undo_wish(change: TreeChange) -> Wish:
    """Return the wish that reverses a change."""

    def draw_undo(draft: TreeDraft) -> str:
        require_undoable(change)
        try:
            _turn_back(draft, change)
        except (Conflict, NotFound) as error:
            raise Conflict(
                _describe_refusal(change, str(error)), code="later_changes", facts=_build_facts(change)
            ) from error
        return f"Undid: {change.words}"

    return Wish(ChangeKind.UNDO, draw_undo)


def list_later_changes(change: TreeChange) -> QuerySet[TreeChange]:
    """Return later changes, not undone, of what this one changed; newest first."""
    rows = TreeChange.objects.filter(pk__gt=change.pk, node_ids__overlap=change.node_ids, undone_by=None)
    return rows.exclude(kind=ChangeKind.UNDO).order_by("-id")


def _describe_refusal(change: TreeChange, reason: str) -> str:
    words = f"This cannot be undone as the tree is now. {reason}"
    if later := list(list_later_changes(change)[:NAMED]):
        words += " Undo first: " + "; ".join(f"“{row.words}” (change {row.pk})" for row in later) + "."
    return words


def _build_facts(change: TreeChange) -> dict[str, Any]:
    return {"changes": list(list_later_changes(change).values_list("pk", flat=True)[:NAMED])}


def _turn_back(draft: TreeDraft, change: TreeChange) -> None:
    """Put nodes and things back on a draft. Raises Conflict: they are not as the change left them."""
    delta = Delta.of_json(change.delta)
    for step in delta.nodes:
        now = draft.nodes.get(step.pk)
        _require_same(Shape(now.parent, now.name) if now else None, step.after, step.before)
    for step in delta.nodes:
        if step.after is not None:
            draft.lift(step.pk)
    pending = [step for step in delta.nodes if step.before is not None]
    ready = [step for step in pending if step.before and step.before.parent not in {one.pk for one in pending}]
    while ready:
        for step in ready:
            assert step.before is not None
            draft.restore(step.pk, step.before.parent, step.before.name, step.before.made)
        restored_ids = {step.pk for step in ready}
        pending = [step for step in pending if step.pk not in restored_ids]
        pending_ids = {step.pk for step in pending}
        ready = [step for step in pending if step.before and step.before.parent not in pending_ids]
    _hang_back(draft, delta, change)
    for step in reversed(delta.nodes):
        if step.before is None:
            draft.drop(step.pk, step.into)


def _require_same(now: Shape | None, left: Shape | None, before: Shape | None) -> None:
    was = now and (now.parent, now.name)
    if was == (left and (left.parent, left.name)):
        return
    name = (left or before or Shape(None, "")).name
    if now is None:
        raise Conflict(f"“{name}” no longer exists.")
    if now.name != name:
        raise Conflict(f"“{name}” is called “{now.name}” now.")
    raise Conflict(f"“{name}” is elsewhere now.")


def _hang_back(draft: TreeDraft, delta: Delta, change: TreeChange) -> None:
    """Move things back that are still on the node the change put them on; things that an import moved since stay.

    Raises Conflict: a later change moved some of them on.
    """
    for name, moves in delta.hung.items():
        now = KINDS[name].standing(moves)
        strayed = {thing for thing, node in now.items() if node != moves[thing][1]}
        for later in list_later_changes(change) if strayed else ():
            if moved_on := strayed & Delta.of_json(later.delta).get_moves(name).keys():
                raise Conflict(f"{len(moved_on):,} of the {name} were moved on by “{later.words}”.")
        for thing, (source, to) in moves.items():
            if now.get(thing) == to:
                draft.hang(name, [thing], source)

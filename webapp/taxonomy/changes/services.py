"""Changes of the tree: each in one transaction, in which no other writer hangs, counts or changes anything there."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

from django.db import OperationalError, connection, transaction

from synthesis.formats.values import clean_text
from webapp.accounts.services import write_audit_entry
from webapp.common.errors import ChangedMeanwhile, Conflict
from webapp.taxonomy.changes.delta import Delta, build_delta
from webapp.taxonomy.changes.draft import TreeDraft
from webapp.taxonomy.changes.hung import KINDS
from webapp.taxonomy.changes.rights import require_reshaper
from webapp.taxonomy.changes.wishes import Wish
from webapp.taxonomy.changes.writes import keep_addresses, write_delta
from webapp.taxonomy.models import TreeChange
from webapp.taxonomy.services import TREE_LOCK, take_advisory_lock

WHY = 2_000
WAIT = "400ms"
"""Time that a change waits for a lock before it gives way, so that PostgreSQL does not end another transaction."""
ATTEMPTS = 25
BUSY = {"55P03", "40P01"}
"""Lock not available, deadlock."""


class _Moved(Exception):
    """The things to be moved are not the same as a moment before."""


def get_serial() -> int:
    """Return the number of the tree's state: the newest change's."""
    return TreeChange.objects.order_by("-id").values_list("pk", flat=True).first() or 0


def require_serial(seen: int) -> None:
    """Raise ChangedMeanwhile if the tree was changed since it was looked at."""
    now = get_serial()
    if now == seen:
        return
    last = TreeChange.objects.select_related("by").filter(pk=now).first()
    author_words = f" by {last.by.username}" if last is not None and last.by is not None else ""
    change_words = f" ({last.words}{author_words})" if last is not None else ""
    words = f"The tree was changed since you looked at it{change_words}. Look at what this would do now."
    raise ChangedMeanwhile(words, code="tree_changed", facts={"serial": now})


def draw_wish(wish: Wish) -> tuple[TreeDraft, Delta, str]:
    """Return the draft, the delta and the sentence of a wish. Raises what the wish raises; Conflict: nothing would
    change."""
    draft = TreeDraft()
    words = wish.draw(draft)
    delta = build_delta(draft)
    if delta.is_empty:
        raise Conflict("Nothing would change.", code="no_change")
    return draft, delta, words


def change_tree(user: Any, wish: Wish, *, seen: int, why: str = "") -> TreeChange:
    """Carry out a wish, if the tree is as it was at serial `seen`.

    Raises NotFound, InputError, Conflict: it is not possible, or not allowed; ChangedMeanwhile: the tree was changed
    since.
    """
    require_reshaper(user)
    return _retry_until_locked(lambda: _change_under_lock(user, wish, why, lambda: require_serial(seen)))


def carry_out_undo(
    user: Any, wish: Wish, undone: TreeChange, why: str, then: Callable[[TreeChange], None]
) -> TreeChange:
    """Carry out a wish that undoes a change; `then` runs in the same transaction."""

    def change_once() -> TreeChange:
        made = _change_under_lock(user, wish, why, lambda: None, undone)
        then(made)
        return made

    return _retry_until_locked(change_once)


def _retry_until_locked(act: Callable[[], TreeChange]) -> TreeChange:
    """Run a change, again until it gets its locks. Raises Conflict: others hold them for too long."""
    for attempt in range(ATTEMPTS):
        try:
            with transaction.atomic():
                _set_lock_timeout(WAIT)
                tree_change = act()
                _set_lock_timeout("0")
                return tree_change
        except OperationalError as error:
            if getattr(error.__cause__, "sqlstate", "") not in BUSY:
                raise
        except _Moved:
            pass
        time.sleep(random.uniform(0.01, 0.05 * (attempt + 1)))
    raise Conflict("So much is being written to the tree just now that it cannot be changed. Try again.", code="busy")


def _set_lock_timeout(limit: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('lock_timeout', %s, true)", [limit])


def _change_under_lock(
    user: Any, wish: Wish, why: str, require: Callable[[], None], undone: TreeChange | None = None
) -> TreeChange:
    """Lock in the order of all writers: things, then the tree; then draw the wish again.

    Waiting for the locks may have changed what the wish does.
    """
    require()
    _, before, _ = draw_wish(wish)
    for name, kind in KINDS.items():
        kind.hold(before.get_moves(name))
    take_advisory_lock(TREE_LOCK)
    require()
    draft, delta, words = draw_wish(wish)
    if any(delta.get_moves(name).keys() != before.get_moves(name).keys() for name in KINDS):
        raise _Moved
    written_delta = write_delta(draft, delta)
    row = TreeChange.objects.create(
        kind=wish.kind, words=clean_text(words)[:400], why=clean_text(why).strip()[:WHY], delta=written_delta.as_json(),
        node_ids=sorted(written_delta.node_ids()), nodes=len(written_delta.nodes),
        environments=len(written_delta.get_moves("environments")), themes=len(written_delta.get_moves("themes")),
        undoes=undone, by=user,
    )  # fmt: skip
    keep_addresses(row, draft, delta)
    write_audit_entry(user, f"taxonomy.{wish.kind}", row, **build_audit_facts(row))
    return row


def build_audit_facts(row: TreeChange) -> dict[str, Any]:
    """Return the audit log's facts of a change; the change itself has what was before and after."""
    found: dict[str, Any] = {"nodes": row.nodes, "environments": row.environments, "themes": row.themes}
    found |= {"why": row.why} if row.why else {}
    return found | ({"undoes": row.undoes_id} if row.undoes_id else {})

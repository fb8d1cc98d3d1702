"""Changing the tree: each change in one transaction, while nobody else hangs, counts or changes anything there."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

from django.db import OperationalError, connection, transaction

from synthesis.formats.values import clean
from webapp.accounts.services import audit
from webapp.errors import ChangedMeanwhile, Conflict
from webapp.taxonomy.changes.delta import Delta, delta_of
from webapp.taxonomy.changes.draft import TreeDraft
from webapp.taxonomy.changes.hung import KINDS
from webapp.taxonomy.changes.rights import require_reshaper
from webapp.taxonomy.changes.wishes import Wish
from webapp.taxonomy.changes.writes import keep_addresses, write
from webapp.taxonomy.models import TreeChange
from webapp.taxonomy.services import TREE_LOCK, lock

WHY = 2_000
WAIT = "400ms"
"""A change waits so long for a lock and then gives way, before PostgreSQL would end somebody else's transaction."""
ATTEMPTS = 25
BUSY = {"55P03", "40P01"}
"""Lock not available, deadlock."""


class _Moved(Exception):
    """What was to be moved is not what it was a moment before."""


def serial() -> int:
    """The number of the tree's state: the newest change's."""
    return TreeChange.objects.order_by("-id").values_list("pk", flat=True).first() or 0


def require_serial(seen: int) -> None:
    """Raises ChangedMeanwhile: the tree was changed since it was looked at."""
    now = serial()
    if now == seen:
        return
    last = TreeChange.objects.select_related("by").filter(pk=now).first()
    who = f" by {last.by.username}" if last is not None and last.by is not None else ""
    what = f" ({last.words}{who})" if last is not None else ""
    words = f"The tree was changed since you looked at it{what}. Look at what this would do now."
    raise ChangedMeanwhile(words, code="tree_changed", facts={"serial": now})


def drawn(wish: Wish) -> tuple[TreeDraft, Delta, str]:
    """What a wish comes to now, and its sentence. Raises what the wish raises; Conflict: nothing would change."""
    draft = TreeDraft()
    words = wish.draw(draft)
    delta = delta_of(draft)
    if delta.is_empty:
        raise Conflict("Nothing would change.", code="no_change")
    return draft, delta, words


def change(user: Any, wish: Wish, *, seen: int, why: str = "") -> TreeChange:
    """Carry a wish out, if the tree is as it was at serial `seen`.

    Raises NotFound, InputError, Conflict: it cannot be, or may not; ChangedMeanwhile: the tree was changed since.
    """
    require_reshaper(user)
    return _attempted(lambda: _changed(user, wish, why, lambda: require_serial(seen)))


def turned_round(user: Any, wish: Wish, undone: TreeChange, why: str, then: Callable[[TreeChange], None]) -> TreeChange:
    """Carry out a wish that undoes a change; `then` runs in the same transaction."""

    def once() -> TreeChange:
        made = _changed(user, wish, why, lambda: None, undone)
        then(made)
        return made

    return _attempted(once)


def _attempted(act: Callable[[], TreeChange]) -> TreeChange:
    """Carry out until the locks are had. Raises Conflict: others hold them for too long."""
    for attempt in range(ATTEMPTS):
        try:
            with transaction.atomic():
                _wait_at_most(WAIT)
                made = act()
                _wait_at_most("0")
                return made
        except OperationalError as error:
            if getattr(error.__cause__, "sqlstate", "") not in BUSY:
                raise
        except _Moved:
            pass
        time.sleep(random.uniform(0.01, 0.05 * (attempt + 1)))
    raise Conflict("So much is being written to the tree just now that it cannot be changed. Try again.", code="busy")


def _wait_at_most(limit: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('lock_timeout', %s, true)", [limit])


def _changed(
    user: Any, wish: Wish, why: str, require: Callable[[], None], undone: TreeChange | None = None
) -> TreeChange:
    """Lock in the order of all writers: things, then the tree; and look again at what the wish comes to now."""
    require()
    _, before, _ = drawn(wish)
    for name, kind in KINDS.items():
        kind.hold(before.moved(name))
    lock(TREE_LOCK)
    require()
    draft, delta, words = drawn(wish)
    if any(delta.moved(name).keys() != before.moved(name).keys() for name in KINDS):
        raise _Moved
    written = write(draft, delta)
    row = TreeChange.objects.create(
        kind=wish.kind, words=clean(words)[:400], why=clean(why).strip()[:WHY], delta=written.as_json(),
        node_ids=sorted(written.node_ids()), nodes=len(written.nodes), environments=len(written.moved("environments")),
        themes=len(written.moved("themes")), undoes=undone, by=user,
    )  # fmt: skip
    keep_addresses(row, draft, delta)
    audit(user, f"taxonomy.{wish.kind}", row, **facts(row))
    return row


def facts(row: TreeChange) -> dict[str, Any]:
    """What the audit log says of a change; the change itself has what was before and after."""
    found: dict[str, Any] = {"nodes": row.nodes, "environments": row.environments, "themes": row.themes}
    found |= {"why": row.why} if row.why else {}
    return found | ({"undoes": row.undoes_id} if row.undoes_id else {})

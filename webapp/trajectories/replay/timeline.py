"""States along a run, cached in this process: moving by one step applies one patch.

States are never changed in place (`apply_patch` shares what it does not touch), so several threads may hold one.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

from synthesis.contracts import Patch, State
from synthesis.errors import InputError
from synthesis.runtime.encoding import apply_patch, make_patch
from webapp.scenarios.states import load_state
from webapp.trajectories.models import Step, Trajectory

BUDGET = 48 * 1024 * 1024
"""How many bytes of stored JSON the kept states may come from."""
SHARE = 16
"""A state made by patches is counted as this part of its snapshot: the rest is shared."""

Key = tuple[int, str, int]


class StateCache:
    """Cache of states, limited by weight; the least recently used are dropped first."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self._rows: OrderedDict[tuple[Key, int], tuple[State, int]] = OrderedDict()
        self._weight = 0
        self._lock = threading.Lock()

    def nearest(self, key: Key, first: int, last: int) -> tuple[int, State, int] | None:
        """Return the latest cached (step, state, weight) between two steps."""
        with self._lock:
            for index in range(last, first - 1, -1):
                row = self._rows.get((key, index))
                if row is not None:
                    self._rows.move_to_end((key, index))
                    return index, *row
        return None

    def keep(self, key: Key, index: int, state: State, weight: int) -> None:
        with self._lock:
            old = self._rows.pop((key, index), None)
            self._weight += weight - (old[1] if old else 0)
            self._rows[key, index] = (state, weight)
            while self._weight > self.budget and len(self._rows) > 2:
                _, (_, dropped_weight) = self._rows.popitem(last=False)
                self._weight -= dropped_weight

    def clear(self) -> None:
        with self._lock:
            self._rows.clear()
            self._weight = 0


CACHE = StateCache(BUDGET)


def load_state_after(trajectory: Trajectory, index: int) -> State:
    """Return the encoded state after step `index`. Raises `InputError` if none is stored."""
    key = (trajectory.pk, f"{trajectory.starts} {trajectory.final_hash}", trajectory.step_count)
    cached = CACHE.nearest(key, index, index)
    if cached:
        return cached[1]
    base = (
        Step.objects.filter(trajectory=trajectory, index__lte=index, snapshot__isnull=False)
        .order_by("-index")
        .values_list("index", "snapshot_id", "snapshot__size")
        .first()
    )
    if base is None or index >= trajectory.step_count:
        raise InputError(f"The run has no stored state at step {index}.")
    start, digest, size = base
    cached = CACHE.nearest(key, start, index)
    if cached:
        start, state, _ = cached
    else:
        state = load_state(digest or "")
        CACHE.keep(key, start, state, size or 0)
    if start == index:
        return state
    rows = Step.objects.filter(trajectory=trajectory, index__gt=start, index__lte=index, change_count__gt=0)
    for patch in rows.order_by("index").values_list("patch", flat=True):
        state = apply_patch(state, patch)
    CACHE.keep(key, index, state, (size or 0) // SHARE)
    return state


def load_states_around(trajectory: Trajectory, step: Step) -> tuple[State, State, Patch]:
    """Return the states before and after a step and the patch between; a patch too long to store is computed again."""
    after = load_state_after(trajectory, step.index)
    if not step.change_count or step.index == 0:
        return after, after, []
    before = load_state_after(trajectory, step.index - 1)
    patch = step.patch or make_patch(before, after)
    return before, after, patch

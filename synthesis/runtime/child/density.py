"""Memory layout that keeps children from writing to shared pages.

Python's allocator hands out the holes in used memory before it takes new memory, so each new object of a child would be
placed on some old page and cost it a copy of 4 KiB. Filling the holes once, in the zygote, makes children put their
objects side by side on pages of their own: about half a megabyte less in each.
"""

from __future__ import annotations

_POOL = 16 * 1024
_STEP = 16
_LARGEST = 512
_BYTES_OVERHEAD = 33
_MOST_PER_SIZE = 60_000
_TOUCHED_LARGEST, _TOUCHED_EACH, _TOUCHED_TUPLES = 128, 24, 5


_kept: list[object] = []
_touched: list[object] = []
"""Alive for ever: in a child, letting go of either would write to all that is shared."""


def fill_holes() -> None:
    """Allocate blocks of each size until whole fresh pools come."""
    kept = _kept
    for size in range(_STEP, _LARGEST + 1, _STEP):
        run, before = 0, 0
        for _ in range(_MOST_PER_SIZE):
            block = _allocate_block(size)
            kept.append(block)
            run = run + 1 if id(block) - before == size else 0
            before = id(block)
            # Only an unused pool hands out its blocks in order.
            if run >= _POOL // size - 4:
                break
    # The C library allocates larger blocks. One above this address came from the end of its memory, not from a hole.
    end = bytes(100_000)
    for size in range(8_192, _LARGEST, -64):
        for _ in range(60):
            kept.append(bytes(size))
            if id(kept[-1]) > id(end):
                break


def keep_alive(value: object) -> None:
    """Keep a value alive for ever."""
    _touched.append(value)


def fill_touched_holes() -> None:
    """Fill, in a child, the few holes that the zygote's service leaves, so that later objects have the same addresses
    in every child."""
    for size in range(_STEP, _TOUCHED_LARGEST + 1, _STEP):
        _touched.extend([_allocate_block(size) for _ in range(_TOUCHED_EACH)])
    for length in range(1, _TOUCHED_TUPLES):
        _touched.extend([tuple([None] * length) for _ in range(_TOUCHED_EACH)])


def _allocate_block(size: int) -> object:
    if size == 16:
        return object()
    if size == 32:
        return float(size)
    return bytes(size - _BYTES_OVERHEAD)

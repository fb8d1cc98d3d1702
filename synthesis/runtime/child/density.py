"""Keeps children from writing to pages they could go on sharing.

Python's allocator hands out the holes in memory that is in use before it takes new memory, so each new object of
a child would land on some old page and cost it a copy of 4 KiB. Filling the holes once, in the zygote, makes
children put their objects side by side on pages of their own: about half a megabyte less in each.
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
            block = _block(size)
            kept.append(block)
            run = run + 1 if id(block) - before == size else 0
            before = id(block)
            # Only a pool nothing has been in hands out its blocks in order.
            if run >= _POOL // size - 4:
                break
    # Larger blocks are the C library's. One that lies above this came from the end of its memory, not from a hole.
    end = bytes(100_000)
    for size in range(8_192, _LARGEST, -64):
        for _ in range(60):
            kept.append(bytes(size))
            if id(kept[-1]) > id(end):
                break


def keep(value: object) -> None:
    """Let a value live for ever."""
    _touched.append(value)


def take_touched() -> None:
    """In a child: take the few places that the zygote's service leaves free, in whatever order, so that the objects
    made from here on lie at the same addresses in every child."""
    for size in range(_STEP, _TOUCHED_LARGEST + 1, _STEP):
        _touched.extend([_block(size) for _ in range(_TOUCHED_EACH)])
    for length in range(1, _TOUCHED_TUPLES):
        _touched.extend([tuple([None] * length) for _ in range(_TOUCHED_EACH)])


def _block(size: int) -> object:
    if size == 16:
        return object()
    if size == 32:
        return float(size)
    return bytes(size - _BYTES_OVERHEAD)

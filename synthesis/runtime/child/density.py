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


def fill_holes() -> list[object]:
    """Allocate blocks of each size until whole fresh pools come; keep what is returned alive for ever."""
    kept: list[object] = []
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
    return kept


def _block(size: int) -> object:
    if size == 16:
        return object()
    if size == 32:
        return float(size)
    return bytes(size - _BYTES_OVERHEAD)

"""Keeps children from writing to pages they could go on sharing, and makes the shared ones cheap to share.

Python's allocator hands out the holes in memory that is in use before it takes new memory, so each new object of
a child would land on some old page and cost it a copy of 4 KiB. Filling the holes once, in the zygote, makes
children put their objects side by side on pages of their own: about half a megabyte less in each.
"""

from __future__ import annotations

import ctypes
import sys

_POOL = 16 * 1024
_STEP = 16
_LARGEST = 512
_BYTES_OVERHEAD = 33
_MOST_PER_SIZE = 60_000
_LARGE = 2 << 20
_MADV_COLLAPSE = 25


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


def use_large_pages() -> None:
    """Put the memory that children share into large pages, where the kernel can (Linux 6.1 on).

    A fork and an end of a process cost by the page: one of 2 MiB costs them little more than one of 4 KiB. What a child
    writes to is still copied by 4 KiB. Called while there is a /proc.
    """
    if not sys.platform.startswith("linux"):
        return
    advise = ctypes.CDLL(None).madvise
    with open("/proc/self/maps") as table:
        parts = [line.split() for line in table]
    for place, rights, *_, name in (part if len(part) > 5 else [*part, ""] for part in parts):
        if rights == "rw-p" and name in ("", "[heap]"):
            start, end = (int(number, 16) for number in place.split("-"))
            start, end = -(-start // _LARGE) * _LARGE, end // _LARGE * _LARGE
            if start < end:
                # Where it is refused, all works as before.
                advise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), _MADV_COLLAPSE)

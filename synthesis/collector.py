"""The garbage collector while a process loads what it keeps, and while many attempts are under way."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

RARELY = (50_000, 20, 100)
"""Thresholds of the three generations; Python's own are 700, 10 and 10."""
_lock = threading.Lock()
_blocks = 0
"""Blocks of `collect_rarely` that are under way."""
_before = gc.get_threshold()
"""The thresholds that were set before the first of them."""


@contextmanager
def not_collected() -> Iterator[None]:
    """For the block, what it loads is not looked through for garbage, nor later: a million objects that stay.

    Loading the site takes a quarter less of the processor so, loading what trains a fifth.
    """
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was:
            gc.enable()


@contextmanager
def collect_rarely() -> Iterator[None]:
    """Look for garbage rarely during the block, which may overlap with others.

    Each search stops everything else. With 64 attempts at once they took 6 % of the time; almost nothing that
    attempts leave behind needs a search to be freed.
    """
    global _blocks, _before
    with _lock:
        if not _blocks:
            _before = gc.get_threshold()
            gc.set_threshold(*RARELY)
        _blocks += 1
    try:
        yield
    finally:
        with _lock:
            _blocks -= 1
            if not _blocks:
                gc.set_threshold(*_before)

"""The garbage collector while a process loads what it keeps."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


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

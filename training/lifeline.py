"""Lifeline between a trainer and its worker: a lock that the worker holds as long as it lives. No torch.

The kernel frees a lock when the process that holds it is gone, however many processes are between the two.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

ALIVE = "ENVARIUM_ALIVE"
"""The environment variable with the lock's path; without it a trainer has no owner and goes on."""
LOOK_S = 0.5


def hold_lock(path: Path) -> int:
    """Take the lock; it is held until the descriptor is closed, or this process is gone."""
    held = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(held, fcntl.LOCK_EX)
    return held


def end_with_holder(path: str, end: Callable[[int], None] = os._exit) -> None:
    """End this process as soon as no process holds the lock; a thread polls it."""
    threading.Thread(target=_watch_lock, args=(path, end), name="lifeline", daemon=True).start()


def _watch_lock(path: str, end: Callable[[int], None]) -> None:
    while _is_lock_held(path):
        time.sleep(LOOK_S)
    end(1)


def _is_lock_held(path: str) -> bool:
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(file)
    return False

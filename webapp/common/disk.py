"""The disk that this installation writes to: whether there is room, and which errors mean that there is none."""

from __future__ import annotations

import errno
import os
import tempfile
import time
from dataclasses import dataclass

from django.conf import settings
from psycopg.errors import DiskFull

from webapp.common.errors import iter_error_origins

LOOK_SECONDS = 1.0
MIB = 1 << 20
FULL = "The disk of this installation is full, so nothing was saved. Try again when there is room."
NO_ROOM = (
    "The disk of this installation has no room for this: a reserve (ENVARIUM_DISK_RESERVE_MIB) is kept for the "
    "database. Nothing was taken; try again once there is room."
)
_NUMBERS = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True)
class Disk:
    """Bytes that are free, and that are kept free: with less no job begins and no file is taken."""

    free: int
    reserve: int

    @property
    def is_short(self) -> bool:
        return self.free < self.reserve

    @property
    def sentence(self) -> str:
        """For people; the same on pages, in `/healthz` and in answers."""
        return (
            f"The disk is almost full: {self.free // MIB:,} MiB are free, and {self.reserve // MIB:,} MiB are kept for "
            "the database. What is here is safe; no job begins and no file is taken until there is room. Then work "
            "continues automatically."
        )


_seen: tuple[float, Disk] | None = None


def get_disk() -> Disk:
    """Return the disk of this installation's home, checked once a second."""
    global _seen
    now = time.monotonic()
    if _seen is None or now - _seen[0] > LOOK_SECONDS or _seen[1].reserve != settings.DISK_RESERVE_MIB * MIB:
        _seen = now, Disk(count_free_bytes(settings.ENVARIUM_HOME), settings.DISK_RESERVE_MIB * MIB)
    return _seen[1]


def has_room(size: int) -> bool:
    """Return whether the disks that an upload passes through keep their reserve with so many bytes more."""
    left = min(count_free_bytes(place) for place in (tempfile.gettempdir(), settings.ENVARIUM_HOME))
    return left - size >= settings.DISK_RESERVE_MIB * MIB


def count_free_bytes(folder: str | os.PathLike[str]) -> int:
    """Return the bytes that an ordinary account may still write there; a folder that does not exist yet has room."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return 1 << 62
    return found.f_bavail * found.f_frsize


def is_disk_full(error: BaseException | None) -> bool:
    """Return whether an error, or one of its causes, means that a disk is full: ours, or the database's."""
    return any(
        isinstance(origin, DiskFull) or (isinstance(origin, OSError) and origin.errno in _NUMBERS)
        for origin in iter_error_origins(error)
    )

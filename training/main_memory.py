"""Main memory that a process may use: the computer's, or the limit of its control group. No torch."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

MEMBERSHIP, MOUNT = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")


def read_main_memory(membership: Path = MEMBERSHIP, mount: Path = MOUNT) -> int:
    """Return the bytes of main memory that this process may use; 0 if the system does not report it."""
    sizes = [_read_physical_memory(), *_read_group_limits(membership, mount)]
    return min((size for size in sizes if size > 0), default=0)


def _read_physical_memory() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0


def _read_group_limits(membership: Path, mount: Path) -> Iterator[int]:
    """Yield the limits of this process's control group and those around it, of both versions. In a container the
    group's path may be the host's, while the mount begins at the group: missing folders are skipped.
    """
    try:
        lines = membership.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, _, remainder = line.partition(":")
        controllers, _, path = remainder.partition(":")
        if controllers and "memory" not in controllers.split(","):
            continue
        root = mount / "memory" if controllers else mount
        name = "memory.limit_in_bytes" if controllers else "memory.max"
        group = root / path.strip("/")
        for folder in [group, *group.parents]:
            if not folder.is_relative_to(root):
                break
            yield _read_number(folder / name)


def _read_number(file: Path) -> int:
    try:
        return int(file.read_text())
    except (OSError, ValueError):  # "max", or no such file
        return 0

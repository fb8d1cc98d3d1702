"""The memory limit of a job's process: set where it is forked, and loosened a little to say that it was met."""

from __future__ import annotations

import contextlib
import gc
import resource
import traceback

from django.conf import settings

from webapp.errors import origins

MIB = 1 << 20
SPARE_MIB = 256
"""To write how the job ended, once it has met its limit."""


def limit_mib() -> int:
    """What a job may have; 0 is no limit."""
    return int(settings.JOB_MEMORY_MIB)


def begin() -> None:
    """Bound what this process, and each that it starts, may hold for itself. Threads' stacks count, files do not."""
    if mib := limit_mib():
        with contextlib.suppress(OSError, ValueError):  # it may be lower already
            resource.setrlimit(resource.RLIMIT_DATA, (mib * MIB, (mib + SPARE_MIB) * MIB))


def was_met(error: BaseException) -> bool:
    """Whether an error, or one that it came of, says that memory ran out, not that a program is too complex."""
    return any(isinstance(origin, MemoryError) and "too complex" not in str(origin) for origin in origins(error))


def words(error: BaseException) -> str:
    """Why the job failed and what to do, once what it held is let go."""
    for origin in origins(error):
        traceback.clear_frames(origin.__traceback__)
    with contextlib.suppress(OSError, ValueError):
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))
    gc.collect()
    if mib := limit_mib():
        return (
            f"It needed more memory than a job may have here: {mib:,} MiB (ENVARIUM_JOB_MEMORY_MIB). "
            "Split what it works on, or raise the limit and start the workers again."
        )
    return "The machine had no more memory for it."

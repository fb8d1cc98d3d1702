"""Memory limit of a job's process: set as it is forked, and raised a little to report that it was reached."""

from __future__ import annotations

import contextlib
import gc
import resource
import traceback

from django.conf import settings

from webapp.common.errors import iter_error_origins

MIB = 1 << 20
SPARE_MIB = 256
"""To write how the job ended, once it has met its limit."""


def get_limit_mib() -> int:
    """Return the memory limit of a job in MiB; 0 is no limit."""
    return int(settings.JOB_MEMORY_MIB)


def set_memory_limit() -> None:
    """Limit the private memory of this process and of each that it starts. Threads' stacks count, files do not."""
    if mib := get_limit_mib():
        with contextlib.suppress(OSError, ValueError):  # it may be lower already
            resource.setrlimit(resource.RLIMIT_DATA, (mib * MIB, (mib + SPARE_MIB) * MIB))


def is_memory_error(error: BaseException) -> bool:
    """Return whether an error, or one of its origins, says that memory ran out, not that a program is too complex."""
    return any(
        isinstance(origin, MemoryError) and "too complex" not in str(origin) for origin in iter_error_origins(error)
    )


def format_memory_error(error: BaseException) -> str:
    """Explain why the job failed and what to do, after freeing the memory that the error held."""
    for origin in iter_error_origins(error):
        traceback.clear_frames(origin.__traceback__)
    with contextlib.suppress(OSError, ValueError):
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))
    gc.collect()
    if mib := get_limit_mib():
        return (
            f"It needed more memory than a job may have here: {mib:,} MiB (ENVARIUM_JOB_MEMORY_MIB). "
            "Split what it works on, or raise the limit and start the workers again."
        )
    return "The machine had no more memory for it."

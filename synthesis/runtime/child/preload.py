"""The modules that programs may import: loaded before the file system goes away, and the import allow-list."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import time

ALLOWED_MODULES: tuple[str, ...] = (
    "abc",
    "array",
    "ast",
    "base64",
    "binascii",
    "bisect",
    "calendar",
    "cmath",
    "collections",
    "collections.abc",
    "contextlib",
    "copy",
    "csv",
    "dataclasses",
    "datetime",
    "decimal",
    "difflib",
    "enum",
    "fnmatch",
    "fractions",
    "functools",
    "graphlib",
    "hashlib",
    "heapq",
    "hmac",
    "html",
    "html.parser",
    "inspect",
    "io",
    "itertools",
    "json",
    "keyword",
    "locale",
    "logging",
    "math",
    "numbers",
    "operator",
    "os",
    "os.path",
    "pathlib",
    "pickle",
    "pprint",
    "queue",
    "random",
    "re",
    "secrets",
    "shlex",
    "statistics",
    "string",
    "struct",
    "sys",
    "textwrap",
    "threading",
    "time",
    "traceback",
    "types",
    "typing",
    "unicodedata",
    "urllib.parse",
    "uuid",
    "warnings",
    "weakref",
    "zlib",
    "zoneinfo",
    "__future__",
)
_BESIDE = (
    "_strptime",
    "encodings.ascii",
    "encodings.hex_codec",
    "encodings.idna",
    "encodings.latin_1",
    "encodings.raw_unicode_escape",
    "encodings.unicode_escape",
    "encodings.utf_16",
    "encodings.utf_8_sig",
    "linecache",
    "tokenize",
)
"""Imported by the standard library itself, late, when a program uses one of the above."""
INTERNAL = frozenset(("builtins", "codecs", "copyreg", "encodings", "importlib", "linecache", "tokenize"))
ZONES = (
    "UTC",
    "America/New_York",
    "America/Chicago",
    "America/Denver",
    "America/Los_Angeles",
    "America/Toronto",
    "America/Sao_Paulo",
    "America/Mexico_City",
    "Europe/London",
    "Europe/Paris",
    "Europe/Berlin",
    "Europe/Madrid",
    "Europe/Rome",
    "Europe/Amsterdam",
    "Europe/Moscow",
    "Africa/Cairo",
    "Africa/Johannesburg",
    "Africa/Lagos",
    "Asia/Dubai",
    "Asia/Kolkata",
    "Asia/Shanghai",
    "Asia/Singapore",
    "Asia/Hong_Kong",
    "Asia/Tokyo",
    "Asia/Seoul",
    "Australia/Sydney",
    "Pacific/Auckland",
)
_kept: list[object] = []
_CLOCK_STEP = 20_000_000
"""Nanoseconds by which a file's time, and that of a process, may be behind."""


def import_allowed_modules() -> None:
    """Import all that programs may import."""
    for name in (*ALLOWED_MODULES, *_BESIDE):
        importlib.import_module(name)
    import zoneinfo

    for zone in ZONES:
        # Time zone data may be absent; a program that asks for it then gets the library's own error.
        with contextlib.suppress(Exception):
            _kept.append(zoneinfo.ZoneInfo(zone))


def has_new_bytecode() -> bool:
    """Return whether bytecode of a loaded module was written since this process began.

    The memory layout of a zygote that compiles a module differs from that of one that reads its bytecode, so that their
    children could be distinguished. If bytecode cannot be written, all zygotes are alike.
    """
    if sys.dont_write_bytecode or not sys.platform.startswith("linux"):
        return False
    began = time.time_ns() - _compute_process_age() - _CLOCK_STEP
    cached = (getattr(module, "__cached__", None) for module in list(sys.modules.values()))
    # All of them are checked, whatever the first shows, so that every zygote does the same work.
    return max(_get_time_written(path) if path else 0 for path in cached) >= began


def _compute_process_age() -> int:
    """Compute the nanoseconds since the kernel started this process, modules imported before this one included."""
    with open("/proc/self/stat", "rb") as status:
        # The 22nd field, in ticks since the machine started; the second is a name that may hold spaces.
        ticks = int(status.read().rpartition(b")")[2].split()[19])
    started = ticks * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) - started


def _get_time_written(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


def close_imports() -> None:
    """Leave only built-in and frozen modules to import: there is no file system to search, and the host's folders must
    not be known."""
    sys.dont_write_bytecode, sys.pycache_prefix = True, None
    sys._xoptions.clear()
    sys.orig_argv.clear()
    sys.path.clear()
    sys.path_importer_cache.clear()
    sys.path_hooks.clear()
    sys.meta_path[:] = [finder for finder in sys.meta_path if getattr(finder, "__name__", "") != "PathFinder"]

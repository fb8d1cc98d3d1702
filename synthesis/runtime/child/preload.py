"""The modules that programs may import: loaded before the file system goes away, and the import allow-list."""

from __future__ import annotations

import contextlib
import importlib
import sys

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


def load() -> tuple[str, ...]:
    """Import everything; returns the allow-list."""
    for name in (*ALLOWED_MODULES, *_BESIDE):
        importlib.import_module(name)
    import zoneinfo

    for zone in ZONES:
        # Time zone data may be absent; a program that asks for it then gets the library's own error.
        with contextlib.suppress(Exception):
            _kept.append(zoneinfo.ZoneInfo(zone))
    return ALLOWED_MODULES


def close_imports() -> None:
    """Leave only built-in and frozen modules to import: there is no file system to search, and no folder of the host's
    to know of."""
    sys.dont_write_bytecode, sys.pycache_prefix = True, None
    sys._xoptions.clear()
    sys.orig_argv.clear()
    sys.path.clear()
    sys.path_importer_cache.clear()
    sys.path_hooks.clear()
    sys.meta_path[:] = [finder for finder in sys.meta_path if getattr(finder, "__name__", "") != "PathFinder"]

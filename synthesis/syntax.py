"""Python source as syntax trees, read by one thread at a time.

Before 3.11.8 and 3.12.2 CPython counts the depth of the tree it builds for all threads together: two that parse at
once may meet a `SystemError` for source that is perfectly well. The sandbox's children have one thread each.
"""

from __future__ import annotations

import ast
import re
import symtable
import sys
import threading
from typing import Any

UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)
"""What `parse` and `literal` raise where the text is not what was asked for."""
_ONE_AT_A_TIME = threading.Lock()
_FORMATTED = re.compile(r"[fF][rR]?[\"']")
_SOUGHT = 10_000_000_000
"""Before 3.12 CPython looks for each field of an f-string through all of its text, in one call that nothing ends: so
many characters (four seconds) are looked through at most. That is 50,000 braces in 200,000 characters."""


def parse(source: str) -> ast.Module:
    """The tree of a module. Raises one of `UNREADABLE`."""
    _require_quick(source)
    with _ONE_AT_A_TIME:
        return ast.parse(source)


def expression(source: str) -> ast.Expression:
    """The tree of one expression. Raises one of `UNREADABLE`."""
    _require_quick(source)
    with _ONE_AT_A_TIME:
        return ast.parse(source, mode="eval")


def scopes(source: str) -> symtable.SymbolTable:
    """Which names each scope of a module binds and reads; nothing is executed. Raises one of `UNREADABLE`."""
    _require_quick(source)
    with _ONE_AT_A_TIME:
        return symtable.symtable(source, "<program>", "exec")


def literal(text: str) -> Any:
    """The value that a literal writes down; nothing is executed. Raises one of `UNREADABLE`, or TypeError."""
    return ast.literal_eval(expression(text.lstrip(" \t")))


def _require_quick(source: str) -> None:
    if sys.version_info < (3, 12) and source.count("{") * len(source) > _SOUGHT and _FORMATTED.search(source):
        raise ValueError("it has too many braces for its length, beside f-strings: they would take minutes to read")

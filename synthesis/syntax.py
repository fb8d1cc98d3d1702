"""Python source as syntax trees, read by one thread at a time.

Before 3.11.8 and 3.12.2 CPython counts the depth of the tree it builds for all threads together: two that parse at
once may meet a `SystemError` for source that is perfectly well. The sandbox's children have one thread each.
"""

from __future__ import annotations

import ast
import symtable
import threading
from typing import Any

UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)
"""What `parse` and `literal` raise where the text is not what was asked for."""
_ONE_AT_A_TIME = threading.Lock()


def parse(source: str) -> ast.Module:
    """The tree of a module. Raises one of `UNREADABLE`."""
    with _ONE_AT_A_TIME:
        return ast.parse(source)


def expression(source: str) -> ast.Expression:
    """The tree of one expression. Raises one of `UNREADABLE`."""
    with _ONE_AT_A_TIME:
        return ast.parse(source, mode="eval")


def scopes(source: str) -> symtable.SymbolTable:
    """Which names each scope of a module binds and reads; nothing is executed. Raises one of `UNREADABLE`."""
    with _ONE_AT_A_TIME:
        return symtable.symtable(source, "<program>", "exec")


def literal(text: str) -> Any:
    """The value that a literal writes down; nothing is executed. Raises one of `UNREADABLE`, or TypeError."""
    return ast.literal_eval(expression(text.lstrip(" \t")))

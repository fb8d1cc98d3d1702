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
from collections import Counter
from collections.abc import Mapping
from types import CodeType
from typing import Any

UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)
"""What `parse` and `literal` raise where the text is not what was asked for."""
_ONE_AT_A_TIME = threading.Lock()
_TOKEN = re.compile(r"\w+|[^\w\s]")
_FORMATTED = re.compile(r"[fF][rR]?[\"']")
_SOUGHT = 10_000_000_000
"""Before 3.12 CPython looks for each field of an f-string through all of its text, in one call that nothing ends: so
many characters (four seconds) are looked through at most. That is 50,000 braces in 200,000 characters."""
MOST_BITS = 3_321
"""Of a whole number in a literal: a thousand digits, as everywhere else."""
MOST_ALIKE = 200
"""So many members of a set, or keys of a mapping, may have one hash: each is compared with all of them."""


def parse(source: str) -> ast.Module:
    """The tree of a module. Raises one of `UNREADABLE`."""
    _require_quick(source)
    with _ONE_AT_A_TIME:
        return ast.parse(source)


def compile_tree(tree: ast.Module, name: str) -> CodeType:
    """The code of a module; nothing is executed. Raises one of `UNREADABLE`."""
    with _ONE_AT_A_TIME:
        return compile(tree, name, "exec", dont_inherit=True)


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
    tree = expression(text.lstrip(" \t"))
    _require_quick_value(tree)
    return ast.literal_eval(tree)


def token_count(source: str) -> int:
    """At least as many as there are tokens, words of texts and comments included: what a tree takes grows with them."""
    return sum(1 for _ in _TOKEN.finditer(source))


def lineage(name: str, classes: Mapping[str, ast.ClassDef]) -> list[ast.ClassDef]:
    """A class behind those of the same module that it inherits from, the farthest first; none where it is not there.

    Each is walked once: bases that stand twice, forty levels high, have no end otherwise.
    """
    line: list[ast.ClassDef] = []
    met: set[str] = set()
    waiting = [(name, False)]
    while waiting:
        current, done = waiting.pop()
        if done:
            line.append(classes[current])
        elif current in classes and current not in met:
            met.add(current)
            waiting.append((current, True))
            waiting += [(base.id, False) for base in classes[current].bases if isinstance(base, ast.Name)]
    return line


def _require_quick(source: str) -> None:
    if sys.version_info < (3, 12) and source.count("{") * len(source) > _SOUGHT and _FORMATTED.search(source):
        raise ValueError("it has too many braces for its length, beside f-strings: they would take minutes to read")


def _require_quick_value(tree: ast.Expression) -> None:
    """Raise ValueError where a value would take longer to be built, or spelled, than its text is long."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and type(node.value) is int and node.value.bit_length() > MOST_BITS:
            raise ValueError("it holds a whole number of more than 1,000 digits")
        keys = node.elts if isinstance(node, ast.Set) else node.keys if isinstance(node, ast.Dict) else ()
        if len(keys) > MOST_ALIKE:
            hashes = Counter(hash(ast.literal_eval(key)) for key in keys if key is not None)
            if max(hashes.values(), default=0) > MOST_ALIKE:
                raise ValueError(f"more than {MOST_ALIKE} members of a set, or keys of a mapping, have one hash")

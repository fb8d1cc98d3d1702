"""Python source as syntax trees, parsed by one thread at a time.

Before 3.11.8 and 3.12.2 CPython counts the depth of the tree it builds for all threads together: two concurrent parses
may raise a `SystemError` for valid source. The sandbox's children have one thread each.
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
"""What `parse` and `literal` raise if the text is not what was asked for."""
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


def parse_module(source: str) -> ast.Module:
    """Return the tree of a module. Raises one of `UNREADABLE`."""
    _require_quick_parse(source)
    with _ONE_AT_A_TIME:
        return ast.parse(source)


def compile_tree(tree: ast.Module, name: str) -> CodeType:
    """Return the code of a module; nothing is executed. Raises one of `UNREADABLE`."""
    with _ONE_AT_A_TIME:
        return compile(tree, name, "exec", dont_inherit=True)


def parse_expression(source: str) -> ast.Expression:
    """Return the tree of one expression. Raises one of `UNREADABLE`."""
    _require_quick_parse(source)
    with _ONE_AT_A_TIME:
        return ast.parse(source, mode="eval")


def build_scopes(source: str) -> symtable.SymbolTable:
    """Return the names that each scope of a module binds and reads; nothing is executed. Raises one of `UNREADABLE`."""
    _require_quick_parse(source)
    with _ONE_AT_A_TIME:
        return symtable.symtable(source, "<program>", "exec")


def read_literal(text: str) -> Any:
    """Return the value of a literal; nothing is executed. Raises one of `UNREADABLE`, or TypeError."""
    tree = parse_expression(text.lstrip(" \t"))
    _require_quick_value(tree)
    return ast.literal_eval(tree)


def count_tokens(source: str) -> int:
    """Return an upper bound of the number of tokens, words of texts and comments included: a tree's size grows with
    it.
    """
    return sum(1 for _ in _TOKEN.finditer(source))


def list_lineage(name: str, classes: Mapping[str, ast.ClassDef]) -> list[ast.ClassDef]:
    """Return a class after those of the same module that it inherits from, the farthest first; none if it does not
    exist.

    Each is visited once: repeated bases, forty levels deep, would take exponential time.
    """
    line: list[ast.ClassDef] = []
    met_names: set[str] = set()
    waiting_names = [(name, False)]
    while waiting_names:
        current, is_done = waiting_names.pop()
        if is_done:
            line.append(classes[current])
        elif current in classes and current not in met_names:
            met_names.add(current)
            waiting_names.append((current, True))
            waiting_names += [(base.id, False) for base in classes[current].bases if isinstance(base, ast.Name)]
    return line


def _require_quick_parse(source: str) -> None:
    if sys.version_info < (3, 12) and source.count("{") * len(source) > _SOUGHT and _FORMATTED.search(source):
        raise ValueError("it has too many braces for its length, beside f-strings: they would take minutes to read")


def _require_quick_value(tree: ast.Expression) -> None:
    """Raise ValueError if a value would take disproportionate time to build, or to spell, for the length of its
    text.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and type(node.value) is int and node.value.bit_length() > MOST_BITS:
            raise ValueError("it holds a whole number of more than 1,000 digits")
        keys = node.elts if isinstance(node, ast.Set) else node.keys if isinstance(node, ast.Dict) else ()
        if len(keys) > MOST_ALIKE:
            hashes = Counter(hash(ast.literal_eval(key)) for key in keys if key is not None)
            if max(hashes.values(), default=0) > MOST_ALIKE:
                raise ValueError(f"more than {MOST_ALIKE} members of a set, or keys of a mapping, have one hash")

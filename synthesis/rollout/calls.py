"""Calls written as text: `[move(id="A", to=3), close(id="A")]`, read with `ast` and never executed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from itertools import islice
from typing import Any

from synthesis.contracts import ToolCall
from synthesis.errors import FormatError
from synthesis.json_reader import require_usable
from synthesis.syntax import UNREADABLE, parse

LONGEST = 50_000
MOST_FENCES = 50
MOST_CALLS = 128
"""Of one turn, as of a native one; what an LLM repeats beyond them without end is not kept."""
_FENCE = re.compile(r"```[\w-]*\n(.*?)```", re.DOTALL)
_WORDS = {"true": True, "false": False, "null": None}


def read_calls(text: str, names: Iterable[str]) -> tuple[tuple[ToolCall, ...], str]:
    """(calls, the words before them) of a text. What begins like a call of a tool in `names` but cannot be read is a
    call with an error; a text without any is words alone."""
    known = set(names)
    for words, block in _candidates(text.strip(), known):
        nodes = _nodes(block)
        if nodes is not None and (not words or any(_name(node) in known for node in nodes)):
            return tuple(_call(node, block) for node in nodes[:MOST_CALLS]), words
    start = _start(text, known)
    if start is None:
        return (), text.strip()
    broken = text[start:].strip()
    name = re.match(r"[\[\s]*([\w.]+)", broken)
    error = 'the calls cannot be read; write [tool(argument="value")] with every argument named and every value literal'
    return (ToolCall(name=name[1] if name else "", raw=broken[:LONGEST], error=error),), text[:start].strip()


def _candidates(text: str, known: set[str]) -> list[tuple[str, str]]:
    """(words before, text that may be calls), the likeliest first."""
    candidates = [("", text)]
    fences = islice(_FENCE.finditer(text), MOST_FENCES)
    candidates += [(text[: match.start()].strip(), match[1].strip()) for match in fences]
    start = _start(text, known)
    if start is not None:
        candidates.append((text[:start].strip(), text[start:].strip()))
    return candidates


def _start(text: str, known: set[str]) -> int | None:
    """Where a line begins with a call of a known tool."""
    for match in re.finditer(r"^[ \t]*(?:\[\s*)?([\w.]+)[ \t]*\(", text, re.MULTILINE):
        if match[1] in known:
            return match.start()
    return None


def _nodes(block: str) -> list[ast.Call] | None:
    """The calls that a text consists of, or None when it is anything else."""
    if not block or len(block) > LONGEST:
        return None
    try:
        tree = parse(block)
    except UNREADABLE:
        return None
    nodes: list[ast.Call] = []
    for statement in tree.body:
        value = statement.value if isinstance(statement, ast.Expr) else None
        items = value.elts if isinstance(value, ast.List | ast.Tuple) else [value]
        for item in items:
            if not isinstance(item, ast.Call) or not _name(item):
                return None
            nodes.append(item)
    return nodes or None


def _name(node: ast.Call) -> str:
    parts: list[str] = []
    inner: ast.expr = node.func
    while isinstance(inner, ast.Attribute):
        parts.append(inner.attr)
        inner = inner.value
    return ".".join([inner.id, *reversed(parts)]) if isinstance(inner, ast.Name) else ""


def _call(node: ast.Call, block: str) -> ToolCall:
    raw = (ast.get_source_segment(block, node) or "")[:LONGEST]
    arguments: dict[str, Any] = {}
    error = "every argument must be named" if node.args else ""
    for keyword in node.keywords:
        if keyword.arg is None:
            error = error or "** cannot be used in a call"
            continue
        try:
            value = _literal(keyword.value)
            require_usable(value, keyword.arg)
        except (ValueError, RecursionError, FormatError) as problem:
            error = error or f"the argument {keyword.arg} cannot be used: {problem}"[:300]
        else:
            arguments[keyword.arg] = value
    return ToolCall(name=_name(node), arguments={} if error else arguments, raw=raw, error=error)


def _literal(node: ast.expr) -> Any:
    """A JSON value. Raises ValueError for anything that is computed, and for what JSON does not have."""
    if isinstance(node, ast.Constant):
        if node.value is None or isinstance(node.value, str | bool | int):
            return node.value
        if isinstance(node.value, float) and abs(node.value) < float("inf"):
            return node.value
    elif isinstance(node, ast.Name) and node.id in _WORDS:
        return _WORDS[node.id]
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        value = _literal(node.operand)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return -value if isinstance(node.op, ast.USub) else value
    elif isinstance(node, ast.List | ast.Tuple):
        return [_literal(item) for item in node.elts]
    elif isinstance(node, ast.Dict):
        keys = [_literal(key) if key is not None else None for key in node.keys]
        if all(isinstance(key, str) for key in keys):
            return {key: _literal(value) for key, value in zip(keys, node.values, strict=True)}
    raise ValueError(f"line {node.lineno} holds something other than a plain value")

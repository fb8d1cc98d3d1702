"""Calls written as text: `[move(id="A", to=3), close(id="A")]`, parsed with `ast` and never executed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from itertools import islice
from typing import Any

from synthesis.contracts import ToolCall
from synthesis.errors import FormatError
from synthesis.json_reader import require_usable
from synthesis.syntax import UNREADABLE, parse_module

LONGEST = 50_000
MOST_FENCES = 50
MOST_CALLS = 128
"""Of one turn, as of a native one; what an LLM repeats beyond them without end is not kept."""
_FENCE = re.compile(r"```[\w-]*\n(.*?)```", re.DOTALL)
_WORDS = {"true": True, "false": False, "null": None}


def read_calls(text: str, names: Iterable[str]) -> tuple[tuple[ToolCall, ...], str]:
    """Return (calls, the words before them) of a text.

    Text that begins like a call of a tool in `names` but cannot be parsed is a call with an error; a text without any
    is words alone.
    """
    tool_names = set(names)
    for words, block in _list_candidates(text.strip(), tool_names):
        nodes = _parse_nodes(block)
        if nodes is not None and (not words or any(_get_name(node) in tool_names for node in nodes)):
            return tuple(_build_call(node, block) for node in nodes[:MOST_CALLS]), words
    start = _find_start(text, tool_names)
    if start is None:
        return (), text.strip()
    broken = text[start:].strip()
    name = re.match(r"[\[\s]*([\w.]+)", broken)
    error = 'the calls cannot be read; write [tool(argument="value")] with every argument named and every value literal'
    return (ToolCall(name=name[1] if name else "", raw=broken[:LONGEST], error=error),), text[:start].strip()


def _list_candidates(text: str, known: set[str]) -> list[tuple[str, str]]:
    """Return pairs (words before, text that may be calls), the likeliest first."""
    candidates = [("", text)]
    fences = islice(_FENCE.finditer(text), MOST_FENCES)
    candidates += [(text[: match.start()].strip(), match[1].strip()) for match in fences]
    start = _find_start(text, known)
    if start is not None:
        candidates.append((text[:start].strip(), text[start:].strip()))
    return candidates


def _find_start(text: str, known: set[str]) -> int | None:
    """Return the offset at which a line begins with a call of a known tool, or None."""
    for match in re.finditer(r"^[ \t]*(?:\[\s*)?([\w.]+)[ \t]*\(", text, re.MULTILINE):
        if match[1] in known:
            return match.start()
    return None


def _parse_nodes(block: str) -> list[ast.Call] | None:
    """Return the calls that a text consists of, or None if it is anything else."""
    if not block or len(block) > LONGEST:
        return None
    try:
        tree = parse_module(block)
    except UNREADABLE:
        return None
    nodes: list[ast.Call] = []
    for statement in tree.body:
        value = statement.value if isinstance(statement, ast.Expr) else None
        items = value.elts if isinstance(value, ast.List | ast.Tuple) else [value]
        for item in items:
            if not isinstance(item, ast.Call) or not _get_name(item):
                return None
            nodes.append(item)
    return nodes or None


def _get_name(node: ast.Call) -> str:
    parts: list[str] = []
    inner: ast.expr = node.func
    while isinstance(inner, ast.Attribute):
        parts.append(inner.attr)
        inner = inner.value
    return ".".join([inner.id, *reversed(parts)]) if isinstance(inner, ast.Name) else ""


def _build_call(node: ast.Call, block: str) -> ToolCall:
    raw = (ast.get_source_segment(block, node) or "")[:LONGEST]
    arguments: dict[str, Any] = {}
    error = "every argument must be named" if node.args else ""
    for keyword in node.keywords:
        if keyword.arg is None:
            error = error or "** cannot be used in a call"
            continue
        try:
            value = _read_literal(keyword.value)
            require_usable(value, keyword.arg)
        except (ValueError, RecursionError, FormatError) as problem:
            error = error or f"the argument {keyword.arg} cannot be used: {problem}"[:300]
        else:
            arguments[keyword.arg] = value
    return ToolCall(name=_get_name(node), arguments={} if error else arguments, raw=raw, error=error)


def _read_literal(node: ast.expr) -> Any:
    """Return a JSON value. Raise ValueError for anything that is computed, and for values that JSON does not have."""
    if isinstance(node, ast.Constant):
        if node.value is None or isinstance(node.value, str | bool | int):
            return node.value
        if isinstance(node.value, float) and abs(node.value) < float("inf"):
            return node.value
    elif isinstance(node, ast.Name) and node.id in _WORDS:
        return _WORDS[node.id]
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        value = _read_literal(node.operand)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return -value if isinstance(node.op, ast.USub) else value
    elif isinstance(node, ast.List | ast.Tuple):
        return [_read_literal(item) for item in node.elts]
    elif isinstance(node, ast.Dict):
        keys = [_read_literal(key) if key is not None else None for key in node.keys]
        if all(isinstance(key, str) for key in keys):
            return {key: _read_literal(value) for key, value in zip(keys, node.values, strict=True)}
    raise ValueError(f"line {node.lineno} holds something other than a plain value")

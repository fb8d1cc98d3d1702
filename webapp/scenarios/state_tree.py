"""State as a tree that is sent branch by branch: a large one is never sent whole."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

PAGE = 100
INLINE = 40
"""A branch with at most this many values travels with its parent; a larger one is fetched when it opens."""
TOGETHER = 400
"""Number of values in one answer, even if their branches would allow more."""
TEXT = 300
PREVIEW = 90
HITS = 100

TAGS = {
    "$set": "set",
    "$frozenset": "frozen set",
    "$tuple": "tuple",
    "$deque": "deque",
    "$dict": "dict with other keys",
}


@dataclass
class Node:
    """One value. `branch` is its children, None if they are fetched on opening or if it has none."""

    key: str
    pointer: str
    kind: str
    text: str = ""
    cut: int = 0
    size: int = 0
    preview: str = ""
    changed: bool = False
    touched: bool = False
    branch: Branch | None = None

    @property
    def is_container(self) -> bool:
        return self.kind in ("object", "list")

    @property
    def extent(self) -> str:
        """The size of a container in its brackets."""
        return f"[{self.size:,}]" if self.kind == "list" else f"{{{self.size:,}}}"


@dataclass
class Branch:
    """Some children of a container. `following` is the index of the next ones, 0 if these are the last."""

    pointer: str
    nodes: list[Node] = field(default_factory=list)
    total: int = 0
    start: int = 0
    following: int = 0


@dataclass(frozen=True)
class Hit:
    pointer: str
    parent: str
    text: str


def escape_token(key: Any) -> str:
    return str(key).replace("~", "~0").replace("/", "~1")


def split_pointer(pointer: str) -> list[str]:
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


def locate_value(state: Any, pointer: str) -> Any:
    """Return the value at a JSON pointer. Raises KeyError if it does not exist."""
    value = state
    for part in split_pointer(pointer):
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isascii() and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            raise KeyError(pointer)
    return value


def build_trail(pointer: str) -> list[tuple[str, str]]:
    """Return (key, pointer) of each step from the root, for a breadcrumb."""
    steps, at = [], ""
    for part in split_pointer(pointer):
        at += "/" + escape_token(part)
        steps.append((part, at))
    return steps


def name_kind(value: Any) -> str:
    if isinstance(value, dict):
        return "object"
    if isinstance(value, list):
        return "list"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    return "number" if isinstance(value, int | float) else "string"


def format_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def count_values(value: Any, most: int = INLINE + 1) -> int:
    """Count the values of a branch, up to `most`."""
    stack, count = [value], 0
    while stack and count < most:
        item = stack.pop()
        if isinstance(item, dict):
            count += len(item)
            stack.extend(item.values())
        elif isinstance(item, list):
            count += len(item)
            stack.extend(item)
    return count


def format_preview(value: Any) -> str:
    """Return the first few plain values of a container on one line."""
    if isinstance(value, dict):
        items = [(f"{key}: ", item) for key, item in list(value.items())[:8]]
    else:
        items = [("", item) for item in value[:8]]
    parts = [f"{key}{format_json(item)[:40]}" for key, item in items if not isinstance(item, dict | list)]
    if not parts and isinstance(value, dict):
        parts = [key.removesuffix(": ")[:40] for key, _ in items]
    line = ", ".join(parts)
    return line[:PREVIEW] + ("…" if len(line) > PREVIEW else "")


def _iterate_page(value: Any, start: int) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key in list(value)[start : start + PAGE]:
            yield str(key), value[key]
    else:
        for index in range(start, min(start + PAGE, len(value))):
            yield str(index), value[index]


class Budget:
    """Number of values that may still be sent inside closed branches."""

    def __init__(self, left: int = TOGETHER) -> None:
        self.left = left

    def takes(self, value: Any) -> bool:
        cost = count_values(value)
        if cost > INLINE or cost > self.left:
            return False
        self.left -= len(value)
        return True


def build_branch(
    value: Any,
    pointer: str = "",
    start: int = 0,
    changed: frozenset[str] = frozenset(),
    budget: Budget | None = None,
) -> Branch:
    """Return the children of a container from `start` on; nothing for a plain value."""
    if not isinstance(value, dict | list):
        return Branch(pointer)
    budget = budget or Budget()
    nodes = [
        _build_node(key, f"{pointer}/{escape_token(key)}", item, changed, budget)
        for key, item in _iterate_page(value, start)
    ]
    following = start + PAGE if start + PAGE < len(value) else 0
    return Branch(pointer, nodes, len(value), start, following)


def _build_node(key: str, pointer: str, value: Any, changed: frozenset[str], budget: Budget) -> Node:
    kind = name_kind(value)
    node = Node(key, pointer, kind)
    node.changed = pointer in changed
    if not node.is_container:
        text = format_json(value)
        node.text, node.cut = text[:TEXT], max(len(text) - TEXT, 0)
        return node
    node.size = len(value)
    node.preview = format_preview(value)
    node.touched = any(path.startswith(pointer + "/") for path in changed)
    tag = next(iter(value), "") if kind == "object" and len(value) == 1 else ""
    if tag in TAGS:
        node.preview = f"{TAGS[tag]} · {node.preview}"
    if budget.takes(value):
        node.branch = build_branch(value, pointer, 0, changed, budget)
    return node


def search_state(state: Any, wanted: str, most: int = HITS) -> tuple[list[Hit], bool]:
    """Return keys and plain values that contain a text, in the order of the state; True if there are more."""
    wanted = wanted.lower()
    hits: list[Hit] = []
    for trail, value in _iterate_matches(state, wanted):
        if len(hits) == most:
            return hits, True
        tokens = [escape_token(key) for key in trail]
        pointer = "".join(f"/{part}" for part in tokens)
        parent = "".join(f"/{part}" for part in tokens[:-1])
        plain = not isinstance(value, dict | list)
        hits.append(Hit(pointer, parent, format_json(value)[:TEXT] if plain else format_preview(value)))
    return hits, False


def _iterate_matches(state: Any, wanted: str) -> Iterator[tuple[list[Any], Any]]:
    """Yield (keys from the root, value) of each match."""
    trail: list[Any] = []
    stack = [_iterate_items(state)]
    while stack:
        for key, value in stack[-1]:
            inner = isinstance(value, dict | list)
            if wanted in str(key).lower() or (not inner and wanted in _format_searched(value)):
                yield [*trail, key], value
            if inner and value:
                trail.append(key)
                stack.append(_iterate_items(value))
                break
        else:
            stack.pop()
            if trail:
                trail.pop()


def _format_searched(value: Any) -> str:
    return value.lower() if isinstance(value, str) else format_json(value)


def _iterate_items(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, dict):
        return iter(value.items())
    return iter(enumerate(value if isinstance(value, list) else ()))

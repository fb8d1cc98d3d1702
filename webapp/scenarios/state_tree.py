"""A state as a tree that is sent branch by branch: a large one never goes out whole."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

PAGE = 100
INLINE = 40
"""A branch with at most this many values travels with its parent; a larger one is fetched when it opens."""
TOGETHER = 400
"""So many values travel with one answer, whatever their branches would allow."""
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
    """One value. `branch` is its children, None when they are fetched on opening or when it has none."""

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
    """Some children of a container. `following` is where the next ones start, 0 when these are the last."""

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


def token(key: Any) -> str:
    return str(key).replace("~", "~0").replace("/", "~1")


def parts_of(pointer: str) -> list[str]:
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


def locate(state: Any, pointer: str) -> Any:
    """The value at a JSON pointer. Raises KeyError where there is none."""
    value = state
    for part in parts_of(pointer):
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isascii() and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            raise KeyError(pointer)
    return value


def trail(pointer: str) -> list[tuple[str, str]]:
    """(key, pointer) of each step from the root, for a breadcrumb."""
    steps, at = [], ""
    for part in parts_of(pointer):
        at += "/" + token(part)
        steps.append((part, at))
    return steps


def kind_of(value: Any) -> str:
    if isinstance(value, dict):
        return "object"
    if isinstance(value, list):
        return "list"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    return "number" if isinstance(value, int | float) else "string"


def written(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def weight(value: Any, most: int = INLINE + 1) -> int:
    """How many values a branch holds, counted up to `most`."""
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


def preview(value: Any) -> str:
    """The first few plain values of a container on one line."""
    if isinstance(value, dict):
        items = [(f"{key}: ", item) for key, item in list(value.items())[:8]]
    else:
        items = [("", item) for item in value[:8]]
    parts = [f"{key}{written(item)[:40]}" for key, item in items if not isinstance(item, dict | list)]
    if not parts and isinstance(value, dict):
        parts = [key.removesuffix(": ")[:40] for key, _ in items]
    line = ", ".join(parts)
    return line[:PREVIEW] + ("…" if len(line) > PREVIEW else "")


def _pairs(value: Any, start: int) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key in list(value)[start : start + PAGE]:
            yield str(key), value[key]
    else:
        for index in range(start, min(start + PAGE, len(value))):
            yield str(index), value[index]


class Budget:
    """What is left of the values that may travel inside closed branches."""

    def __init__(self, left: int = TOGETHER) -> None:
        self.left = left

    def takes(self, value: Any) -> bool:
        cost = weight(value)
        if cost > INLINE or cost > self.left:
            return False
        self.left -= len(value)
        return True


def branch(
    value: Any,
    pointer: str = "",
    start: int = 0,
    changed: frozenset[str] = frozenset(),
    budget: Budget | None = None,
) -> Branch:
    """The children of a container from `start` on; nothing for a plain value."""
    if not isinstance(value, dict | list):
        return Branch(pointer)
    budget = budget or Budget()
    nodes = [_node(key, f"{pointer}/{token(key)}", item, changed, budget) for key, item in _pairs(value, start)]
    following = start + PAGE if start + PAGE < len(value) else 0
    return Branch(pointer, nodes, len(value), start, following)


def _node(key: str, pointer: str, value: Any, changed: frozenset[str], budget: Budget) -> Node:
    kind = kind_of(value)
    node = Node(key, pointer, kind)
    node.changed = pointer in changed
    if not node.is_container:
        text = written(value)
        node.text, node.cut = text[:TEXT], max(len(text) - TEXT, 0)
        return node
    node.size = len(value)
    node.preview = preview(value)
    node.touched = any(path.startswith(pointer + "/") for path in changed)
    tag = next(iter(value), "") if kind == "object" and len(value) == 1 else ""
    if tag in TAGS:
        node.preview = f"{TAGS[tag]} · {node.preview}"
    if budget.takes(value):
        node.branch = branch(value, pointer, 0, changed, budget)
    return node


def search(state: Any, wanted: str, most: int = HITS) -> tuple[list[Hit], bool]:
    """Keys and plain values that contain a text, in the order of the state; true when there are more."""
    wanted = wanted.lower()
    hits: list[Hit] = []
    for trail, value in _matches(state, wanted):
        if len(hits) == most:
            return hits, True
        tokens = [token(key) for key in trail]
        pointer = "".join(f"/{part}" for part in tokens)
        parent = "".join(f"/{part}" for part in tokens[:-1])
        plain = not isinstance(value, dict | list)
        hits.append(Hit(pointer, parent, written(value)[:TEXT] if plain else preview(value)))
    return hits, False


def _matches(state: Any, wanted: str) -> Iterator[tuple[list[Any], Any]]:
    """(keys from the root, value) of what fits."""
    trail: list[Any] = []
    stack = [_items(state)]
    while stack:
        for key, value in stack[-1]:
            inner = isinstance(value, dict | list)
            if wanted in str(key).lower() or (not inner and wanted in _spoken(value)):
                yield [*trail, key], value
            if inner and value:
                trail.append(key)
                stack.append(_items(value))
                break
        else:
            stack.pop()
            if trail:
                trail.pop()


def _spoken(value: Any) -> str:
    return value.lower() if isinstance(value, str) else written(value)


def _items(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, dict):
        return iter(value.items())
    return iter(enumerate(value if isinstance(value, list) else ()))

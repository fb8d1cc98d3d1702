"""RFC 6902 patches of encoded states: making them, applying them, and making them from a live object.

Comparison is type-strict (`1`, `1.0` and `True` differ) and ignores the order of keys. `marshal` (version 2, which
writes equal values alike) does the comparing in C; only sub-trees that changed are walked and encoded.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable
from typing import Any

from .bounds import MOST_MOVED
from .codec import Encoder, EncodingError, encode_value, is_clean_text

Operations = list[dict[str, Any]]
Lift = Callable[[Any], Any]
_MISSING: Any = object()
_dumps = marshal.dumps


def is_same_value(old: Any, new: Any) -> bool:
    """Return whether two plain values are equal, types included, regardless of the order of their keys."""
    if type(old) is not type(new):
        return False
    if type(old) is dict:
        if len(old) != len(new):
            return False
        return all(key in new and is_same_value(item, new[key]) for key, item in old.items())
    if type(old) is list:
        return len(old) == len(new) and all(map(is_same_value, old, new))
    if type(old) is float:
        return _dumps(old, 2) == _dumps(new, 2)
    return bool(old == new)


def is_surely_equal(old: Any, new: Any) -> bool:
    """Return whether two values, live ones too, are certainly equal; False if that is unknown."""
    try:
        return bool(_dumps(old, 2) == _dumps(new, 2))
    except ValueError:
        return False


def escape_pointer_token(key: str) -> str:
    """Return a key as one reference token of a JSON pointer."""
    return key.replace("~", "~0").replace("/", "~1")


def make_patch(old: Any, new: Any) -> Operations:
    """Return the operations that turn one encoded value into another; empty if they are equal."""
    operations: Operations = []
    _add_changes("", old, new, operations, None)
    return operations


def add_live_changes(path: str, old: Any, new: Any, operations: Operations, lift: Lift) -> None:
    """Add the operations that turn the encoding of `old` into the encoding of `new`, both live values."""
    _add_changes(path, old, new, operations, lift)


def _add_changes(path: str, old: Any, new: Any, operations: Operations, lift: Lift | None) -> None:
    kind = type(old)
    if kind is type(new):
        if kind is dict and (lift is None or (_has_plain_keys(old) and _has_plain_keys(new))):
            _add_dict_changes(path, old, new, operations, lift)
            return
        if kind is list:
            _add_list_changes(path, old, new, operations, lift)
            return
    if lift is not None:
        # Not plain JSON: what changed shows in the encoded form.
        _add_changes(path, lift(old), lift(new), operations, None)
        return
    if not is_same_value(old, new):
        operations.append({"op": "replace", "path": path, "value": new})


def _has_plain_keys(value: dict[Any, Any]) -> bool:
    if set(map(type, value)) - {str}:
        return False
    return is_clean_text("".join(value))


def _is_changed(old: Any, new: Any) -> bool:
    kind = type(new)
    if old is new and kind is not dict and kind is not list:
        return False
    if type(old) is not kind:
        return True
    if kind is str or kind is int or kind is bool:
        return bool(old != new)
    return not is_surely_equal(old, new)


def _add_dict_changes(
    path: str, old: dict[str, Any], new: dict[str, Any], operations: Operations, lift: Lift | None
) -> None:
    if len(old) > 32 and len(new) > 32 and is_surely_equal(old, new):
        return
    for key in old:
        if key not in new:
            operations.append({"op": "remove", "path": f"{path}/{_format_key(key, lift)}"})
    for key, item in new.items():
        before = old.get(key, _MISSING)
        if before is _MISSING:
            value = item if lift is None else lift(item)
            operations.append({"op": "add", "path": f"{path}/{_format_key(key, lift)}", "value": value})
        elif _is_changed(before, item):
            _add_changes(f"{path}/{_format_key(key, lift)}", before, item, operations, lift)


def _format_key(key: str, lift: Lift | None) -> str:
    return escape_pointer_token("$" + key if lift is not None and key[:1] == "$" else key)


def _add_list_changes(path: str, old: list[Any], new: list[Any], operations: Operations, lift: Lift | None) -> None:
    start, shorter = 0, min(len(old), len(new))
    if len(old) == len(new):
        end_old = end_new = len(old)
    else:
        while start < shorter and is_surely_equal(old[start], new[start]):
            start += 1
        end_old, end_new = len(old), len(new)
        while end_old > start and end_new > start and is_surely_equal(old[end_old - 1], new[end_new - 1]):
            end_old, end_new = end_old - 1, end_new - 1
    both = min(end_old, end_new)
    for index in range(start, both):
        if _is_changed(old[index], new[index]):
            _add_changes(f"{path}/{index}", old[index], new[index], operations, lift)
    for index in range(end_old - 1, both - 1, -1):
        operations.append({"op": "remove", "path": f"{path}/{index}"})
    for index in range(both, end_new):
        value = new[index] if lift is None else lift(new[index])
        operations.append({"op": "add", "path": f"{path}/{index}", "value": value})


def apply_patch(state: Any, patch: Operations) -> Any:
    """Return the patched state. The input is not changed: the parts that the patch touches are copied, the rest is
    shared.

    Raise EncodingError if an operation is malformed or does not fit the state.
    """
    owned: set[int] = set()
    keep: list[Any] = []
    root = state
    moved = 0
    for operation in patch:
        try:
            root, count = _apply_operation(root, operation, owned, keep)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            raise EncodingError(f"the patch does not fit the state: {operation!r:.200} ({error!r:.100})") from None
        moved += count
        if moved > MOST_MOVED:
            raise EncodingError(f"the patch moves items of lists more than {MOST_MOVED:,} times")
    return root


def _copy_container(value: Any, owned: set[int], keep: list[Any]) -> Any:
    if id(value) in owned:
        return value
    if type(value) is not dict and type(value) is not list:
        raise TypeError("the path leads through a value that is no container")
    copy = value.copy()
    owned.add(id(copy))
    keep.append(copy)
    return copy


def _apply_operation(root: Any, operation: dict[str, Any], owned: set[int], keep: list[Any]) -> tuple[Any, int]:
    """Return (the root after the operation, how many items of a list it moved)."""
    kind, path = operation["op"], operation["path"]
    if kind not in ("add", "remove", "replace"):
        raise ValueError(f"unknown operation {kind!r}")
    if path == "":
        if kind == "remove":
            raise ValueError("the whole state cannot be removed")
        return operation["value"], 0
    if path[:1] != "/":
        raise ValueError("a path starts with a slash")
    *parents, last = (part.replace("~1", "/").replace("~0", "~") for part in path[1:].split("/"))
    root = parent = _copy_container(root, owned, keep)
    for part in parents:
        key = _parse_index(part, len(parent) - 1) if type(parent) is list else part
        child = _copy_container(parent[key], owned, keep)
        parent[key] = child
        parent = child
    return root, _edit_container(parent, last, operation)


def _edit_container(parent: Any, last: str, operation: dict[str, Any]) -> int:
    kind = operation["op"]
    if type(parent) is list:
        if kind == "add":
            place = len(parent) if last == "-" else _parse_index(last, len(parent))
            parent.insert(place, operation["value"])
            return len(parent) - place
        place = _parse_index(last, len(parent) - 1)
        if kind == "remove":
            del parent[place]
            return len(parent) - place
        parent[place] = operation["value"]
    elif kind == "remove":
        del parent[last]
    elif kind == "replace" and last not in parent:
        raise KeyError(last)
    else:
        parent[last] = operation["value"]
    return 0


def _parse_index(text: str, most: int) -> int:
    if not text.isdecimal() or not text.isascii() or (len(text) > 1 and text[0] == "0"):
        raise ValueError(f"{text!r} is no index")
    index = int(text)
    if index > most:
        raise IndexError(index)
    return index


class Tracker:
    """The attributes of an object as bytes, from which later changes are computed as a patch."""

    def __init__(self, depth: int, seen: dict[str, Any]) -> None:
        self.depth = depth
        self.blobs: dict[str, bytes] = {}
        self.encoded: dict[str, Any] = {}
        for name, value in seen.items():
            self._remember(name, value)

    def _lift(self, value: Any) -> Any:
        return encode_value(value, self.depth, lenient=True)

    def _remember(self, name: str, value: Any) -> None:
        self.encoded.pop(name, None)
        try:
            self.blobs[name] = _dumps(value, 2)
        except ValueError:
            self.blobs.pop(name, None)
            self.encoded[name] = self._lift(value)

    def changes(self, now: dict[str, Any]) -> Operations:
        """Return the patch since the last call. Raise EncodingError, and then keep the earlier values."""
        blobs = self.blobs
        operations: Operations = []
        changed: list[str] = []
        for name, value in now.items():
            try:
                if blobs.get(name) == _dumps(value, 2):
                    continue
            except ValueError:
                pass
            changed.append(name)
        for name in changed:
            self._change(name, now[name], operations)
        gone = [name for name in (*blobs, *self.encoded) if name not in now]
        operations.extend({"op": "remove", "path": "/" + _format_key(name, encode_value)} for name in gone)
        for name in gone:
            blobs.pop(name, None)
            self.encoded.pop(name, None)
        for name in changed:
            self._remember(name, now[name])
        return operations

    def _change(self, name: str, value: Any, operations: Operations) -> None:
        path = "/" + _format_key(name, encode_value)
        blob = self.blobs.get(name)
        if blob is None and name not in self.encoded:
            operations.append({"op": "add", "path": path, "value": self._lift(value)})
        elif blob is None:
            _add_changes(path, self.encoded[name], self._lift(value), operations, None)
        else:
            # Encoding the old value cannot fail; the new one may be cyclic, hence the check of its depth.
            _add_changes(path, marshal.loads(blob), value, operations, self._lift)


__all__ = [
    "Encoder",
    "Tracker",
    "add_live_changes",
    "apply_patch",
    "escape_pointer_token",
    "is_same_value",
    "is_surely_equal",
    "make_patch",
]

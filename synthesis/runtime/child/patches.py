"""RFC 6902 patches of encoded states: making them, applying them, and making them from a live object.

Comparison is type-strict (`1`, `1.0` and `True` differ) and blind to the order of keys. `marshal` (version 2,
which writes equal values alike) does the comparing in C; only sub-trees that changed are walked and encoded.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable
from typing import Any

from .bounds import MOST_MOVED
from .codec import Encoder, EncodingError, clean_text, encode

Operations = list[dict[str, Any]]
Lift = Callable[[Any], Any]
_MISSING: Any = object()
_dumps = marshal.dumps


def same(old: Any, new: Any) -> bool:
    """Whether two plain values are equal, types included, whatever the order of their keys."""
    if type(old) is not type(new):
        return False
    if type(old) is dict:
        if len(old) != len(new):
            return False
        return all(key in new and same(item, new[key]) for key, item in old.items())
    if type(old) is list:
        return len(old) == len(new) and all(map(same, old, new))
    if type(old) is float:
        return _dumps(old, 2) == _dumps(new, 2)
    return bool(old == new)


def alike(old: Any, new: Any) -> bool:
    """As `same`, for live values too: true only if they are certainly equal."""
    try:
        return bool(_dumps(old, 2) == _dumps(new, 2))
    except ValueError:
        return False


def token(key: str) -> str:
    """A key as one reference token of a JSON pointer."""
    return key.replace("~", "~0").replace("/", "~1")


def make_patch(old: Any, new: Any) -> Operations:
    """Operations that turn one encoded value into another; empty when nothing changed."""
    operations: Operations = []
    _diff("", old, new, operations, None)
    return operations


def diff_live(path: str, old: Any, new: Any, operations: Operations, lift: Lift) -> None:
    """Add the operations that turn the encoding of `old` into the encoding of `new`, both live values."""
    _diff(path, old, new, operations, lift)


def _diff(path: str, old: Any, new: Any, operations: Operations, lift: Lift | None) -> None:
    kind = type(old)
    if kind is type(new):
        if kind is dict and (lift is None or (_plain_keys(old) and _plain_keys(new))):
            _diff_dicts(path, old, new, operations, lift)
            return
        if kind is list:
            _diff_lists(path, old, new, operations, lift)
            return
    if lift is not None:
        # Not plain JSON: what changed shows in the encoded form.
        _diff(path, lift(old), lift(new), operations, None)
        return
    if not same(old, new):
        operations.append({"op": "replace", "path": path, "value": new})


def _plain_keys(value: dict[Any, Any]) -> bool:
    if set(map(type, value)) - {str}:
        return False
    return clean_text("".join(value))


def _changed(old: Any, new: Any) -> bool:
    kind = type(new)
    if old is new and kind is not dict and kind is not list:
        return False
    if type(old) is not kind:
        return True
    if kind is str or kind is int or kind is bool:
        return bool(old != new)
    return not alike(old, new)


def _diff_dicts(path: str, old: dict[str, Any], new: dict[str, Any], operations: Operations, lift: Lift | None) -> None:
    if len(old) > 32 and len(new) > 32 and alike(old, new):
        return
    for key in old:
        if key not in new:
            operations.append({"op": "remove", "path": f"{path}/{_key(key, lift)}"})
    for key, item in new.items():
        before = old.get(key, _MISSING)
        if before is _MISSING:
            value = item if lift is None else lift(item)
            operations.append({"op": "add", "path": f"{path}/{_key(key, lift)}", "value": value})
        elif _changed(before, item):
            _diff(f"{path}/{_key(key, lift)}", before, item, operations, lift)


def _key(key: str, lift: Lift | None) -> str:
    return token("$" + key if lift is not None and key[:1] == "$" else key)


def _diff_lists(path: str, old: list[Any], new: list[Any], operations: Operations, lift: Lift | None) -> None:
    start, shorter = 0, min(len(old), len(new))
    if len(old) == len(new):
        end_old = end_new = len(old)
    else:
        while start < shorter and alike(old[start], new[start]):
            start += 1
        end_old, end_new = len(old), len(new)
        while end_old > start and end_new > start and alike(old[end_old - 1], new[end_new - 1]):
            end_old, end_new = end_old - 1, end_new - 1
    both = min(end_old, end_new)
    for index in range(start, both):
        if _changed(old[index], new[index]):
            _diff(f"{path}/{index}", old[index], new[index], operations, lift)
    for index in range(end_old - 1, both - 1, -1):
        operations.append({"op": "remove", "path": f"{path}/{index}"})
    for index in range(both, end_new):
        value = new[index] if lift is None else lift(new[index])
        operations.append({"op": "add", "path": f"{path}/{index}", "value": value})


def apply_patch(state: Any, patch: Operations) -> Any:
    """The patched state. The input is not changed: what the patch touches is copied, the rest is shared.

    Raises EncodingError when an operation is malformed or does not fit the state.
    """
    owned: set[int] = set()
    keep: list[Any] = []
    root = state
    moved = 0
    for operation in patch:
        try:
            root, count = _apply(root, operation, owned, keep)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            raise EncodingError(f"the patch does not fit the state: {operation!r:.200} ({error!r:.100})") from None
        moved += count
        if moved > MOST_MOVED:
            raise EncodingError(f"the patch moves items of lists more than {MOST_MOVED:,} times")
    return root


def _own(value: Any, owned: set[int], keep: list[Any]) -> Any:
    if id(value) in owned:
        return value
    if type(value) is not dict and type(value) is not list:
        raise TypeError("the path leads through a value that is no container")
    copy = value.copy()
    owned.add(id(copy))
    keep.append(copy)
    return copy


def _apply(root: Any, operation: dict[str, Any], owned: set[int], keep: list[Any]) -> tuple[Any, int]:
    """(the root after the operation, how many items of a list it moved)"""
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
    root = parent = _own(root, owned, keep)
    for part in parents:
        key = _index(part, len(parent) - 1) if type(parent) is list else part
        child = _own(parent[key], owned, keep)
        parent[key] = child
        parent = child
    return root, _edit(parent, last, operation)


def _edit(parent: Any, last: str, operation: dict[str, Any]) -> int:
    kind = operation["op"]
    if type(parent) is list:
        if kind == "add":
            place = len(parent) if last == "-" else _index(last, len(parent))
            parent.insert(place, operation["value"])
            return len(parent) - place
        place = _index(last, len(parent) - 1)
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


def _index(text: str, most: int) -> int:
    if not text.isdecimal() or not text.isascii() or (len(text) > 1 and text[0] == "0"):
        raise ValueError(f"{text!r} is no index")
    index = int(text)
    if index > most:
        raise IndexError(index)
    return index


class Tracker:
    """Remembers an object's attributes as bytes, and says what changed since as a patch."""

    def __init__(self, depth: int, seen: dict[str, Any]) -> None:
        self.depth = depth
        self.blobs: dict[str, bytes] = {}
        self.encoded: dict[str, Any] = {}
        for name, value in seen.items():
            self._remember(name, value)

    def _lift(self, value: Any) -> Any:
        return encode(value, self.depth, lenient=True)

    def _remember(self, name: str, value: Any) -> None:
        self.encoded.pop(name, None)
        try:
            self.blobs[name] = _dumps(value, 2)
        except ValueError:
            self.blobs.pop(name, None)
            self.encoded[name] = self._lift(value)

    def changes(self, now: dict[str, Any]) -> Operations:
        """The patch since the last call. Raises EncodingError, and then remembers what it did before."""
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
        operations.extend({"op": "remove", "path": "/" + _key(name, encode)} for name in gone)
        for name in gone:
            blobs.pop(name, None)
            self.encoded.pop(name, None)
        for name in changed:
            self._remember(name, now[name])
        return operations

    def _change(self, name: str, value: Any, operations: Operations) -> None:
        path = "/" + _key(name, encode)
        blob = self.blobs.get(name)
        if blob is None and name not in self.encoded:
            operations.append({"op": "add", "path": path, "value": self._lift(value)})
        elif blob is None:
            _diff(path, self.encoded[name], self._lift(value), operations, None)
        else:
            # Encoding the old value cannot fail; the new one may be cyclic, hence the check of its depth.
            _diff(path, marshal.loads(blob), value, operations, self._lift)


__all__ = ["Encoder", "Tracker", "alike", "apply_patch", "diff_live", "make_patch", "same", "token"]

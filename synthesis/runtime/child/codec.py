"""The lossless encoding of states and results: plain JSON in which everything else is a tagged object.

A tagged object has exactly one key, and that key starts with a single `$`: `{"$set": [...]}`. Ordinary keys that
start with `$` are written with one more. Text with NUL or lone surrogates is tagged too, so that an encoded
value is always valid UTF-8 that any database takes. Numbers of more than 63 bits, NaN and infinities are tagged.
"""

from __future__ import annotations

import base64
import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import hashlib
import json
import math
import random
import types
import uuid
from collections.abc import Callable, Iterable
from typing import Any

from .bounds import require_plain, require_short
from .decoder import decode
from .records import BASED, FACTORIES, EncodingError, EnumRecord, Opaque, Record, TupleRecord

DEPTH = 100
MAX_NODES = 3_000_000
"""More values than this do not leave the sandbox; bounds the work on a value that shares its parts."""


_dumps = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False).encode


def canonical_json(value: Any) -> str:
    """One text for one encoded value: sorted keys, no spaces, ASCII."""
    return _dumps(value)


def state_hash(encoded: Any) -> str:
    """SHA-256, in hex, of the canonical JSON of an encoded state."""
    return hashlib.sha256(_dumps(encoded).encode("ascii")).hexdigest()


def clean_text(text: str) -> bool:
    """Whether the text can stand untagged: no NUL, no lone surrogate."""
    if "\0" in text:
        return False
    if text.isascii():
        return True
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


class Encoder:
    """Encodes one value. `lenient` writes `$opaque` for what has no encoding instead of raising."""

    def __init__(self, depth: int = DEPTH, lenient: bool = False) -> None:
        self.depth = depth
        self.lenient = lenient
        self.left = MAX_NODES

    def encode(self, value: Any) -> Any:
        """The encoded value. Raises EncodingError."""
        return self._value(value, self.depth)

    def _value(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if kind is str:
            if value.isascii() and "\0" not in value:
                return value
            return value if clean_text(value) else _escaped_text(value)
        if value is None or kind is bool:
            return value
        if kind is int:
            return value if -(2**63) <= value < 2**63 else {"$int": hex(require_short(value))}
        if kind is float:
            return value if math.isfinite(value) else {"$float": repr(value)}
        if depth <= 0:
            raise EncodingError(f"nested more than {self.depth} levels deep, or cyclic")
        if kind is dict:
            return self._dict(value, depth)
        if kind is list:
            return self._list(value, depth)
        handler = _HANDLERS.get(kind)
        if handler is not None:
            return handler(self, value, depth)
        return self._other(value, depth)

    def _spend(self, count: int) -> None:
        self.left -= count
        if self.left < 0:
            raise EncodingError(f"more than {MAX_NODES} values")

    def _list(self, values: Iterable[Any], depth: int) -> list[Any]:
        encode = self._value
        out = [encode(item, depth - 1) for item in values]
        self._spend(len(out))
        return out

    def _dict(self, value: dict[Any, Any], depth: int) -> dict[str, Any]:
        out: dict[str, Any] = {}
        encode = self._value
        for key, item in value.items():
            if type(key) is not str or not (key.isascii() or clean_text(key)) or "\0" in key:
                return {"$dict": self._pairs(value, depth)}
            out["$" + key if key[:1] == "$" else key] = encode(item, depth - 1)
        self._spend(len(out))
        return out

    def _pairs(self, value: dict[Any, Any], depth: int) -> list[Any]:
        return [self._list(pair, depth - 1) for pair in value.items()]

    def _sorted(self, value: Iterable[Any], depth: int) -> list[Any]:
        # A set has no order: equal sets must encode, and hash, alike.
        return sorted(self._list(value, depth), key=canonical_json)

    def _attributes(self, value: Any, depth: int) -> dict[str, Any]:
        return self._dict(attributes_of(value), depth)

    def _object(self, value: Any, depth: int) -> Any:
        return {"$object": {"class": type(value).__name__, "attributes": self._attributes(value, depth - 1)}}

    def _based(self, value: Any, base: type, depth: int) -> Any:
        name = getattr(value, "record_class", None) or type(value).__name__
        plain = base.__call__(value) if base is not str else str.__str__(value)
        body = {"class": str(name), "value": self._value(plain, depth - 1)}
        extra = attributes_of(value)
        extra.pop("record_class", None)
        if extra:
            body["attributes"] = self._dict(extra, depth - 1)
        return {"$object": body}

    def _other(self, value: Any, depth: int) -> Any:
        if isinstance(value, enum.Enum):
            mixed = next((b.__name__ for b in (str, int, float) if isinstance(value, b)), None)
            body = {"class": type(value).__name__, "name": value.name}
            body["value"] = self._value(value.value, depth - 1)
            return {"$enum": body | ({"base": mixed} if mixed else {})}
        if isinstance(value, Record):
            return self._record(value, depth)
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            name = value.record_class if isinstance(value, TupleRecord) else type(value).__name__
            fields = [str(field) for field in value._fields]
            return {"$namedtuple": {"class": name, "fields": fields, "values": self._list(value, depth - 1)}}
        if isinstance(value, random.Random) and type(value) is not random.SystemRandom:
            return {"$random": self._value(value.getstate(), depth - 1)}
        for base in BASED:
            if isinstance(value, base):
                return self._restore_enum(value, base, depth)
        if isinstance(value, _VIEWS):
            return {"$view": self._list(iter(value), depth - 1)}
        if _is_data(value):
            return self._object(value, depth)
        if self.lenient:
            return {"$opaque": _describe(value)}
        raise EncodingError(f"a {_describe(value)} has no encoding")

    def _restore_enum(self, value: Any, base: type, depth: int) -> Any:
        enum_name = getattr(value, "__dict__", {}).get("enum_name")
        if enum_name is None:
            return self._based(value, base, depth)
        plain = self._value(base.__call__(value) if base is not str else str.__str__(value), depth - 1)
        body = {"class": value.record_class, "name": enum_name, "value": plain, "base": base.__name__}
        return {"$enum": body}

    def _record(self, value: Record, depth: int) -> Any:
        if isinstance(value, Opaque):
            return {"$opaque": value.record_class}
        if isinstance(value, EnumRecord):
            body = {"class": value.record_class, "name": value["name"]}
            return {"$enum": body | {"value": self._value(value["value"], depth - 1)}}
        inner = self._dict(dict(value.__dict__), depth - 1)
        return {"$object": {"class": value.record_class, "attributes": inner}}


def _escaped_text(text: str) -> dict[str, str]:
    return {"$str": text.encode("unicode_escape").decode("ascii")}


def _describe(value: Any) -> str:
    name = getattr(value, "__qualname__", None)
    return f"{type(value).__name__} {name}"[:200] if isinstance(name, str) else type(value).__name__


def attributes_of(value: Any) -> dict[str, Any]:
    """The instance attributes of an object, those in slots included."""
    attributes: dict[str, Any] = {}
    for cls in type(value).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                attributes[name] = getattr(value, name)
    attributes.update(getattr(value, "__dict__", {}))
    return attributes


def _is_data(value: Any) -> bool:
    if isinstance(value, _NOT_DATA) or callable(value) or type(value).__module__ in _OPAQUE_MODULES:
        return False
    if dataclasses.is_dataclass(value):
        return True
    return hasattr(value, "__dict__") or any("__slots__" in cls.__dict__ for cls in type(value).__mro__[:-1])


_VIEWS: Any = (type({}.keys()), type({}.values()), type({}.items()))
_NOT_DATA = (
    type,
    types.ModuleType,
    types.FunctionType,
    types.GeneratorType,
    types.CoroutineType,
    BaseException,
)
_OPAQUE_MODULES = (
    "_thread",
    "threading",
    "logging",
    "_io",
    "io",
    "queue",
    "weakref",
    "itertools",
    "functools",
    "re",
)


def _datetime(encoder: Encoder, value: datetime.datetime, depth: int) -> Any:
    zone = getattr(value.tzinfo, "key", None)
    if zone is None and not value.fold:
        return {"$datetime": value.isoformat()}
    return {"$datetime": {"iso": value.isoformat(), "zone": zone, "fold": value.fold}}


def _default_dict(encoder: Encoder, value: Any, depth: int) -> Any:
    factory = value.default_factory
    name = factory.__name__ if isinstance(factory, type) else None
    body = {"factory": name if name in FACTORIES else None}
    return {"$defaultdict": body | {"items": encoder._pairs(value, depth - 1)}}


def _deque(encoder: Encoder, value: Any, depth: int) -> Any:
    return {"$deque": {"items": encoder._list(value, depth - 1), "maxlen": value.maxlen}}


def _ratio(value: fractions.Fraction) -> str:
    require_short(value.numerator)
    require_short(value.denominator)
    return str(value)


def _packed(data: bytes | bytearray) -> str:
    return base64.b64encode(data).decode("ascii")


_HANDLERS: dict[type, Callable[[Encoder, Any, int], Any]] = {
    tuple: lambda e, v, d: {"$tuple": e._list(v, d - 1)},
    set: lambda e, v, d: {"$set": e._sorted(v, d - 1)},
    frozenset: lambda e, v, d: {"$frozenset": e._sorted(v, d - 1)},
    bytes: lambda e, v, d: {"$bytes": _packed(v)},
    bytearray: lambda e, v, d: {"$bytearray": _packed(v)},
    complex: lambda e, v, d: {"$complex": [repr(v.real), repr(v.imag)]},
    range: lambda e, v, d: {"$range": e._list((v.start, v.stop, v.step), d)},
    datetime.datetime: _datetime,
    datetime.date: lambda e, v, d: {"$date": v.isoformat()},
    datetime.time: lambda e, v, d: {"$time": v.isoformat()},
    datetime.timedelta: lambda e, v, d: {"$timedelta": [v.days, v.seconds, v.microseconds]},
    decimal.Decimal: lambda e, v, d: {"$decimal": str(require_plain(v))},
    fractions.Fraction: lambda e, v, d: {"$fraction": _ratio(v)},
    uuid.UUID: lambda e, v, d: {"$uuid": str(v)},
    collections.OrderedDict: lambda e, v, d: {"$ordereddict": e._pairs(v, d - 1)},
    collections.Counter: lambda e, v, d: {"$counter": e._pairs(v, d - 1)},
    collections.defaultdict: _default_dict,
    collections.deque: _deque,
}


def encode(value: Any, depth: int = DEPTH, lenient: bool = False) -> Any:
    """Encode any value. Raises EncodingError for what has no encoding, is cyclic or nested too deep."""
    try:
        return Encoder(depth, lenient).encode(value)
    except RecursionError:
        raise EncodingError("nested too deep") from None


__all__ = [
    "DEPTH",
    "Encoder",
    "EncodingError",
    "attributes_of",
    "canonical_json",
    "clean_text",
    "decode",
    "encode",
    "state_hash",
]

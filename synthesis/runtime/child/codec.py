"""The lossless encoding of states and results: plain JSON in which every other value is a tagged object.

A tagged object has exactly one key, and that key starts with a single `$`: `{"$set": [...]}`. Ordinary keys that start
with `$` are written with one more. Text with NUL or lone surrogates is tagged too, so that an encoded value is always
valid UTF-8 that any database accepts. Numbers of more than 63 bits, NaN and infinities are tagged.
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

from .bounds import require_bounded_decimal, require_short_integer
from .decoder import decode_value
from .records import BASED, FACTORIES, EncodingError, EnumRecord, Opaque, Record, TupleRecord

DEPTH = 100
MAX_NODES = 3_000_000
"""More values than this do not leave the sandbox; bounds the work on a value that shares its parts."""


_dumps = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False).encode


def to_canonical_json(value: Any) -> str:
    """Return the canonical text of an encoded value: sorted keys, no spaces, ASCII."""
    return _dumps(value)


def hash_state(encoded: Any) -> str:
    """Return the SHA-256, in hex, of the canonical JSON of an encoded state."""
    return hashlib.sha256(_dumps(encoded).encode("ascii")).hexdigest()


def is_clean_text(text: str) -> bool:
    """Return whether the text can be written untagged: no NUL, no lone surrogate."""
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
    """An encoder of one value. `lenient` writes `$opaque` for values without an encoding instead of raising."""

    def __init__(self, depth: int = DEPTH, lenient: bool = False) -> None:
        self.depth = depth
        self.lenient = lenient
        self.left = MAX_NODES

    def encode(self, value: Any) -> Any:
        """Return the encoded value. Raise EncodingError."""
        return self._value(value, self.depth)

    def _value(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if kind is str:
            if value.isascii() and "\0" not in value:
                return value
            return value if is_clean_text(value) else _escape_text(value)
        if value is None or kind is bool:
            return value
        if kind is int:
            return value if -(2**63) <= value < 2**63 else {"$int": hex(require_short_integer(value))}
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
            if type(key) is not str or not (key.isascii() or is_clean_text(key)) or "\0" in key:
                return {"$dict": self._pairs(value, depth)}
            out["$" + key if key[:1] == "$" else key] = encode(item, depth - 1)
        self._spend(len(out))
        return out

    def _pairs(self, value: dict[Any, Any], depth: int) -> list[Any]:
        return [self._list(pair, depth - 1) for pair in value.items()]

    def _sort_values(self, value: Iterable[Any], depth: int) -> list[Any]:
        # A set has no order: equal sets must encode, and hash, alike.
        return sorted(self._list(value, depth), key=to_canonical_json)

    def _attributes(self, value: Any, depth: int) -> dict[str, Any]:
        return self._dict(get_attributes(value), depth)

    def _object(self, value: Any, depth: int) -> Any:
        return {"$object": {"class": type(value).__name__, "attributes": self._attributes(value, depth - 1)}}

    def _encode_subclass(self, value: Any, base: type, depth: int) -> Any:
        name = getattr(value, "record_class", None) or type(value).__name__
        plain = base.__call__(value) if base is not str else str.__str__(value)
        body = {"class": str(name), "value": self._value(plain, depth - 1)}
        extra = get_attributes(value)
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
            return {"$opaque": _describe_value(value)}
        raise EncodingError(f"a {_describe_value(value)} has no encoding")

    def _restore_enum(self, value: Any, base: type, depth: int) -> Any:
        enum_name = getattr(value, "__dict__", {}).get("enum_name")
        if enum_name is None:
            return self._encode_subclass(value, base, depth)
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


def _escape_text(text: str) -> dict[str, str]:
    return {"$str": text.encode("unicode_escape").decode("ascii")}


def _describe_value(value: Any) -> str:
    name = getattr(value, "__qualname__", None)
    return f"{type(value).__name__} {name}"[:200] if isinstance(name, str) else type(value).__name__


def get_attributes(value: Any) -> dict[str, Any]:
    """Return the instance attributes of an object, those in slots included."""
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


def _encode_datetime(encoder: Encoder, value: datetime.datetime, depth: int) -> Any:
    zone = getattr(value.tzinfo, "key", None)
    if zone is None and not value.fold:
        return {"$datetime": value.isoformat()}
    return {"$datetime": {"iso": value.isoformat(), "zone": zone, "fold": value.fold}}


def _encode_default_dict(encoder: Encoder, value: Any, depth: int) -> Any:
    factory = value.default_factory
    name = factory.__name__ if isinstance(factory, type) else None
    body = {"factory": name if name in FACTORIES else None}
    return {"$defaultdict": body | {"items": encoder._pairs(value, depth - 1)}}


def _encode_deque(encoder: Encoder, value: Any, depth: int) -> Any:
    return {"$deque": {"items": encoder._list(value, depth - 1), "maxlen": value.maxlen}}


def _format_fraction(value: fractions.Fraction) -> str:
    require_short_integer(value.numerator)
    require_short_integer(value.denominator)
    return str(value)


def _encode_base64(data: bytes | bytearray) -> str:
    return base64.b64encode(data).decode("ascii")


_HANDLERS: dict[type, Callable[[Encoder, Any, int], Any]] = {
    tuple: lambda e, v, d: {"$tuple": e._list(v, d - 1)},
    set: lambda e, v, d: {"$set": e._sort_values(v, d - 1)},
    frozenset: lambda e, v, d: {"$frozenset": e._sort_values(v, d - 1)},
    bytes: lambda e, v, d: {"$bytes": _encode_base64(v)},
    bytearray: lambda e, v, d: {"$bytearray": _encode_base64(v)},
    complex: lambda e, v, d: {"$complex": [repr(v.real), repr(v.imag)]},
    range: lambda e, v, d: {"$range": e._list((v.start, v.stop, v.step), d)},
    datetime.datetime: _encode_datetime,
    datetime.date: lambda e, v, d: {"$date": v.isoformat()},
    datetime.time: lambda e, v, d: {"$time": v.isoformat()},
    datetime.timedelta: lambda e, v, d: {"$timedelta": [v.days, v.seconds, v.microseconds]},
    decimal.Decimal: lambda e, v, d: {"$decimal": str(require_bounded_decimal(v))},
    fractions.Fraction: lambda e, v, d: {"$fraction": _format_fraction(v)},
    uuid.UUID: lambda e, v, d: {"$uuid": str(v)},
    collections.OrderedDict: lambda e, v, d: {"$ordereddict": e._pairs(v, d - 1)},
    collections.Counter: lambda e, v, d: {"$counter": e._pairs(v, d - 1)},
    collections.defaultdict: _encode_default_dict,
    collections.deque: _encode_deque,
}


def encode_value(value: Any, depth: int = DEPTH, lenient: bool = False) -> Any:
    """Encode any value. Raise EncodingError if it has no encoding, is cyclic or nested too deep."""
    try:
        return Encoder(depth, lenient).encode(value)
    except RecursionError:
        raise EncodingError("nested too deep") from None


__all__ = [
    "DEPTH",
    "Encoder",
    "EncodingError",
    "decode_value",
    "encode_value",
    "get_attributes",
    "hash_state",
    "is_clean_text",
    "to_canonical_json",
]

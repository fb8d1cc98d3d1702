"""The decoder of encoded values (see `codec`): tags become the values they denote."""

from __future__ import annotations

import base64
import collections
import datetime
import math
import random
import uuid
from collections.abc import Callable
from typing import Any

from .bounds import parse_decimal, parse_fraction, parse_hex_integer, require_spread_hashes
from .records import BASED, FACTORIES, EncodingError, EnumRecord, Opaque, Record, make_tuple_record


def decode_value(value: Any) -> Any:
    """Return the value that was encoded; instances of a program's own classes come back as records."""
    try:
        return _decode_part(value)
    except EncodingError:
        raise
    except RecursionError:
        raise EncodingError("nested too deep") from None
    except (ValueError, TypeError, KeyError, ArithmeticError, AttributeError, LookupError) as error:
        raise EncodingError(f"malformed encoded value: {error}") from None


def _decode_part(value: Any) -> Any:
    if type(value) is dict:
        for key in value:
            if key[:1] == "$":
                return _decode_tagged(value)
        return {key: _decode_part(item) for key, item in value.items()}
    if type(value) is list:
        return [_decode_part(item) for item in value]
    return value


def _decode_tagged(value: dict[str, Any]) -> Any:
    if len(value) == 1:
        ((tag, body),) = value.items()
        if tag[:2] != "$$":
            reader = _READERS.get(tag)
            if reader is None:
                raise EncodingError(f"unknown tag {tag!r}")
            return reader(body)
    out: dict[str, Any] = {}
    for key, item in value.items():
        if key[:1] == "$":
            if key[:2] != "$$":
                raise EncodingError(f"the tag {key!r} stands beside other keys")
            key = key[1:]
        out[key] = _decode_part(item)
    return out


def _decode_pairs(body: Any) -> list[tuple[Any, Any]]:
    pairs = [(_decode_part(key), _decode_part(item)) for key, item in body]
    require_spread_hashes([key for key, _ in pairs])
    return pairs


def _decode_members(body: Any) -> list[Any]:
    return require_spread_hashes([_decode_part(item) for item in body])


def _read_datetime(body: Any) -> datetime.datetime:
    if isinstance(body, str):
        return datetime.datetime.fromisoformat(body)
    moment = datetime.datetime.fromisoformat(body["iso"]).replace(fold=int(body["fold"]))
    if body["zone"]:
        import zoneinfo

        moment = moment.replace(tzinfo=zoneinfo.ZoneInfo(body["zone"]))
    return moment


def _read_enum(body: dict[str, Any]) -> Any:
    value = _decode_part(body["value"])
    base = {"str": str, "int": int, "float": float}.get(body.get("base", ""))
    if base is None:
        return EnumRecord(body["class"], {"name": body["name"], "value": value})
    record = BASED[base](value)
    record.record_class = body["class"]
    record.enum_name = record.name = body["name"]
    record.value = value
    return record


def _read_object(body: dict[str, Any]) -> Any:
    attributes = {str(key): item for key, item in _decode_part(body.get("attributes", {})).items()}
    if "value" not in body:
        return Record(body["class"], attributes)
    value = _decode_part(body["value"])
    record = BASED[type(value)](value)
    record.record_class = body["class"]
    record.__dict__.update(attributes)
    return record


def _read_random(body: Any) -> random.Random:
    source = random.Random(0)
    source.setstate(_decode_part(body))
    return source


_READERS: dict[str, Callable[[Any], Any]] = {
    "$str": lambda b: b.encode("ascii").decode("unicode_escape"),
    "$int": parse_hex_integer,
    "$float": lambda b: {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[b],
    "$tuple": lambda b: tuple(_decode_part(list(b))),
    "$set": lambda b: set(_decode_members(b)),
    "$frozenset": lambda b: frozenset(_decode_members(b)),
    "$dict": lambda b: dict(_decode_pairs(b)),
    "$bytes": lambda b: base64.b64decode(b, validate=True),
    "$bytearray": lambda b: bytearray(base64.b64decode(b, validate=True)),
    "$complex": lambda b: complex(float(b[0]), float(b[1])),
    "$range": lambda b: range(*_decode_part(b)),
    "$datetime": _read_datetime,
    "$date": lambda b: datetime.date.fromisoformat(b),
    "$time": lambda b: datetime.time.fromisoformat(b),
    "$timedelta": lambda b: datetime.timedelta(*b),
    "$decimal": parse_decimal,
    "$fraction": parse_fraction,
    "$uuid": lambda b: uuid.UUID(b),
    "$ordereddict": lambda b: collections.OrderedDict(_decode_pairs(b)),
    "$counter": lambda b: collections.Counter(dict(_decode_pairs(b))),
    "$defaultdict": lambda b: collections.defaultdict(FACTORIES.get(b["factory"] or ""), _decode_pairs(b["items"])),
    "$deque": lambda b: collections.deque(_decode_part(list(b["items"])), b["maxlen"]),
    "$enum": _read_enum,
    "$namedtuple": lambda b: make_tuple_record(b["class"], b["fields"], _decode_part(list(b["values"]))),
    "$object": _read_object,
    "$random": _read_random,
    "$view": lambda b: _decode_part(list(b)),
    "$opaque": lambda b: Opaque(str(b)),
}

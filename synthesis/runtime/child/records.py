"""Records: the decoded form of objects of a program's own classes, away from the program."""

from __future__ import annotations

import collections
from collections.abc import Iterator, Sequence
from typing import Any


class EncodingError(ValueError):
    """The value has no lossless encoding, or the encoded value is malformed."""


FACTORIES: dict[str, Any] = {t.__name__: t for t in (dict, list, set, int, float, str, tuple, bool, collections.deque)}


_PLAIN = frozenset((str, int, float, bool, type(None)))


class Record:
    """An object whose class is not available: its attributes, readable as attributes and as items."""

    __slots__ = ("__dict__", "record_class")
    record_class: str

    def __init__(self, record_class: str, attributes: dict[str, Any] | None = None) -> None:
        object.__setattr__(self, "record_class", record_class)
        self.__dict__.update(attributes or {})

    def __getitem__(self, key: str) -> Any:
        return self.__dict__[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self.__dict__[key] = value

    def __contains__(self, key: object) -> bool:
        return key in self.__dict__

    def __iter__(self) -> Iterator[str]:
        return iter(self.__dict__)

    def __len__(self) -> int:
        return len(self.__dict__)

    def __bool__(self) -> bool:
        return True

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self.record_class == other.record_class and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        plain = ((key, value) for key, value in self.__dict__.items() if type(value) in _PLAIN)
        return hash((self.record_class, len(self.__dict__), frozenset(plain)))

    def __repr__(self) -> str:
        inner = ", ".join(f"{key}={value!r}" for key, value in self.__dict__.items())
        return f"{self.record_class}({inner})"

    def get(self, key: str, default: Any = None) -> Any:
        return self.__dict__.get(key, default)

    def keys(self) -> Any:
        return self.__dict__.keys()

    def values(self) -> Any:
        return self.__dict__.values()

    def items(self) -> Any:
        return self.__dict__.items()


class Opaque(Record):
    """A value that has no encoding (a function, a lock): only its description survives."""

    __slots__ = ()


class EnumRecord(Record):
    """An enum member without its class; holds `name` and `value`."""

    __slots__ = ()

    def __hash__(self) -> int:
        return hash((self.record_class, self.__dict__.get("name")))


class DictRecord(dict[Any, Any]):
    """An instance of a dict subclass."""

    record_class = "dict"


class ListRecord(list[Any]):
    """An instance of a list subclass."""

    record_class = "list"


class SetRecord(set[Any]):
    """An instance of a set subclass."""

    record_class = "set"


class StrRecord(str):
    """An instance of a str subclass, string enums among them (with `name` and `value`)."""

    record_class = "str"


class IntRecord(int):
    """An instance of an int subclass, integer enums among them."""

    record_class = "int"


class FloatRecord(float):
    """An instance of a float subclass."""

    record_class = "float"


class TupleRecord(tuple[Any, ...]):
    """A named tuple without its class: a tuple whose fields can be read by name."""

    record_class = "tuple"
    _fields: tuple[str, ...] = ()

    def __getattr__(self, name: str) -> Any:
        try:
            return self[self._fields.index(name)]
        except ValueError:
            raise AttributeError(name) from None

    def _asdict(self) -> dict[str, Any]:
        return dict(zip(self._fields, self, strict=True))


BASED: dict[type, type] = {
    dict: DictRecord,
    list: ListRecord,
    set: SetRecord,
    str: StrRecord,
    int: IntRecord,
    float: FloatRecord,
}
"""Which record stands for a subclass of which built-in type."""


def make_tuple_record(name: str, fields: Sequence[str], values: Sequence[Any]) -> TupleRecord:
    """Return a named tuple of the class called `name`."""
    record = TupleRecord(values)
    record.record_class = name
    record._fields = tuple(fields)
    return record

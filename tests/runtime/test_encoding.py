"""The lossless encoding, its hash, and patches between encoded states."""

# ruff: noqa: RUF005
from __future__ import annotations

import collections
import copy
import dataclasses
import datetime
import decimal
import enum
import json
import math
import random
import uuid
import zoneinfo
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from synthesis.errors import StateError
from synthesis.runtime import apply_patch, decode_state, encode_state, hash_state, make_patch
from synthesis.runtime.child import codec
from synthesis.runtime.child.patches import Tracker

UTC = datetime.UTC
VALUES: list[Any] = [
    {1, 2, "a"},
    frozenset({(1, 2), "x"}),
    (1, "a", (2.5, None)),
    {1: "a", (1, 2): "b", None: "c", False: "d"},
    {"$set": [1], "$": 2, "$$x": 3},
    b"\0\xff",
    bytearray(b"abc"),
    "lone \ud800 surrogate",
    "nul \0 text",
    {"nul\0key": 1},
    2**80,
    -(2**70),
    math.inf,
    -math.inf,
    -0.0,
    complex(1, -2),
    range(1, 9, 2),
    datetime.datetime(2025, 1, 2, 3, 4, 5, 6),
    datetime.datetime(2025, 1, 2, tzinfo=UTC),
    datetime.datetime(2025, 1, 2, fold=1),
    datetime.datetime(2025, 7, 1, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin")),
    datetime.date(2025, 1, 2),
    datetime.time(1, 2, 3),
    datetime.timedelta(days=-1, microseconds=5),
    decimal.Decimal("1.10"),
    uuid.UUID(int=5),
    collections.OrderedDict([("b", 1), ("a", 2)]),
    collections.Counter("aab"),
    collections.deque([1, 2], maxlen=3),
    collections.defaultdict(list, {"a": [1]}),
]


def _identifier(value: Any) -> str:
    """Name of a case, the same in every process: `repr` of a set depends on how its members were put into it."""
    members = sorted(map(repr, value)) if isinstance(value, set | frozenset) else [repr(value)]
    return f"{type(value).__name__}:{','.join(members)}"


@pytest.mark.parametrize("value", VALUES, ids=_identifier)
def test_round_trip(value: Any) -> None:
    encoded = encode_state({"v": value})
    text = json.dumps(encoded, allow_nan=False, ensure_ascii=False)
    text.encode("utf-8")
    assert "\0" not in text
    back = decode_state(json.loads(text))["v"]
    assert back == value
    assert type(back) is type(value)
    assert encode_state({"v": back}) == encoded
    assert math.copysign(1, back) == math.copysign(1, value) if isinstance(value, float) else True


def test_nan_round_trip() -> None:
    assert math.isnan(decode_state(encode_state(math.nan)))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters()),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(), max_size=4), inner, max_size=4)
    ),
    max_leaves=20,
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters()) | st.binary(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=3).map(tuple)
        | st.sets(st.integers() | st.text(max_size=3), max_size=4)
        | st.dictionaries(st.integers() | st.text(max_size=3) | st.booleans(), inner, max_size=4)
    ),
    max_leaves=20,
)


@settings(max_examples=200, deadline=None)
@given(ANYTHING)
def test_any_value_round_trips(value: Any) -> None:
    encoded = encode_state(value)
    assert json.loads(json.dumps(encoded, allow_nan=False)) == encoded
    back = decode_state(encoded)
    assert back == value
    assert encode_state(back) == encoded


class Color(enum.Enum):
    RED = 1


class Status(str, enum.Enum):  # noqa: UP042 (what programs write)
    OPEN = "open"


class Point(NamedTuple):
    x: int
    y: int


@dataclasses.dataclass
class Item:
    name: str
    tags: list[str]


class Slotted:
    __slots__ = ("a",)

    def __init__(self) -> None:
        self.a = 1


class Attrs(dict):  # type: ignore[type-arg]
    pass


def test_objects_of_unknown_classes_are_readable() -> None:
    state = {"i": Item("n", ["t"]), "p": Point(1, 2), "s": Status.OPEN, "c": Color.RED, "q": Slotted(), "d": Attrs(a=1)}
    encoded = encode_state(state)
    back = decode_state(encoded)
    assert back["i"].name == back["i"]["name"] == "n"
    assert back["i"].tags == ["t"]
    assert (back["p"].x, back["p"][1]) == (1, 2)
    assert back["s"] == "open"
    assert back["s"].name == "OPEN"
    assert back["c"].value == 1
    assert back["q"].a == 1
    assert back["d"]["a"] == 1
    assert encode_state(back) == encoded


def test_random_generators_keep_their_place() -> None:
    source = random.Random(3)
    source.random()
    copy_of = decode_state(encode_state(source))
    assert copy_of.random() == source.random()


def cyclic() -> Any:
    loop: list[Any] = []
    loop.append([loop])
    return loop


def deep() -> Any:
    value: Any = 1
    for _ in range(5_000):
        value = [value]
    return value


def dag() -> Any:
    value: Any = [1]
    for _ in range(60):
        value = [value, value]
    return value


@pytest.mark.parametrize("make", [cyclic, deep, dag, lambda: (x for x in ()), lambda: print, lambda: object])
def test_what_has_no_encoding_says_so(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "MAX_NODES", 30_000)  # counting to the real limit takes seconds
    with pytest.raises(StateError):
        encode_state({"v": make()})


@pytest.mark.parametrize(
    "bad",
    [{"$nothing": 1}, {"$set": 5}, {"$set": [[]]}, {"a": {"$tuple": [], "b": 1}}, {"$int": "x"}, {"$datetime": {}}]
    + [{"$enum": {}}, {"$object": 3}, {"$bytes": "%"}, {"$namedtuple": {"class": "P"}}],
)
def test_malformed_encodings_are_refused(bad: Any) -> None:
    with pytest.raises(StateError):
        decode_state(bad)


def test_hash_ignores_order_of_keys_and_sets_only() -> None:
    assert hash_state({"a": 1, "b": 2}) == hash_state({"b": 2, "a": 1})
    assert hash_state(encode_state({3, 1, 2})) == hash_state(encode_state({1, 2, 3}))
    assert len({hash_state(v) for v in ({"a": 1}, {"a": 1.0}, {"a": True}, {"a": "1"}, {"a": [1]})}) == 5


@settings(max_examples=300, deadline=None)
@given(JSON, JSON)
@example({"": None}, {"\x00": None, "": None})  # encoded as a list of pairs, whose order counts
def test_patch_leads_from_one_to_the_other(old: Any, new: Any) -> None:
    start, end = encode_state({"s": old}), encode_state({"s": new})
    before = copy.deepcopy(start)
    assert hash_state(apply_patch(start, make_patch(start, end))) == hash_state(end)
    assert start == before


@settings(max_examples=100, deadline=None)
@given(JSON)
def test_no_patch_where_nothing_changed(value: Any) -> None:
    assert make_patch(value, copy.deepcopy(value)) == []


@settings(max_examples=200, deadline=None)
@given(
    st.dictionaries(st.text(max_size=3), ANYTHING, max_size=4),
    st.dictionaries(st.text(max_size=3), ANYTHING, max_size=4),
)
def test_live_patches_lead_to_the_encoded_state(old: dict[str, Any], new: dict[str, Any]) -> None:
    tracker = Tracker(100, old)
    start = encode_state(old)
    if "$dict" in start or "$dict" in encode_state(new):
        return
    patch = tracker.changes(new)
    assert hash_state(apply_patch(start, patch)) == hash_state(encode_state(new))
    assert tracker.changes(new) == []


@pytest.mark.parametrize(("old", "new"), [(1, True), (1, 1.0), (0, False), ("1", 1), (0.0, -0.0)])
def test_patches_are_strict_about_types(old: Any, new: Any) -> None:
    assert make_patch({"a": [old]}, {"a": [new]}) == [{"op": "replace", "path": "/a/0", "value": new}]


def test_removing_from_the_middle_is_one_operation() -> None:
    assert make_patch({"l": [1, 2, 3, 4]}, {"l": [1, 2, 4]}) == [{"op": "remove", "path": "/l/2"}]


def test_keys_are_escaped_in_paths() -> None:
    assert make_patch({}, {"a/b~c": 1}) == [{"op": "add", "path": "/a~1b~0c", "value": 1}]


def test_patch_shares_what_it_does_not_touch() -> None:
    state = {"a": {"x": 1}, "b": {"y": [1]}}
    after = apply_patch(state, [{"op": "replace", "path": "/a/x", "value": 2}])
    assert state == {"a": {"x": 1}, "b": {"y": [1]}}
    assert after["b"] is state["b"]


@pytest.mark.parametrize(
    "operation",
    [{}, {"op": "move", "path": "/a"}, {"op": "add", "path": "a", "value": 1}, {"op": "add", "path": "/a"}]
    + [{"op": "remove", "path": "/zz"}, {"op": "replace", "path": "/zz", "value": 1}, {"op": "remove", "path": ""}]
    + [
        {"op": "remove", "path": "/l/9"},
        {"op": "add", "path": "/l/01", "value": 1},
        {"op": "add", "path": "/l/-1", "value": 1},
    ]
    + [{"op": "add", "path": "/n/x", "value": 1}, {"op": "add", "path": None, "value": 1}],
)
def test_patches_that_do_not_fit_are_refused(operation: dict[str, Any]) -> None:
    with pytest.raises(StateError):
        apply_patch({"a": 1, "l": [1], "n": None}, [operation])

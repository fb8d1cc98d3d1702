"""Ends held against golden states: small states by hand, and what a hostile or a careless agent might leave."""

from __future__ import annotations

import copy
import itertools
import random
from collections import Counter
from typing import Any

import pytest

from synthesis.contracts.verifier_kinds import GoldenVerifier, Volatile
from synthesis.runtime import encode_state
from synthesis.verifiers.golden.state_comparison import golden_differences
from synthesis.verifiers.golden.volatile_places import find_reference_places

START: dict[str, Any] = {
    "orders": {"O-1": {"id": "O-1", "item": "soap", "count": 1, "at": "2026-06-01T08:00:00"}},
    "payments": {},
    "tickets": [{"id": 1, "text": "leak"}, {"id": 2, "text": "noise"}],
    "lines": [],
    "badges": [],
    "loans": [],
    "log": ["opened"],
    "tags": {"red", "blue"},
    "next_order": 2,
    "status": "open",
}
VOLATILE = (
    ("/orders/+", "id"),
    ("/orders/+/at", "timestamp"),
    ("/payments/+", "id"),
    ("/payments/+/code", "token"),
    ("/tickets/+", "id"),
    ("/lines/+/ticket_id", "id"),
    ("/badges/+", "id"),
    ("/loans/+", "id"),
    ("/next_order", "counter"),
)


def order(name: str, item: str = "tea", at: Any = "2026-06-02T10:00:00", **more: Any) -> dict[str, Any]:
    return {name: {"id": name, "item": item, "count": 3, "at": at, **more}}


def payment(name: str, order: str, code: Any = "x7Qa", **more: Any) -> dict[str, Any]:
    return {name: {"id": name, "order_id": order, "code": code, **more}}


def badges(made: str, lent: str) -> dict[str, Any]:
    """Badges with number and letter, and loans of them by number, the first one once and so on."""
    return {
        "badges": [{"id": int(text[:-1]), "of": text[-1]} for text in made.split()],
        "loans": [{"badge_id": int(text), "times": times} for times, text in enumerate(lent.split(), 1)],
    }


def state(**changes: Any) -> dict[str, Any]:
    """The start with other attributes; records of `orders` and `payments` are added."""
    made = copy.deepcopy(START)
    for name, value in changes.items():
        made[name] = made[name] | value if name in ("orders", "payments") else value
    return made


def golden(volatile: Any = VOLATILE, equality: Any = "roles", **changes: Any) -> GoldenVerifier:
    places = tuple(Volatile(path=path, role=role) for path, role in volatile)
    return GoldenVerifier(state=encode_state(state(**changes)), volatile=places, equality=equality)


def differences(right: GoldenVerifier, end: dict[str, Any]) -> list[tuple[str, str]]:
    found = golden_differences(right, encode_state(START), encode_state(end))
    return [(change.path, change.kind) for change in found]


TWO: dict[str, Any] = {"orders": order("O-2") | order("O-3", "milk"), "next_order": 4}
ALIKE = order("O-2") | order("O-3")
PAID_BOTH = {"orders": ALIKE, "payments": payment("P-1", "O-2") | payment("P-2", "O-3")}
TICKETS = [*START["tickets"], {"id": 3, "text": "3"}]
LINES = {"tickets": TICKETS, "lines": [{"ticket_id": 3, "count": 3}]}
EQUAL: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "itself": (TWO, TWO),
    "other ids": (TWO, {"orders": order("O-7") | order("O-5", "milk"), "next_order": 8}),
    "the ids of the other record": (TWO, {"orders": order("O-3") | order("O-2", "milk"), "next_order": 4}),
    "another moment": (TWO, TWO | {"orders": order("O-2", at="2027-01-01T00:00:00.5") | order("O-3", "milk")}),
    "seconds as a text": (
        {"orders": order("O-2", at="1735722005.000004")},
        {"orders": order("O-2", at="1835722005.01")},
    ),
    "references renamed": (
        {"orders": order("O-2"), "payments": payment("P-1", "O-2", note="for O-2")},
        {"orders": order("O-9"), "payments": payment("P-4", "O-9", "zz", note="for O-9")},
    ),
    "records that are alike": (
        PAID_BOTH,
        {"orders": order("O-5") | order("O-4"), "payments": payment("P-8", "O-4") | payment("P-9", "O-5")},
    ),
    "records that hold the ids of others alone": (
        {"payments": {"P-1": {"room_id": "R-1"}, "P-2": {"room_id": "R-3"}}},
        {"payments": {"P-1": {"room_id": "R-3"}, "P-2": {"room_id": "R-1"}}},
    ),
    "numbers as ids": (
        LINES,
        {"tickets": [*START["tickets"], {"id": 4, "text": "3"}], "lines": [{"ticket_id": 4, "count": 3}]},
    ),
    "records by id in another order": (
        {"tickets": [*TICKETS, {"id": 4, "text": "b"}]},
        {"tickets": [*START["tickets"], {"id": 5, "text": "b"}, {"id": 8, "text": "3"}]},
    ),
    "collections told apart by the ids of another": (badges("1a 2b", "1 2"), badges("4b 5a", "5 4")),
    "a set": ({"tags": {"red", "green"}}, {"tags": {"green", "red"}}),
}


@pytest.mark.parametrize("name", EQUAL)
def test_ends_that_differ_in_volatile_places_alone_are_equal(name: str) -> None:
    right, end = EQUAL[name]
    assert differences(golden(**right), state(**end)) == []
    assert differences(golden(**end), state(**right)) == []


UNEQUAL: dict[str, tuple[dict[str, Any], dict[str, Any], list[tuple[str, str]]]] = {
    "nothing done": (TWO, {}, [("/orders", "missing")]),
    "one left out": (TWO, {"orders": order("O-2"), "next_order": 3}, [("/orders", "missing")]),
    "one too many": (TWO, TWO | {"orders": ALIKE | order("O-4", "milk")}, [("/orders", "added")]),
    "the same once more": (TWO, TWO | {"orders": TWO["orders"] | order("O-4")}, [("/orders", "added")]),
    "another value": (TWO, TWO | {"orders": order("O-2", "tee") | order("O-3", "milk")}, [("/orders/+/item", "value")]),
    "a field more": (TWO, TWO | {"orders": order("O-2", by=1) | order("O-3", "milk")}, [("/orders/+/by", "value")]),
    "no moment": (TWO, TWO | {"orders": order("O-2", at="") | order("O-3", "milk")}, [("/orders/+/at", "value")]),
    "another kind of moment": (
        TWO,
        TWO | {"orders": order("O-2", at="2026-06-02") | order("O-3", "milk")},
        [("/orders/+/at", "value")],
    ),
    "a text as a moment": (
        TWO,
        TWO | {"orders": order("O-2", at="cancelled") | order("O-3", "milk")},
        [("/orders/+/at", "value")],
    ),
    "no token": (
        {"payments": payment("P-1", "O-1")},
        {"payments": payment("P-1", "O-1", None)},
        [("/payments/+/code", "value")],
    ),
    "a counter that is a text": (TWO, TWO | {"next_order": "4"}, [("/next_order", "value")]),
    "a counter that is true": (TWO, TWO | {"next_order": True}, [("/next_order", "value")]),
    "a moment of an old record": (
        TWO,
        TWO | {"orders": TWO["orders"] | order("O-1", "soap", "2027-06-01T08:00:00", count=1)},
        [("/orders/O-1/at", "value")],
    ),
    "an old record removed": (TWO, {"orders": TWO["orders"], "gone": 1}, [("/orders", "removed")]),
    "paid for an old record": (
        {"orders": order("O-2"), "payments": payment("P-1", "O-2")},
        {"orders": order("O-2"), "payments": payment("P-1", "O-1")},
        [("/payments/+/order_id", "value")],
    ),
    "a reference to nothing": (
        {"orders": order("O-2"), "payments": payment("P-1", "O-2")},
        {"orders": order("O-3"), "payments": payment("P-1", "O-2")},
        [("/payments/+/order_id", "value")],
    ),
    "one of two that are alike paid twice": (
        PAID_BOTH,
        {"orders": ALIKE, "payments": payment("P-1", "O-2") | payment("P-2", "O-2")},
        [("/payments/+/order_id", "value")],
    ),
    "the loan of another badge": (
        badges("1a 2b", "1 2"),
        badges("4a 5b", "5 4"),
        [("/loans/+/times", "value"), ("/loans/+/times", "value")],
    ),
    "the wrong one of two": (
        TWO | {"payments": payment("P-1", "O-2")},
        TWO | {"payments": payment("P-1", "O-3")},
        [("/payments/+/order_id", "value")],
    ),
    "a number that happens to be the id": (
        LINES,
        {"tickets": [*START["tickets"], {"id": 4, "text": "3"}], "lines": [{"ticket_id": 4, "count": 4}]},
        [("/lines/+/count", "value")],
    ),
    "a text that happens to be the id": (
        {"tickets": TICKETS},
        {"tickets": [*START["tickets"], {"id": 4, "text": "4"}]},
        [("/tickets/+/text", "value")],
    ),
    "the name of an old record in the place of an id": (
        {"orders": order("O-2")},
        {"orders": {"O-2": order("O-1")["O-1"]}},
        [("/orders/+/id", "value")],
    ),
    "entries in another order": ({"log": ["opened", "a", "b"]}, {"log": ["opened", "b", "a"]}, [("/log", "reordered")]),
    "an entry twice": ({"log": ["opened", "a"]}, {"log": ["opened", "a", "a"]}, [("/log", "added")]),
    "old records in another order": (
        {"status": "done"},
        {"status": "done", "tickets": START["tickets"][::-1]},
        [("/tickets", "reordered")],
    ),
    "a list instead of a set": ({"status": "done"}, {"status": "done", "tags": ["blue", "red"]}, [("/tags", "value")]),
    "a key that is a number": (
        {"lines": {1: 5}},
        {"lines": {"1": 5}},
        [("/lines", "value")],
    ),
    "an attribute more": ({"status": "done"}, {"status": "done", "extra": 1}, [("/extra", "value")]),
}


@pytest.mark.parametrize("name", UNEQUAL)
def test_whatever_else_differs_is_said(name: str) -> None:
    right, end, expected = UNEQUAL[name]
    made = state(**{key: value for key, value in end.items() if key not in ("extra", "gone")})
    made |= {"extra": 1} if "extra" in end else {}
    if "gone" in end:
        del made["orders"]["O-1"]
    found = differences(golden(**right), made)
    if name == "an old record removed":
        found = [one for one in found if one[0] == "/orders"]
    assert found == expected


def shuffled_world(luck: random.Random, count: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Records that name each other at random, and the same under other ids and in another order."""
    names = [f"O-{number}" for number in luck.sample(range(10, 90), count)]
    others = dict(zip(names, [f"O-{number}" for number in luck.sample(range(10, 90), count)], strict=True))
    pays = [f"P-{number}" for number in range(count + 1)]
    moved = dict(zip(pays, luck.sample(pays, count + 1), strict=True))
    items = {name: (luck.choice(["tea", "tea", "milk"]), luck.choice([*[None] * 4, *names])) for name in names}
    paid = {pay: luck.choice(names) for pay in pays}
    one: dict[str, Any] = {"orders": {}, "payments": {}}
    two: dict[str, Any] = {"orders": {}, "payments": {}}
    for name in names:
        item, after = items[name]
        one["orders"] |= order(name, item, after=after)
        two["orders"] = order(others[name], item, "2030-01-01T01:01:01", after=others.get(after or "")) | two["orders"]
    for pay in luck.sample(pays, count + 1):
        one["payments"] |= payment(pay, paid[pay])
        two["payments"] |= payment(moved[pay], others[paid[pay]], luck.random())
    return state(**one), state(**two)


def same_but_one(luck: random.Random, world: dict[str, Any]) -> dict[str, Any]:
    """The world with one payment or order that names another order, so that some are named more often than before."""
    changed = copy.deepcopy(world)
    record = luck.choice([*changed["payments"].values()])
    record["order_id"] = luck.choice([name for name in world["orders"] if name != record["order_id"]])
    return changed


def isomorphic(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two worlds are the same under some other ids, by trying all of them."""

    def facts(world: dict[str, Any], names: dict[str, str]) -> Any:
        rows = [(names[key], item["item"], names.get(item.get("after") or "")) for key, item in world["orders"].items()]
        paid = sorted(names[item["order_id"]] for item in world["payments"].values())
        return sorted(rows, key=str), paid

    own = {key: key for key in one["orders"]}
    right = facts(one, own)
    new = [key for key in other["orders"] if key not in START["orders"]]
    targets = [key for key in one["orders"] if key not in START["orders"]]
    return any(
        facts(other, dict(zip(new, chosen, strict=True)) | {"O-1": "O-1"}) == right
        for chosen in itertools.permutations(targets)
    )


def test_ids_are_matched_exactly_if_some_bijection_does() -> None:
    """Against all bijections, tried one by one."""
    luck, seen = random.Random(5), Counter[bool]()
    for _ in range(80):
        one, two = shuffled_world(luck, luck.randrange(2, 6))
        for payments in (one["payments"], two["payments"]):
            for item in payments.values():
                item["code"] = "x"
        assert differences(golden(**{key: one[key] for key in ("orders", "payments")}), two) == []
        wrong = same_but_one(luck, two)
        equal = isomorphic(one, wrong)
        seen[equal] += 1
        found = differences(golden(**{key: one[key] for key in ("orders", "payments")}), wrong)
        assert (found == []) is equal
    assert min(seen[True], seen[False]) > 0


@pytest.mark.parametrize("more", [0, 1, 5_000], ids=["as many", "one more", "many more"])
def test_many_records_that_are_alike_are_compared_in_bounded_time(more: int) -> None:
    def orders(first: int, count: int) -> dict[str, Any]:
        return {"orders": {name: one for at in range(count) for name, one in order(f"O-{first + at}").items()}}

    right = golden(**orders(100, 1_000))
    found = differences(right, state(**orders(500, 1_000 + more)))
    assert found == ([("/orders", "added")] if more else [])


def test_the_only_id_of_a_record_under_another_key_is_a_reference() -> None:
    start: dict[str, Any] = {"orders": {}, "payments": {}}
    end = {"orders": {"7": {"item": "tea"}}, "payments": {"P-1": {"order_id": 7}}}
    assert find_reference_places(encode_state(start), encode_state(end), {"7"}) == ["/payments/+/order_id"]

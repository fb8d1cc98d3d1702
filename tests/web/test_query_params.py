"""Query parameters: bounded, free of NUL, and left out where they cannot mean anything."""

from __future__ import annotations

from datetime import date

import pytest
from django.http import QueryDict

from webapp.common.query_params import LARGEST_ID, Params, parse_whole_number


def params(query: str) -> Params:
    return Params(QueryDict(query))


def test_texts_are_bounded_and_hold_no_nul() -> None:
    read = params("q=%20a%00b%20&q=second&long=" + "x" * 500)
    assert read.text("q") == "second", "the last one counts, as for Django"
    assert read.texts("q") == [" ab ", "second"]
    assert len(read.text("long")) == 200
    assert read.text("long", 3) == "xxx"
    assert params("q=%20a%20").text("q", strip=True) == "a"
    assert read.text("none") == ""
    assert not read.unreadable


def test_a_choice_is_one_of_what_is_known() -> None:
    read = params("a=x&b=odd&c=")
    assert [read.choice(name, ("x", "y"), "y") for name in "abcd"] == ["x", "y", "y", "y"]
    assert read.unreadable == ["b"]
    assert read.list_messages({"b": "b is odd.", "c": "c is odd."}) == ["b is odd."]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("7", 7),
        (" 7 ", 7),
        ("0", 0),
        ("007", 7),
        ("99", 99),
        *((text, None) for text in ("-1", "1.0", "+1", "1_0", "100", "\u0661", "\u00b2", "9" * 5_000, "", "\x00")),
    ],
    ids=ascii,
)
def test_a_number_is_spelled_in_digits_within_its_bounds(text: str, number: int | None) -> None:
    query = QueryDict(mutable=True)
    query["n"] = text
    read = Params(query)
    assert read.number("n", high=99) == number
    assert read.unreadable == ([] if number is not None or not text else ["n"])


def test_ids_fit_into_a_column() -> None:
    read = params(f"a={LARGEST_ID}&b={LARGEST_ID + 1}&c=0&list=3,x,3,,9,{LARGEST_ID + 1},4")
    assert (read.id("a"), read.id("b"), read.id("c")) == (LARGEST_ID, None, None)
    assert read.ids("list", 10) == [3, 9, 4]
    assert read.ids("list", 1) == [3]
    assert read.ids("none", 2) == []
    assert parse_whole_number("12", 13) is None


def test_decimals_days_and_flags() -> None:
    read = params("half=0.5&much=1e300&odd=nan&word=x&day=2026-01-31&dusk=2026-02-31&on=1&yes=true&off=0")
    assert [read.decimal(name) for name in ("half", "much", "odd", "word", "none")] == [0.5, None, None, None, None]
    assert (read.day("day"), read.day("dusk"), read.day("none")) == (date(2026, 1, 31), None, None)
    assert [read.flag(name) for name in ("on", "yes", "off", "none")] == [True, True, False, False]
    assert read.unreadable == ["much", "odd", "word", "dusk"]

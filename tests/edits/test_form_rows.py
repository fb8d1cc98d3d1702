"""The answer form of a draft as rows: typed, rearranged, and refused at the field that is wrong."""

from __future__ import annotations

from typing import Any

import pytest
from django.http import QueryDict

from webapp.edits.answer_forms.form_parts import fit_values, follow_form, merge_fields, merge_values
from webapp.edits.answer_forms.form_rows import FieldRow, WrongForm, build_form, list_rows, read_rows, rearrange_rows

FORM: list[dict[str, Any]] = [
    {"name": "total", "type": "money", "description": "what is paid", "unit": "EUR", "tolerance": 0.5},
    {"name": "way", "type": "enumeration", "choices": ["by card", "cash"], "required": False},
    {
        "name": "stops",
        "type": "list",
        "ordered": True,
        "items": {
            "name": "stop",
            "type": "record",
            "fields": [{"name": "place", "type": "name"}, {"name": "at", "type": "time", "tolerance": 5.0}],
        },
    },
]
EXPECTED = {"total": 73.3, "way": None, "stops": [{"place": "Eastholm", "at": "17:40"}]}


def posted(rows: list[FieldRow]) -> QueryDict:
    """What a browser sends of these rows."""
    post = QueryDict(mutable=True)
    for row in rows:
        post.appendlist("form_row", str(row.key))
        at = f"form-{row.key}-"
        texts = ("level", "name", "type", "description", "unit", "tolerance", "choices", "expected")
        post.update({at + name: str(getattr(row, name)) for name in texts})
        boxes = {"ordered": row.ordered, "optional": not row.required, "left_out": row.is_left_out}
        post.update({at + name: "1" for name, ticked in boxes.items() if ticked})
    return post


def test_a_form_comes_back_from_its_inputs_as_it_was() -> None:
    rows = read_rows(posted(list_rows(FORM, EXPECTED)))
    assert [(row.level, row.label) for row in rows] == [
        (0, "total"), (0, "way"), (0, "stops"), (1, "each item"), (2, "place"), (2, "at"),
    ]  # fmt: skip
    assert build_form(rows) == (FORM, EXPECTED)


def test_fields_are_added_moved_with_what_is_in_them_and_taken_out() -> None:
    rows = rearrange_rows(list_rows(FORM, EXPECTED), "form_up:2")
    assert [row.name for row in rows if not row.level] == ["total", "stops", "way"]
    rows = rearrange_rows(rows, "form_up:2")
    assert [row.name for row in rows] == ["stops", "stop", "place", "at", "total", "way"]
    assert rearrange_rows(rows, "form_up:2") == rows, "the first stays first"
    rows = rearrange_rows(rows, "form_down:4")
    assert [row.name for row in rows][:4] == ["stops", "stop", "at", "place"]
    rows = rearrange_rows(rearrange_rows(rows, "form_inside:3"), "form_add")
    assert [(row.level, row.name) for row in rows if row.is_new] == [(2, ""), (0, "")]
    assert [row.name for row in rearrange_rows(rows, "form_out:2")] == ["total", "way", ""]
    assert rearrange_rows(rows, "form_out:99") == rearrange_rows(rows, "form_burn:1") == rows


def test_a_type_that_holds_others_gets_a_row_for_them_and_loses_it_again() -> None:
    [row] = list_rows([{"name": "names", "type": "text"}], {})
    row.type = "list"
    rows = read_rows(posted([row]))
    assert [(one.level, one.label) for one in rows] == [(0, "names"), (1, "each item")]
    assert build_form(rows)[0][0]["items"] == {"name": "item"}
    rows[0].type = "record"
    rows = read_rows(posted(rows))
    assert [(one.level, one.label) for one in rows] == [(0, "names"), (1, "item")]
    rows[0].type = "number"
    assert [one.label for one in read_rows(posted(rows))] == ["names"]


@pytest.mark.parametrize(
    ("change", "part", "words"),
    [
        ({"name": "Total paid"}, "name", "small letters"),
        ({"tolerance": "much"}, "tolerance", "write a number"),
        ({"tolerance": "-1"}, "tolerance", "greater than or equal to 0"),
        ({"description": "x" * 301}, "description", "at most 300"),
        ({"expected": "seventy"}, "expected", "write a number"),
        ({"expected": "73.333"}, "expected", "two decimals"),
        ({"type": "date", "expected": "2027-02-30"}, "expected", "YYYY-MM-DD"),
        ({"type": "enumeration", "choices": " \n "}, "", "choices"),
        ({"type": "list", "expected": "[1,"}, "expected", "at character"),
        ({"name": "way"}, "name", "another field has this name"),
        ({"type": "name", "expected": "\x1b[31m" * 20_000}, "expected", "50,000"),
    ],
)
def test_what_is_wrong_is_said_at_its_field(change: dict[str, str], part: str, words: str) -> None:
    rows = list_rows(FORM, {name: value for name, value in EXPECTED.items() if name != "total"})
    for name, value in change.items():
        setattr(rows[0], name, value)
    with pytest.raises(WrongForm) as refused:
        build_form(read_rows(posted(rows)))
    wrong = [row for row in refused.value.rows if row.errors]
    assert len(wrong) == 1
    assert part in wrong[0].errors
    assert words in wrong[0].error_text
    assert words in str(refused.value)


def test_a_form_of_too_many_fields_is_refused_and_none_is_cut() -> None:
    rows = [FieldRow(key=number, name=f"field_{number}") for number in range(21)]
    with pytest.raises(WrongForm, match="at most 20"):
        build_form(read_rows(posted(rows)))
    rows = [FieldRow(key=number, name=f"field_{number}") for number in range(300)]
    with pytest.raises(Exception, match="too many to be typed"):
        build_form(read_rows(posted(rows)))
    hostile = QueryDict("form_row=%C2%B2&form_row=-1&form_row=x&form_row=7&form-7-level=%C2%B2&form-7-type=shell")
    assert [(row.key, row.level, row.type) for row in read_rows(hostile)] == [(7, 0, "text")]


def test_a_draft_put_on_a_newer_form_keeps_what_it_changed() -> None:
    one, two, three = ({"name": name, "type": "text"} for name in ("one", "two", "three"))
    mine = [{**one, "description": "mine"}, two]
    assert merge_fields([one, two], mine, [{**two, "unit": ""}, three]) == [mine[0], {**two, "unit": ""}, three]
    assert merge_fields([one, two], [two], [one, two]) == [two], "what it took out stays out"
    before, now = {"one": 1, "two": 2}, {"one": 5, "three": 3}
    assert merge_values(before, {"one": 1, "two": 7}, now) == {"one": 5, "two": 7, "three": 3}
    assert merge_values(before, {"one": 1}, before) == {"one": 1}
    assert fit_values([{"name": "one", "type": "number"}], {"one": 5, "two": 7}) == {"one": 5}
    assert fit_values([{"name": "one", "type": "date"}], {"one": 5}) == {}


def test_a_references_answer_follows_the_form_only_where_that_says_it_all() -> None:
    from synthesis.formats.answer_form import read_form

    form = read_form({"answer_form": [{"name": "total", "type": "money"}, {"name": "who", "type": "name"}]}, "")
    assert follow_form('{"who": "Olga"}', form, {"total": 5.9}) == '{"total": 5.9, "who": "Olga"}'
    assert follow_form("It is 5.90.", form, {"total": 5.9}) == "It is 5.90."

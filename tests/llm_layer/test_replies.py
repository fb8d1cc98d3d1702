"""Replies in the ways of many model families: useful ones are read as meant, useless ones say what is wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest

from synthesis.errors import InputError
from synthesis.llm.reply_reader import read_object
from synthesis.llm.source_reader import read_source
from tests.benchmarks.replies import CORPUS, judged, rows_of, shape_of

ROWS = rows_of(CORPUS)
SHAPES = [shape_of(row["expect"]) for row in ROWS if row["form"] == "json" and row["useful"]]
VAGUE = ("it is bad", "malformed", "invalid")


def test_the_corpus_is_wide() -> None:
    assert len(ROWS) >= 150
    assert len({row["family"] for row in ROWS} - {"hostile"}) >= 8
    assert sum(not row["useful"] for row in ROWS) >= 40
    assert {row["form"] for row in ROWS} == {"json", "code"}


@pytest.mark.parametrize("family", sorted({row["family"] for row in ROWS}))
def test_what_is_useful_is_read_and_nothing_else(family: str) -> None:
    wrong = []
    for line, row in enumerate(ROWS, 1):
        if row["family"] == family:
            kind, said = judged(row, SHAPES)
            if kind != ("read" if row["useful"] else "refused"):
                wrong.append((line, kind, said, row["reply"][:300]))
            elif kind == "refused":
                assert 10 < len(said) < 700
                assert not said.startswith(VAGUE)
    assert wrong == []


@pytest.mark.parametrize(
    ("text", "repairs"),
    [
        ('{"word": "a"}', set()),
        ('Here: {"word": "a",}', {"trailing comma"}),
        ("{'word': 'a', 'b': None}", {"Python literal"}),
        ('{"word": "a\nb"}', {"raw newline"}),
        ('{"word": "a" // why\n}', {"comment"}),
        ('{word: "a"}', {"key without quotes"}),
        ('{"word": "say "no" now"}', {"quote not escaped"}),
        ('"{\\"word\\": \\"a\\"}"', {"encoded twice"}),
        ('{"word": "a"\n "b": 1}', {"missing comma"}),
    ],
)
def test_what_was_repaired_is_named(text: str, repairs: set[str]) -> None:
    assert set(read_object(text, shape_of({"word": ""})).repairs) == repairs


def test_code_says_what_was_repaired() -> None:
    assert read_source("```python\n    def f():\n        return 1\n```").repairs == {"indented"}
    assert read_source("Here:\n\ndef f():\n    return 1\n\nThat is it.").repairs == {"no fence"}


@pytest.mark.parametrize(
    "text",
    [
        '{"word": "a" "b" "c"}',
        '{"word": "a", "items": [{"word": "b"}, {"word": "c"',
        'So {"word": "a"}\n\nor {"word": "b"}',
        '{"word": "a", "more": [1, 2, ...]}',
        '```json\n{"word": "a"}\n```\nThe other option:\n```json\n{"word": "b"}\n```',
        '[{"word": "a"}, {"word": "b"}]',
        '{"word": "a", "n": 01}',
        "```python\n{'word': open('x')}\n```",
    ],
)
def test_what_could_mean_something_else_is_not_guessed(text: str) -> None:
    with pytest.raises(InputError):
        read_object(text, shape_of({"word": ""}))


def test_an_inner_object_is_never_taken_for_a_broken_outer_one() -> None:
    inner: dict[str, Any] = {"word": "a"}
    for text in (
        '{"items": [' + json.dumps(inner),
        '{"items": [' + json.dumps(inner) + "\n\n" + json.dumps(inner),
        '{"items": {' + json.dumps(inner) + "}}",
    ):
        with pytest.raises(InputError):
            read_object(text, shape_of({"word": ""}))

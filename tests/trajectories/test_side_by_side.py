"""Alignment of steps of several attempts, and the sentence that says where they part."""

from __future__ import annotations

from itertools import pairwise

import pytest

from webapp.trajectories.side_by_side.alignment import (
    AlignedRow,
    ComparedStep,
    Likeness,
    align_steps,
    find_common_subsequence,
    group_stretches,
)
from webapp.trajectories.side_by_side.call_texts import build_call_pieces, format_call
from webapp.trajectories.side_by_side.parting_point import build_sentence, find_parting
from webapp.trajectories.side_by_side.queries import read_ids

SAME, RESULT, ARGUMENTS, MISSING = Likeness.SAME, Likeness.RESULT, Likeness.ARGUMENTS, Likeness.MISSING


def attempt(*calls: str) -> list[ComparedStep]:
    """`tool arguments=result!change`; what begins with a quotation mark is said by the agent."""
    steps = []
    for index, text in enumerate(calls):
        if text.startswith('"'):
            steps.append(ComparedStep(index, "message", said=text))
            continue
        call, _, came = text.partition("=")
        tool, _, said = call.partition(" ")
        result, _, change = came.partition("!")
        steps.append(ComparedStep(index, "query", tool, said, result, change))
    return steps


def drawn(rows: list[AlignedRow]) -> list[tuple[int | None, ...]]:
    return [tuple(step.index if step else None for step in row.steps) for row in rows]


def likenesses(rows: list[AlignedRow]) -> list[Likeness]:
    return [row.likeness for row in rows]


def sentence(*attempts: list[ComparedStep]) -> str:
    names = [12, 15, 16, 17][: len(attempts)]
    phrases = build_sentence(
        align_steps(attempts), names, lambda _, step: f"{step.tool}({step.said})", lambda _, step: f"[{step.result}]"
    )
    return "".join(phrase.text for phrase in phrases)


def test_an_extra_call_has_a_row_of_its_own_and_the_others_meet_again():
    first = attempt("list", "book P-11", "book P-15,12:00", "send P-11", "send P-15,12:00", '"done"')
    second = attempt("list", "book P-11", "get P-15", "book P-15,09:30", "send P-11", "send P-15,09:30", '"done"')
    rows = align_steps([first, second])
    assert drawn(rows) == [(0, 0), (1, 1), (None, 2), (2, 3), (3, 4), (4, 5), (5, 6)]
    assert likenesses(rows) == [SAME, SAME, MISSING, ARGUMENTS, SAME, ARGUMENTS, SAME]
    assert find_parting(rows).row == 2
    assert (
        sentence(first, second)
        == "They part at step 2: attempt 15 calls get(P-15) where attempt 12 calls book(P-15,12:00)."
    )


def test_the_same_call_with_another_result_or_change_is_where_they_part():
    assert sentence(attempt("list=1", "get=2"), attempt("list=1", "get=3")) == (
        "They part at step 1: all call get(), and attempt 12 gets [2], attempt 15 gets [3]."
    )
    changed = [attempt("set=1!a", "get=2"), attempt("set=1!b", "get=3")]
    assert find_parting(align_steps(changed)).likeness == Likeness.STATE
    assert (
        sentence(*changed)
        == "They part at step 0: all call set() with the same result, and the state changes otherwise."
    )


def test_words_alone_do_not_part_attempts():
    spoken = [attempt('"I look"', "get"), attempt('"Let me see"', "get"), attempt('"Well"', "get")]
    rows = align_steps(spoken)
    assert likenesses(rows) == [Likeness.WORDS, SAME]
    assert find_parting(rows) is None
    assert sentence(*spoken) == "Their calls, results and states are the same; only words differ, first at step 0."
    silent = align_steps([attempt("get", "put 1"), attempt('"I look"', "get", "put 2")])
    assert find_parting(silent).steps[0].index == 1
    assert find_parting(silent).steps[1].index == 2
    assert sentence(attempt("get"), attempt("get")) == "They do the same at every step."


def test_three_and_four_attempts_are_put_into_the_same_rows():
    four = [
        attempt("list", "book 1", "send 1"),
        attempt("list", "get 1", "book 1", "send 1"),
        attempt("list", "get 1", "book 2"),
        attempt("list"),
    ]
    rows = align_steps(four)
    assert drawn(rows) == [(0, 0, 0, 0), (None, 1, 1, None), (1, 2, 2, None), (2, 3, None, None)]
    assert sentence(*four) == (
        "They part at step 1: attempts 15 and 16 call get(1) where attempt 12 calls book(1), attempt 17 has ended."
    )


def test_an_attempt_without_steps_has_ended_before_the_first():
    assert drawn(align_steps([[], attempt("get")])) == [(None, 0)]
    assert sentence(attempt("get"), []) == "They part at step 0: attempt 12 calls get() where attempt 15 has ended."
    assert align_steps([[], []]) == []


@pytest.mark.parametrize(
    ("left", "right", "length"),
    [
        ("abcde", "abxde", 4),
        ("abc", "cab", 2),
        ("aaaa", "aa", 2),
        ("", "a", 0),
        ("abcbdab", "bdcaba", 4),
        ("xab", "yab", 2),
    ],
)
def test_a_longest_common_subsequence_is_found(left: str, right: str, length: int):
    pairs = find_common_subsequence([{letter} for letter in left], right)
    assert len(pairs) == length
    assert all(left[one] == right[two] for one, two in pairs)
    assert all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(pairs))


def test_thousands_of_equal_calls_meet_around_one_that_is_not():
    first = attempt("start 1", *["poll"] * 4_000)
    second = attempt("start 2", *["poll"] * 1_500, "extra", *["poll"] * 2_000)
    rows = align_steps([first, second, first])
    assert sum(row.likeness == SAME for row in rows) == 3_500
    assert max(len(run) for run in group_stretches(rows)) >= 1_500


def test_runs_of_equal_rows_fold():
    rows = align_steps([attempt("a", "b", "c 1", "d"), attempt("a", "b", "c 2", "d")])
    assert [len(run) for run in group_stretches(rows)] == [2, 1, 1]


def test_the_arguments_that_differ_are_marked_and_long_calls_are_cut():
    pieces = build_call_pieces("book", {"who": "P-15", "at": "12:00"}, [{"who": "P-15", "at": "09:30"}])
    assert [piece.text for piece in pieces if piece.differs] == ['at="12:00"']
    assert "".join(piece.text for piece in pieces) == 'book(who="P-15", at="12:00")'
    many = {f"a{number}": 1 for number in range(20)} | {"last": 2}
    marked = build_call_pieces("t", many, [many | {"last": 3}])
    assert [piece.text for piece in marked if piece.differs] == ["last=2"]
    assert marked[-1].text == ", … 13 more)"
    assert len(format_call("t", {"x": "y" * 9_999})) < 100
    assert format_call("t", "cut [1") == "t(cut [1)"
    assert format_call("t", None) == "t()"


def test_ids_come_as_a_list_or_one_by_one():
    assert read_ids(["12,15"]) == [12, 15]
    assert read_ids(["12", "15", "12", "x", "-1", ""]) == [12, 15]
    assert read_ids(["9" * 40]) == []
    assert len(read_ids([",".join(map(str, range(1, 999)))])) == 50

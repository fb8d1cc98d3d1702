"""Task sets as people bring them: any of the usual forms, and a clear reason where there is no task."""

from __future__ import annotations

import json
from typing import Any

import pytest

from synthesis.formats import tasksets
from synthesis.formats.files import UnreadableFile
from synthesis.formats.records import Failure
from synthesis.formats.tasksets import SourceTask, build_task_key, parse_tasks, read_source_tasks

ASK = "Cancel the order of Mrs Ito"


def found(content: Any, name: str = "set.json") -> list[SourceTask | Failure]:
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    return [one for _, one in read_source_tasks(parse_tasks(data, name))]


def texts(content: Any, name: str = "set.json") -> list[str]:
    return [one.text if isinstance(one, SourceTask) else f"! {one.reason}" for one in found(content, name)]


@pytest.mark.parametrize(
    "record",
    [
        ASK,
        {"task": ASK},
        {"instruction": ASK, "input": "", "output": "Done."},
        {"query": f"  {ASK}\n"},
        {"messages": [{"role": "system", "content": "You help."}, {"role": "user", "content": ASK}]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": ASK}, {"type": "image_url"}]}]},
        {"messages": json.dumps([{"role": "user", "content": ASK}])},
        {"conversations": [{"from": "human", "value": ASK}, {"from": "gpt", "value": "Done."}]},
        {"task": ASK, "query": ASK},
    ],
)
def test_every_usual_form_gives_the_task(record: Any) -> None:
    assert texts([record]) == [ASK]
    assert texts((json.dumps(record) + "\n").encode(), "set.jsonl") == [ASK]
    assert texts({"tasks": [record]}) == [ASK]
    key = found([record])[0]
    assert isinstance(key, SourceTask)
    assert key.key == build_task_key(ASK), "the key is of the text, whatever form it came in"


def test_a_single_record_is_one_task_and_an_object_by_id_is_many() -> None:
    assert texts({"instruction": ASK, "input": "Order 7", "output": "Done."}) == [f"{ASK}\n\nOrder 7"]
    assert texts({"a": ASK, "b": {"task": "Move the loan to March"}}) == [ASK, "Move the loan to March"]


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ({"task": ASK, "query": "Something else entirely"}, "different texts"),
        ({"answer": "Done, and well"}, "no task"),
        ({"messages": [{"role": "assistant", "content": "Hello there"}]}, "no message of a user"),
        ({"messages": "not a list at all"}, "not valid JSON"),
        ({"task": 12}, "expected text"),
        ({"task": "  "}, "no task"),
        ("short", "no task"),
        ("", "empty"),
        (7, "expected an object"),
        ("x" * (tasksets.MAX_TASK_CHARACTERS + 1), "characters"),
        ({"messages": [{"role": "user", "content": [5]}]}, "expected text or parts"),
    ],
)
def test_a_record_without_a_task_says_why_and_stops_no_other(record: Any, reason: str) -> None:
    failure, other = found([record, ASK])
    assert isinstance(failure, Failure)
    assert reason in failure.reason
    assert isinstance(other, SourceTask)


def test_the_same_task_twice_is_told_and_counted_once() -> None:
    assert texts([ASK, {"task": ASK}]) == [ASK, "! the same task is already at [0] in this file"]


def test_what_no_database_can_hold_is_made_visible() -> None:
    assert texts(['Cancel "\x00" for \ud800 now']) == ['Cancel "\u2400" for \ufffd now']


def test_files_that_are_no_task_sets_are_refused_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    for content in (b"", b"\x00\xff\xfe\x80binary", b"PK\x03\x04zip", b"just words", b"[" * 100_000):
        with pytest.raises(UnreadableFile):
            parse_tasks(content, "set.json")
    monkeypatch.setattr(tasksets, "MAX_TASKS", 2)
    with pytest.raises(UnreadableFile, match="split it"):
        parse_tasks(json.dumps([ASK] * 3).encode(), "set.json")


def test_plain_text_is_a_task_a_line() -> None:
    entries = parse_tasks(b"Cancel the order of Mrs Ito.\n\n  \nBook {a} room, for two.\n", "asked.TXT")
    assert [(one.place, one.value) for one in entries] == [
        ("line 1", "Cancel the order of Mrs Ito."),
        ("line 4", "Book {a} room, for two."),
    ]
    with pytest.raises(UnreadableFile, match="empty"):
        parse_tasks(b" \n", "asked.txt")

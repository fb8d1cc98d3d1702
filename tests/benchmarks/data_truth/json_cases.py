"""What JSON cannot say, at every door by which it comes in: refused with its place, and no good row lost by it."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from pydantic import BaseModel

from synthesis.errors import EnvariumError, FormatError
from synthesis.formats.answer_form import find_written_value
from synthesis.formats.files import parse_entries
from synthesis.formats.transcript import UNPARSED, parse_arguments
from synthesis.formats.values import decode_json, require_record
from synthesis.json_reader import read_json
from synthesis.llm.reply_reader import read_json as read_reply
from synthesis.llm.wire import read_arguments
from training.dataset import check_upload, parse_line

Case = tuple[str, Callable[[], None]]
BAD = {
    "NaN": '{"x": NaN}', "Infinity": '{"x": Infinity}', "-Infinity": '{"x": [-Infinity]}', "1e999": '{"x": 1e999}',
    "nested 1e999": '{"a": {"x": [1, -1e999]}}', "repeated key": '{"x": 1, "x": 2}',
    "nested repeated key": '{"a": [{"x": 1, "x": 1}]}', "half pair": '{"x": "\\ud800"}',
    "half pair as key": '{"\\udc00": 1}', "digits": '{"x": ' + "9" * 5_000 + "}",
    "depth": '{"x": ' + "[" * 500 + "]" * 500 + "}",
}  # fmt: skip
PLACED = {"NaN": "x", "-Infinity": "x[0]", "1e999": "x", "nested 1e999": "a.x[1]", "nested repeated key": "a[0]",
          "half pair": "x", "digits": "x"}  # fmt: skip
SOUND: dict[str, Any] = {
    "numbers": {"x": [1, -2.5, 1e300, 10**30, 0]}, "pairs": {"x": "\U0001f600 \u00e9"}, "null": {"x": None},
    "nested": {"a": {"b": [{"c": []}]}}, "tags": {"x": "</tool_call><|im_end|>"},
}  # fmt: skip
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
LINE = (
    '{"id": "%s", "messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": null, "tool_calls": '
    '[{"id": "c1", "type": "function", "function": {"name": "f", "arguments": %s}}]}, {"role": "tool", '
    '"tool_call_id": "c1", "content": "ok"}, {"role": "assistant", "content": "done"}], "tools": ['
    f"{json.dumps(TOOL)}]}}"
)


class _Anything(BaseModel):
    model_config = {"extra": "allow"}


def _of_line(text: str, spell: Callable[[str], str]) -> Any:
    row = parse_line((LINE % ("a", spell(text))).encode(), "trajectories").trl()
    return row["messages"][1]["tool_calls"][0]["function"]["arguments"]


def _of_model(text: str) -> Any:
    arguments, error = read_arguments(text)
    if error:
        raise FormatError("", error)
    return arguments


def _of_import(text: str) -> Any:
    kept = parse_arguments(text)
    if UNPARSED in kept:
        kept[UNPARSED].encode()
        raise FormatError("", "kept as it was written, where people see it")
    return kept


def _of_record(text: str) -> Any:
    (entry,) = parse_entries(f"[{text}]".encode())
    return require_record(entry.value, entry.place)


DOORS: dict[str, Callable[[str], Any]] = {
    "reader": read_json,
    "upload, arguments": partial(_of_line, spell=str),
    "upload, arguments as text": partial(_of_line, spell=json.dumps),
    "a model's arguments": _of_model,
    "a model's answer": find_written_value,
    "a model's JSON": lambda text: read_reply(text, _Anything).model_dump(),
    "an import's arguments": _of_import,
    "an import's record": _of_record,
    "an import's JSON in JSON": lambda text: decode_json(text, "at"),
}
REPLACED = {"a model's JSON", "an import's record", "an import's JSON in JSON"}
"""Doors behind which text is cleaned: half pairs become visible signs there."""


def _refused(door: Callable[[str], Any], text: str, place: str) -> None:
    told = ""
    try:
        door(text)
    except EnvariumError as error:
        told = str(error)
    assert told, "it was taken"
    assert place in told, f"{place!r} is not in {told}"


def _kept(door: Callable[[str], Any], value: Any) -> None:
    assert door(json.dumps(value)) == value


def _good_rows_stay(bad: str) -> None:
    """Of three lines the second is bad."""
    arguments = ('{"x": 1}', bad, '{"x": 2}')
    lines = [LINE % (name, given) for name, given in zip("abc", arguments, strict=True)]
    report = check_upload(io.BytesIO("\n".join(lines).encode()), "trajectories", leave_out=True)
    assert (report.rows, report.left_out, report.problem_count, report.ok) == (2, (2,), 1, True)
    entries = parse_entries("\n".join(lines).encode(), "x.jsonl")
    sound = 0
    for entry in entries:
        try:
            json.dumps(require_record(entry.value, entry.place), allow_nan=False)
            sound += 1
        except FormatError:
            continue
    assert sound == (3 if "\\u" in bad else 2)


def cases() -> Iterator[tuple[str, str, Callable[[], None]]]:
    for door, read in DOORS.items():
        for name, text in BAD.items():
            if not (name.startswith("half pair") and door in REPLACED):
                place = PLACED.get(name, "") if door not in ("an import's arguments", "a model's JSON") else ""
                yield "json", f"{door}: {name}", partial(_refused, read, text, place)
        for name, value in SOUND.items():
            if (door, name) != ("a model's JSON", "tags"):  # what servers leak of their templates is cut there
                yield "json", f"{door}: sound {name}", partial(_kept, read, value)
    for name, text in BAD.items():
        yield "rows", f"a line with {name} costs no other", partial(_good_rows_stay, text)

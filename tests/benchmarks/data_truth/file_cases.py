"""Malformed lines at every door of files and of replies: refused with place and reason, the good lines beside kept.

What a line says is either read with its meaning or refused; nothing ends the file it stands in, and nothing that is not
one of this project's errors leaves a reader.
"""

from __future__ import annotations

import codecs
import io
import json
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from pydantic import BaseModel

from synthesis.errors import EnvariumError
from synthesis.formats.atif_reader import read_atif_records
from synthesis.formats.envscaler import parse_environments, parse_scenarios
from synthesis.formats.envscaler_runs import parse_runs
from synthesis.formats.files import Entry, parse_entries
from synthesis.formats.records import Failure
from synthesis.llm.reply_reader import read_json as read_reply
from tests.fixtures.atif_files import TERMINAL
from tests.importing import samples
from training.dataset import TrajectoryRow, check_upload, parse_line

USER, YES = {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes."}
TOOL = {"type": "function", "function": {"name": "find", "parameters": {"type": "object", "properties": {}}}}
FIND = {"id": "c", "type": "function", "function": {"name": "find", "arguments": {}}}
CALL, RESULT = {"role": "assistant", "tool_calls": [FIND]}, {"role": "tool", "tool_call_id": "c", "content": "1"}
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "iVBORw0KGgo" * 20}}


def _talk(*messages: Any, **more: Any) -> bytes:
    return json.dumps({"messages": list(messages), "tools": [TOOL], **more}).encode()


GOOD = [_talk(USER, YES, id=name) for name in ("one", "two")]


def _calling(arguments: Any) -> dict[str, Any]:
    return {"role": "assistant", "tool_calls": [{**FIND, "function": {"name": "find", "arguments": arguments}}]}


BAD_LINES: dict[str, bytes] = {
    "a repeated key deep in a tool": _talk(USER, YES).replace(b'"properties": {}', b'"properties": {"a": {}, "a": {}}'),
    "a byte order mark in the middle": codecs.BOM_UTF8 + _talk(USER, YES),
    "UTF-16": json.dumps({"messages": [USER, YES]}).encode("utf-16-le").replace(b"\n", b""),
    "Latin-1": '{"messages": [{"role": "user", "content": "é"}]}'.encode("latin-1"),
    "a raw NUL": _talk(USER, YES).replace(b"Yes.", b"Y\x00s"),
    "a raw control character": _talk(USER, YES).replace(b"Yes.", b"Y\x1bs"),
    "an integer of 5,000 digits": _talk(USER, YES, extra="@").replace(b'"@"', b"9" * 5_000),
    "endless nesting": b'{"messages": ' + b'{"a":' * 50_000 + b"1" + b"}" * 50_000 + b"}",
    "half a pair in a key": _talk(USER, YES).replace(b'"properties": {}', b'"properties": {"\\ud83d": {}}'),
    "half a pair in an id": _talk(USER, YES, id="@").replace(b'"@"', b'"\\udc00"'),
    "a result before its call": _talk(USER, RESULT, CALL, YES),
    "two results of one call": _talk(USER, CALL, RESULT, RESULT, YES),
    "a result for another id": _talk(USER, CALL, {**RESULT, "tool_call_id": "d"}, YES),
    "content as parts": _talk({"role": "user", "content": [{"type": "text", "text": "Hi"}]}, YES),
    "a picture": _talk({"role": "user", "content": [PICTURE]}, YES),
    "content as an object": _talk({"role": "user", "content": {"text": "Hi"}}, YES),
    "content as a number": _talk({"role": "user", "content": 5}, YES),
    "function_call": _talk(USER, {"role": "assistant", "function_call": {"name": "find", "arguments": "{}"}}),
    "no messages": b'{"messages": []}',
    "messages as an object": b'{"messages": {"role": "user"}}',
    "a message as text": _talk("Hi", YES),
    "an unknown speaker": _talk({"role": "robot", "content": "Hi"}, YES),
    "the user last": _talk(USER),
    "an assistant that says nothing": _talk(USER, {"role": "assistant", "content": ""}),
    "calls as an object": _talk(USER, {"role": "assistant", "tool_calls": FIND}),
    "a call without a name": _talk(USER, {"role": "assistant", "tool_calls": [{"function": {"arguments": {}}}]}),
    "a call of a tool that is not offered": _talk(
        USER, {"role": "assistant", "tool_calls": [{**FIND, "function": {"name": "x", "arguments": {}}}]}, RESULT, YES
    ),
    "arguments as a list": _talk(USER, _calling([]), RESULT, YES),
    "arguments as text of null": _talk(USER, _calling("null"), RESULT, YES),
    "a tool twice": json.dumps({"messages": [USER, YES], "tools": [TOOL, TOOL]}).encode(),
    "an id as a number": _talk(USER, YES, id=5),
    "an id of a mebibyte": _talk(USER, YES, id="x" * (1 << 20)),
    "a control character in an id": _talk(USER, YES, id="a\tb"),
    "a field nobody knows": _talk(USER, YES, surprise=1),
    "five mebibytes": _talk(USER, {"role": "assistant", "content": "x" * (5 << 20)}),
    "a trailing comma": b'{"messages": [],}',
    "single quotes": b"{'messages': []}",
    "a comment": b'{"messages": [] /* none */}',
    "two objects": b'{"messages": []} {"messages": []}',
    "a list": b"[]",
    "text": b'"messages"',
    "half a line": _talk(USER, YES)[:-20],
    "a system message in the middle": _talk(USER, {"role": "system", "content": "s"}, YES),
    "ShareGPT with pictures": json.dumps({"conversations": [], "images": ["a.png"]}).encode(),
    "ShareGPT that nobody answers": json.dumps({"conversations": [{"from": "human", "value": "Hi"}]}).encode(),
    "Alpaca without an answer": json.dumps({"instruction": "Hi", "output": ""}).encode(),
}  # fmt: skip
SOUND_LINES: dict[str, tuple[bytes, list[str]]] = {
    "line ends of Windows": (_talk(USER, YES) + b"\r", ["Hi", "Yes."]),
    "one id in every turn": (_talk(USER, CALL, RESULT, CALL, {**RESULT, "content": "2"}, YES),
                             ["Hi", "", "1", "", "2", "Yes."]),
    "results in another order": (
        _talk(USER, {"role": "assistant", "tool_calls": [{**FIND, "id": "a"}, {**FIND, "id": "b"}]},
              {**RESULT, "tool_call_id": "b", "content": "B"}, {**RESULT, "tool_call_id": "a", "content": "A"}, YES),
        ["Hi", "", "A", "B", "Yes."],
    ),
    "signs beyond the first plane": (_talk(USER, {**YES, "content": "\U0001f600 \u202e \u2028"}),
                                     ["Hi", "\U0001f600 \u202e \u2028"]),
}  # fmt: skip


def _stays_out(bad: bytes) -> None:
    """Of three lines the second is bad: it is told with its number and what is wrong."""
    content = b"\n".join([GOOD[0], bad, GOOD[1]]) + b"\n"
    report = check_upload(io.BytesIO(content), "trajectories", leave_out=True)
    assert (report.rows, report.left_out, report.ok) == (2, (2,), True), report
    (problem,) = report.problems
    assert problem.line == 2
    assert problem.message.strip(), "it does not say what is wrong"
    assert len(problem.message) < 1_000


def _is_read(line: bytes, said: list[str]) -> None:
    row = parse_line(line, "trajectories")
    assert isinstance(row, TrajectoryRow)
    assert [message["content"] for message in row.trl()["messages"]] == said


def _foreign(content: bytes) -> list[Any]:
    found = read_atif_records(io.BytesIO(content), "x.jsonl", 1 << 26)
    return [Failure(place=one["at"], reason=one["reason"]) if "reason" in one else one for one in found]


def _parsed(parse: Callable[[list[Entry]], Iterable[tuple[str, Any]]], content: bytes) -> list[Any]:
    return [record for _, record in parse(parse_entries(content, "x.jsonl"))]


IMPORTS: dict[str, tuple[Any, Callable[[bytes], list[Any]]]] = {
    "runs": (samples.run([samples.CLOSE], 0.5), partial(_parsed, parse_runs)),
    "environments": (samples.environment(), partial(_parsed, parse_environments)),
    "scenarios": (samples.scenario(), partial(_parsed, parse_scenarios)),
    "ATIF": (TERMINAL, _foreign),
}
OWN: dict[str, list[Any]] = {
    "runs": [
        5, [], "x", {"seed": "many"}, {"seed": 10**30}, {"turns": [-1]}, {"turns": [1, 2, 3, 4, 5, 6, 7]},
        {"refused": [{"index": 99, "turn": 1, "error": {"kind": "raised"}}]}, {"refused": [{"index": 0}]},
        {"identity": "none"}, {"outcome": "solved"}, {"judged": "perhaps"}, {"score": {"reward": "all"}},
        {"surprise": 1},
        {"source": "two words"}, {"validation": "none"}, {"provenance": [1]},
    ],
    "environments": [5, {"tools": [{"name": 5}]}, {"tools": 1}, {"source": "x" * 40}, {"key": ["a"]}],
    "scenarios": [
        5, {"score_rule": "most"}, {"reference": {"calls": [{"tool": 1}]}}, {"reference": "none"},
        {"version": "y" * 99}, {"current": "perhaps"},
    ],
}  # fmt: skip
"""What stands under `envarium` in an export, spoilt."""
NO_FILE = {"UTF-16", "Latin-1"}
"""A file in another encoding is refused as a whole, with the place of the first byte that cannot be read."""


def _costs_no_other(kind: str, name: str, bad: bytes) -> None:
    good, read = IMPORTS[kind]
    content = b"\n".join([json.dumps(good).encode(), bad]) + b"\n"
    try:
        found = read(content)
    except EnvariumError as error:
        if name not in NO_FILE or "offset" not in str(error):
            raise
        return
    assert not isinstance(found[0], Failure), found[0]
    assert len(found) == 2
    assert isinstance(found[1], Failure), "it was taken"
    assert "line 2" in found[1].place
    assert found[1].reason.strip()


def _own_part_is_refused(kind: str, part: Any) -> None:
    good, read = IMPORTS[kind]
    content = "\n".join(json.dumps(one) for one in (good, {**good, "envarium": part})) + "\n"
    first, second = read(content.encode())
    assert not isinstance(first, Failure), first
    assert isinstance(second, Failure), "it was taken"
    assert second.place.startswith("line 2.envarium")
    assert second.reason.strip()


class _Reply(BaseModel):
    verdict: str
    reasons: list[str]


REPLIES: dict[str, str] = {
    "nothing": "", "spaces": " \n\t ", "words": "I think it is fine.", "null": "null", "a list": "[1, 2]",
    "a field as a list": '{"verdict": ["a"], "reasons": []}', "a field missing": '{"verdict": "a"}',
    "a fence that does not end": '```json\n{"verdict": "a", "reasons": [',
    "repeated keys": '{"verdict": "a", "verdict": "b", "reasons": []}',
    "NaN": '{"verdict": "a", "reasons": NaN}', "digits": '{"verdict": ' + "9" * 5_000 + ', "reasons": []}',
    "depth": '{"verdict": "a", "reasons": ' + "[" * 5_000 + "]" * 5_000 + "}",
    "a million braces": "{" * 1_000_000, "a thought without end": "<think>" + "so " * 5_000,
}  # fmt: skip


def _reply_is_refused(text: str) -> None:
    try:
        told = read_reply(text, _Reply)
    except EnvariumError as error:
        told = str(error).strip()
        if told:
            return
    raise AssertionError(f"it was taken, or refused without a word: {told}")


def cases() -> Iterator[tuple[str, str, Callable[[], None]]]:
    for name, bad in BAD_LINES.items():
        yield "files", f"upload: {name}", partial(_stays_out, bad)
        for kind in IMPORTS:
            yield "files", f"import of {kind}: {name}", partial(_costs_no_other, kind, name, bad)
    for kind, parts in OWN.items():
        for part in parts:
            yield "files", f"import of {kind}: envarium = {str(part)[:60]}", partial(_own_part_is_refused, kind, part)
    for name, (line, said) in SOUND_LINES.items():
        yield "files", f"upload: {name} is read", partial(_is_read, line, said)
    for name, text in REPLIES.items():
        yield "files", f"a model's reply: {name}", partial(_reply_is_refused, text)

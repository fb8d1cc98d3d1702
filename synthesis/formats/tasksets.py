"""Task sets: a file of tasks written by people or models in, one text or failure for each out.

An entry is a text, or an object with its task under "task", "instruction" (with Alpaca's "input"), "query" or
"messages" (the first message of the user). Lenient about form, strict about meaning: a record with two different texts
is refused instead of guessed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import IO, Any

from synthesis.contracts import Frozen
from synthesis.errors import FormatError
from synthesis.formats.files import (
    Entry,
    UnreadableFile,
    decode_content,
    parse_entries,
)
from synthesis.formats.records import Failure
from synthesis.formats.values import clean_text, read_list_field, read_or_fail, read_text_field, require_record
from synthesis.json_reader import get_json_type, require_usable

MAX_FILE_BYTES = 128 << 20
"""Unpacked."""
MAX_TASKS = 100_000
MAX_TASK_CHARACTERS = 20_000
LEAST_CHARACTERS = 8
FIELDS = ("task", "instruction", "query")
TALKS = ("messages", "conversations")
BESIDE = ("input", "output", "response", "answer", "system", "id", "source")
"""Keys that may be next to a task in a single record; they never make it an object of records."""
PLAIN = (".txt", ".text")
PERSON = ("user", "human")


class SourceTask(Frozen):
    """Task as read from a task set. `key` is `task-` and 16 hex digits of the text's SHA-256."""

    key: str
    text: str


def parse_tasks(content: bytes, name: str) -> list[Entry]:
    """Return the entries of an uploaded file; every line of plain text (by its name) is one.

    Raise `UnreadableFile` with a sentence that a user can act on.
    """
    if name.lower().removesuffix(".gz").endswith(PLAIN):
        text = decode_content(content, name, MAX_FILE_BYTES)
        lines = [Entry(f"line {at}", line) for at, line in enumerate(text.splitlines(), 1) if line.strip()]
        if not lines:
            raise UnreadableFile(f"{name}: the file is empty.")
        return bound_entries(lines, name)
    return bound_entries(parse_entries(content, name, limit=MAX_FILE_BYTES), name)


def read_tasks(file: IO[bytes], name: str, most_bytes: int) -> Iterator[list[str]]:
    """Yield [place, text, reason of failure] of each entry, as passed on by the process that reads the file.

    Raise the same errors as `parse_tasks`.
    """
    content = file.read()
    if "\x00" in decode_content(content, name, most_bytes):
        raise UnreadableFile(f"{name}: not a text file (it holds NUL characters).")
    for place, outcome in read_source_tasks(parse_tasks(content, name)):
        yield (
            [clean_text(place), "", outcome.reason]
            if isinstance(outcome, Failure)
            else [clean_text(place), outcome.text, ""]
        )


def bound_entries(entries: list[Entry], name: str) -> list[Entry]:
    """Return the entries, one if the file is a single record. Raise `UnreadableFile` if there are too many of them."""
    if len(entries) > MAX_TASKS:
        raise UnreadableFile(f"{name}: {len(entries)} tasks; split it into files of {MAX_TASKS} at most.")
    keys = {entry.key for entry in entries}
    if keys & {*FIELDS, *TALKS} and keys <= {*FIELDS, *TALKS, *BESIDE}:
        return [Entry("[0]", {entry.key: entry.value for entry in entries})]
    return entries


def read_source_tasks(entries: list[Entry]) -> Iterator[tuple[str, SourceTask | Failure]]:
    """Yield each entry's place with its task, or with the reason of its failure. A repeated text fails."""
    first_places: dict[str, str] = {}
    for entry in entries:
        outcome = read_or_fail(read_source_task, entry)
        if isinstance(outcome, SourceTask):
            first = first_places.setdefault(outcome.key, entry.place)
            if first != entry.place:
                reason = f"the same task is already at {clean_text(first)} in this file"
                outcome = Failure(place=clean_text(entry.place), reason=reason)
        yield entry.place, outcome


def read_source_task(entry: Entry) -> SourceTask:
    """Read one task. Raise `FormatError` if it is invalid."""
    require_usable(entry.value, entry.place, broken_text=True)
    text = (
        entry.value
        if isinstance(entry.value, str)
        else _read_task_text(require_record(entry.value, entry.place), entry.place)
    )
    text = clean_text(text).strip()
    if len(text) < LEAST_CHARACTERS:
        raise FormatError(entry.place, f"a text of {len(text)} characters is no task" if text else "empty")
    if len(text) > MAX_TASK_CHARACTERS:
        raise FormatError(entry.place, f"a task of {len(text)} characters; {MAX_TASK_CHARACTERS} are allowed")
    return SourceTask(key=build_task_key(text), text=text)


def build_task_key(text: str) -> str:
    return f"task-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _read_task_text(record: dict[str, Any], place: str) -> str:
    texts = {name: read_text_field(record, name, place).strip() for name in FIELDS}
    if texts["instruction"]:
        input_text = read_text_field(record, "input", place).strip()
        texts["instruction"] += f"\n\n{input_text}" if input_text else ""
    texts |= {name: _read_first_words(record, name, place) for name in TALKS if record.get(name)}
    filled = {name: text for name, text in texts.items() if text}
    if not filled:
        raise FormatError(place, f"no task: none of {', '.join((*FIELDS, *TALKS))} says one")
    if len(set(filled.values())) > 1:
        raise FormatError(place, f"{' and '.join(filled)} hold different texts; which one is the task is not clear")
    return next(iter(filled.values()))


def _read_first_words(record: dict[str, Any], name: str, place: str) -> str:
    """Return the first message of the user: OpenAI's `role` and `content`, or ShareGPT's `from` and `value`."""
    for index, message in enumerate(read_list_field(record, name, place)):
        where = f"{place}.{name}[{index}]"
        turn = require_record(message, where)
        if (turn.get("role") or turn.get("from")) in PERSON:
            content = turn.get("content", turn.get("value"))
            return (
                _join_text_parts(content, where)
                if isinstance(content, list)
                else read_text_field({"content": content}, "content", where)
            )
    raise FormatError(f"{place}.{name}", "no message of a user")


def _join_text_parts(content: list[Any], where: str) -> str:
    """Return the joined texts of content in parts; other parts are ignored."""
    for part in content:
        if not isinstance(part, dict | str):
            raise FormatError(f"{where}.content", f"expected text or parts, found a {get_json_type(part)}")
    texts = [part if isinstance(part, str) else read_text_field(part, "text", where) for part in content]
    return "\n".join(text for text in texts if text)

"""Task sets: a file of tasks that people or models wrote, in; one text each out, or why there is none.

An entry is a text, or an object with its task under `task`, `instruction` (with Alpaca's `input`), `query` or
`messages` (the first words of the user). Lenient about form, strict about meaning: two different texts in one record
are a question that is not answered by guessing.
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
    decode,
    parse_entries,
)
from synthesis.formats.records import Failure
from synthesis.formats.values import clean, list_field, read_or_fail, record_of, text_field
from synthesis.json_reader import json_type, require_usable

MAX_FILE_BYTES = 128 << 20
"""Unpacked."""
MAX_TASKS = 100_000
MAX_TASK_CHARACTERS = 20_000
LEAST_CHARACTERS = 8
FIELDS = ("task", "instruction", "query")
TALKS = ("messages", "conversations")
BESIDE = ("input", "output", "response", "answer", "system", "id", "source")
"""What stands beside a task in a single record, and never makes an object of records out of it."""
PLAIN = (".txt", ".text")
PERSON = ("user", "human")


class SourceTask(Frozen):
    """A task as it stood in a task set. `key` is `task-` and 16 hex digits of the text's SHA-256."""

    key: str
    text: str


def parse_tasks(content: bytes, name: str) -> list[Entry]:
    """The entries of an uploaded file; of plain text (by its name) every line is one.

    Raises `UnreadableFile` with a sentence a person can act on.
    """
    if name.lower().removesuffix(".gz").endswith(PLAIN):
        text = decode(content, name, MAX_FILE_BYTES)
        lines = [Entry(f"line {at}", line) for at, line in enumerate(text.splitlines(), 1) if line.strip()]
        if not lines:
            raise UnreadableFile(f"{name}: the file is empty.")
        return bounded(lines, name)
    return bounded(parse_entries(content, name, limit=MAX_FILE_BYTES), name)


def read_tasks(file: IO[bytes], name: str, most_bytes: int) -> Iterator[list[str]]:
    """[place, text, why it is none] of each entry, as the process that reads the file gives it on.

    Raises as `parse_tasks`.
    """
    content = file.read()
    if "\x00" in decode(content, name, most_bytes):
        raise UnreadableFile(f"{name}: not a text file (it holds NUL characters).")
    for place, one in tasks(parse_tasks(content, name)):
        yield [clean(place), "", one.reason] if isinstance(one, Failure) else [clean(place), one.text, ""]


def bounded(entries: list[Entry], name: str) -> list[Entry]:
    """The entries, if there are not too many of them; a file that is one record is one entry."""
    if len(entries) > MAX_TASKS:
        raise UnreadableFile(f"{name}: {len(entries)} tasks; split it into files of {MAX_TASKS} at most.")
    keys = {entry.key for entry in entries}
    if keys & {*FIELDS, *TALKS} and keys <= {*FIELDS, *TALKS, *BESIDE}:
        return [Entry("[0]", {entry.key: entry.value for entry in entries})]
    return entries


def tasks(entries: list[Entry]) -> Iterator[tuple[str, SourceTask | Failure]]:
    """Each entry's place with its task, or with the reason why it is none. A text that came before is none."""
    seen: dict[str, str] = {}
    for entry in entries:
        outcome = read_or_fail(task, entry)
        if isinstance(outcome, SourceTask):
            first = seen.setdefault(outcome.key, entry.place)
            if first != entry.place:
                reason = f"the same task already stands at {clean(first)} in this file"
                outcome = Failure(place=clean(entry.place), reason=reason)
        yield entry.place, outcome


def task(entry: Entry) -> SourceTask:
    """One task. Raises `FormatError`."""
    require_usable(entry.value, entry.place, broken_text=True)
    text = entry.value if isinstance(entry.value, str) else _text(record_of(entry.value, entry.place), entry.place)
    text = clean(text).strip()
    if len(text) < LEAST_CHARACTERS:
        raise FormatError(entry.place, f"a text of {len(text)} characters is no task" if text else "empty")
    if len(text) > MAX_TASK_CHARACTERS:
        raise FormatError(entry.place, f"a task of {len(text)} characters; {MAX_TASK_CHARACTERS} are allowed")
    return SourceTask(key=task_key(text), text=text)


def task_key(text: str) -> str:
    return f"task-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _text(record: dict[str, Any], place: str) -> str:
    texts = {name: text_field(record, name, place).strip() for name in FIELDS}
    if texts["instruction"]:
        more = text_field(record, "input", place).strip()
        texts["instruction"] += f"\n\n{more}" if more else ""
    texts |= {name: _first_words(record, name, place) for name in TALKS if record.get(name)}
    filled = {name: text for name, text in texts.items() if text}
    if not filled:
        raise FormatError(place, f"no task: none of {', '.join((*FIELDS, *TALKS))} says one")
    if len(set(filled.values())) > 1:
        raise FormatError(place, f"{' and '.join(filled)} hold different texts; which one is the task is not clear")
    return next(iter(filled.values()))


def _first_words(record: dict[str, Any], name: str, place: str) -> str:
    """What the user says first: OpenAI's `role` and `content`, or ShareGPT's `from` and `value`."""
    for index, message in enumerate(list_field(record, name, place)):
        where = f"{place}.{name}[{index}]"
        turn = record_of(message, where)
        if (turn.get("role") or turn.get("from")) in PERSON:
            content = turn.get("content", turn.get("value"))
            return (
                _parts(content, where)
                if isinstance(content, list)
                else text_field({"content": content}, "content", where)
            )
    raise FormatError(f"{place}.{name}", "no message of a user")


def _parts(content: list[Any], where: str) -> str:
    """Content in parts: only their texts say something here."""
    for part in content:
        if not isinstance(part, dict | str):
            raise FormatError(f"{where}.content", f"expected text or parts, found a {json_type(part)}")
    texts = [part if isinstance(part, str) else text_field(part, "text", where) for part in content]
    return "\n".join(text for text in texts if text)

"""Reading a file of records: JSON or JSON Lines, plain or gzipped, bounded, with one clear sentence on failure.

What JSON cannot say twice or PostgreSQL cannot hold (duplicate keys, NaN, numbers of thousands of digits,
endless nesting) is marked while reading, and fails the one record it stands in, never the file.
"""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from synthesis.errors import InputError
from synthesis.json_reader import RepeatedKeyObject, Unusable, json_type, mark_json
from synthesis.json_weight import UNWEIGHED, weight

MAX_FILE_BYTES = 1 << 30
MAX_RECORDS = 200_000
MAX_WEIGHT = 512 << 20
"""Bytes of memory that a file may take about, once it is read: more than real files of 256 MiB do."""
PACKED_WEIGHT, PACKED_TIMES = 64 << 20, 100
"""Of a packed file that, and so many times its size: real ones take twenty times theirs."""
GZIP = b"\x1f\x8b"
ARCHIVES = {b"PK\x03\x04": "zip", b"7z\xbc\xaf": "7z", b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"(\xb5/\xfd": "zstandard"}
WRAPPERS = (
    "environments", "envs", "scenarios", "tasks", "trajectories", "runs", "servers", "data", "records", "results",
)  # fmt: skip
RECORD_KEYS = ("env_class_code", "env_class_name", "init_config", "task_info", "messages", "primary_label")
"""An object with one of these is a record itself, not an object of records."""


class UnreadableFile(InputError):
    """The file as a whole cannot be read; no record of it went in."""


@dataclass(frozen=True)
class Entry:
    """One record as it stood in the file; `key` is its key where the file is an object keyed by id."""

    place: str
    value: Any
    key: str = ""


def read_entries(path: Path, *, limit: int = MAX_FILE_BYTES) -> list[Entry]:
    """The records of a file, in order. Raises `UnreadableFile` with a sentence a person can act on."""
    return parse_entries(read_content(path, limit=limit), path.name, limit=limit)


def read_content(path: Path, *, limit: int = MAX_FILE_BYTES) -> bytes:
    """A file's bytes, and one more than is allowed at most. Raises `UnreadableFile`."""
    try:
        with path.open("rb") as stream:
            return stream.read(limit + 1)
    except IsADirectoryError as error:
        raise UnreadableFile(f"{path}: this is a directory; name a file.") from error
    except FileNotFoundError as error:
        raise UnreadableFile(f"{path}: there is no such file.") from error
    except OSError as error:
        raise UnreadableFile(f"{path}: cannot be read ({error.strerror or error}).") from error


def parse_entries(content: bytes, name: str = "file", *, limit: int = MAX_FILE_BYTES) -> list[Entry]:
    """The records of a file's bytes, in order; how many there are, and what they take, is looked at before.

    Raises `UnreadableFile` with a sentence a person can act on.
    """
    unpacked = unpack(content, name, limit)
    heaviest = MAX_WEIGHT if unpacked is content else min(MAX_WEIGHT, PACKED_WEIGHT + PACKED_TIMES * len(content))
    if len(unpacked) > UNWEIGHED and (weighs := weight(unpacked, heaviest)) > heaviest:
        most = f"{heaviest >> 20:,} MiB" + " for a packed file of its size" * (heaviest < MAX_WEIGHT)
        raise UnreadableFile(
            f"{name}: it would take more than {weighs >> 20:,} MiB of memory to read, and {most} is the most. "
            "Split it into several files."
        )
    text = _text(unpacked, name)
    if not text.strip():
        raise UnreadableFile(f"{name}: the file is empty.")
    if not _looks_like_lines(text, name):
        entries = _document(text, name)
        _require_few(len(entries), name)
        return entries
    lines = text.split("\n")
    _require_few(len(lines) - lines.count(""), name)
    return list(_lines(lines))


def _require_few(count: int, name: str) -> None:
    if count > MAX_RECORDS:
        raise UnreadableFile(f"{name}: {count} records; split it into files of {MAX_RECORDS} at most.")


def unpack(content: bytes, name: str, limit: int) -> bytes:
    """The file as it was before it was packed, if it was. Raises `UnreadableFile`."""
    if content.startswith(GZIP):
        try:
            content = gzip.GzipFile(fileobj=io.BytesIO(content)).read(limit + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise UnreadableFile(f"{name}: the gzip data is damaged ({error}).") from error
    for magic, kind in ARCHIVES.items():
        if content.startswith(magic):
            raise UnreadableFile(f"{name}: a {kind} archive; unpack it and take the JSON file that is in it.")
    if len(content) > limit:
        raise UnreadableFile(f"{name}: larger than {limit // (1 << 20)} MiB; split it.")
    return content


def decode(content: bytes, name: str, limit: int) -> str:
    """The text of a file, packed or not. Raises `UnreadableFile`."""
    return _text(unpack(content, name, limit), name)


def _text(content: bytes, name: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableFile(
            f"{name}: not a text file in UTF-8 (byte {content[error.start]:#04x} at offset {error.start})."
        ) from error


def _looks_like_lines(text: str, name: str) -> bool:
    """JSON Lines: by its name, or when the first line is an object of its own and another follows it."""
    stem = name.lower().removesuffix(".gz")
    head, _, rest = text.lstrip().partition("\n")
    if stem.endswith((".jsonl", ".ndjson")):
        return not text.lstrip().startswith("[")
    if not (head.startswith("{") and head.rstrip().endswith("}") and rest.lstrip().startswith("{")):
        return False
    try:
        return isinstance(mark_json(head), dict)
    except (ValueError, RecursionError):
        return False


def _lines(lines: list[str]) -> Iterator[Entry]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        place = f"line {number}"
        try:
            yield Entry(place, mark_json(line))
        except json.JSONDecodeError as error:
            yield Entry(place, Unusable(f"not JSON: {error.msg} at column {error.colno}"))
        except RecursionError:
            yield Entry(place, Unusable("nested too deeply to read"))


def _document(text: str, name: str) -> list[Entry]:
    try:
        value = mark_json(text)
    except json.JSONDecodeError as error:
        raise UnreadableFile(
            f"{name}: not valid JSON: {error.msg} at line {error.lineno}, column {error.colno}."
        ) from error
    except RecursionError as error:
        raise UnreadableFile(f"{name}: nested too deeply to read.") from error
    return spread(value, name)


def spread(value: Any, name: str, prefix: str = "") -> list[Entry]:
    """The records in a document: a list, an object keyed by id, one of these under a known name, or one record."""
    if isinstance(value, list):
        return [Entry(f"{prefix}[{index}]", item) for index, item in enumerate(value)]
    if not isinstance(value, dict):
        raise UnreadableFile(f"{name}: holds a single {json_type(value)}, not a list or an object of records.")
    if _is_record(value):
        return [Entry(f"{prefix}[0]", value)]
    for word in WRAPPERS:
        inner = value.get(word)
        if not prefix and isinstance(inner, list | dict):
            return spread(inner, name, word)
    start = f"{prefix}." if prefix else ""
    entries = [Entry(f"{start}{key}", item, key) for key, item in value.items()]
    if isinstance(value, RepeatedKeyObject):
        reason = f"the key {value.repeated!r} stands twice in the file; only the last one could be read"
        entries.append(Entry(f"{start}{value.repeated}", Unusable(reason)))
    return entries


def _is_record(value: dict[str, Any]) -> bool:
    return any(key in value for key in RECORD_KEYS) or ("steps" in value and "schema_version" in value)

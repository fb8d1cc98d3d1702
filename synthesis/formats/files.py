"""Reading of a file of records: JSON or JSON Lines, plain or gzipped, bounded, with one clear sentence on failure.

Values that JSON cannot repeat or PostgreSQL cannot store (duplicate keys, NaN, numbers of thousands of digits, endless
nesting) are marked during reading, and fail only their own record, never the file.
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
from synthesis.json_reader import RepeatedKeyObject, Unusable, get_json_type, mark_json
from synthesis.json_weight import UNWEIGHED, estimate_weight

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
    """Error of a file that cannot be read as a whole; no record of it was imported."""


@dataclass(frozen=True)
class Entry:
    """One record as read from the file; `key` is its key if the file is an object keyed by id."""

    place: str
    value: Any
    key: str = ""


def read_entries(path: Path, *, limit: int = MAX_FILE_BYTES) -> list[Entry]:
    """Return the records of a file, in order. Raise `UnreadableFile` with a sentence that a user can act on."""
    return parse_entries(read_content(path, limit=limit), path.name, limit=limit)


def read_content(path: Path, *, limit: int = MAX_FILE_BYTES) -> bytes:
    """Return a file's bytes, at most one more than the limit. Raise `UnreadableFile` if it cannot be read."""
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
    """Return the records of a file's bytes, in order; check their number and memory before.

    Raise `UnreadableFile` with a sentence that a user can act on.
    """
    unpacked = unpack_content(content, name, limit)
    heaviest = MAX_WEIGHT if unpacked is content else min(MAX_WEIGHT, PACKED_WEIGHT + PACKED_TIMES * len(content))
    if len(unpacked) > UNWEIGHED and (weighs := estimate_weight(unpacked, heaviest)) > heaviest:
        most = f"{heaviest >> 20:,} MiB" + " for a packed file of its size" * (heaviest < MAX_WEIGHT)
        raise UnreadableFile(
            f"{name}: it would take more than {weighs >> 20:,} MiB of memory to read, and {most} is the most. "
            "Split it into several files."
        )
    text = _decode_utf8(unpacked, name)
    if not text.strip():
        raise UnreadableFile(f"{name}: the file is empty.")
    if not _is_json_lines(text, name):
        entries = _parse_document(text, name)
        _require_few_records(len(entries), name)
        return entries
    lines = text.split("\n")
    _require_few_records(len(lines) - lines.count(""), name)
    return list(_parse_lines(lines))


def _require_few_records(count: int, name: str) -> None:
    if count > MAX_RECORDS:
        raise UnreadableFile(f"{name}: {count} records; split it into files of {MAX_RECORDS} at most.")


def unpack_content(content: bytes, name: str, limit: int) -> bytes:
    """Return the content unpacked, if it is packed. Raise `UnreadableFile` if it cannot be unpacked or is too large."""
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


def decode_content(content: bytes, name: str, limit: int) -> str:
    """Return the text of a file, packed or not. Raise `UnreadableFile` if it is not UTF-8."""
    return _decode_utf8(unpack_content(content, name, limit), name)


def _decode_utf8(content: bytes, name: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableFile(
            f"{name}: not a text file in UTF-8 (byte {content[error.start]:#04x} at offset {error.start})."
        ) from error


def _is_json_lines(text: str, name: str) -> bool:
    """Return whether a text is JSON Lines: by its name, or because its first line is an object followed by another."""
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


def _parse_lines(lines: list[str]) -> Iterator[Entry]:
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


def _parse_document(text: str, name: str) -> list[Entry]:
    try:
        value = mark_json(text)
    except json.JSONDecodeError as error:
        raise UnreadableFile(
            f"{name}: not valid JSON: {error.msg} at line {error.lineno}, column {error.colno}."
        ) from error
    except RecursionError as error:
        raise UnreadableFile(f"{name}: nested too deeply to read.") from error
    return split_records(value, name)


def split_records(value: Any, name: str, prefix: str = "") -> list[Entry]:
    """Return the records of a document: a list, an object keyed by id, one of these under a known name, or one
    record."""
    if isinstance(value, list):
        return [Entry(f"{prefix}[{index}]", item) for index, item in enumerate(value)]
    if not isinstance(value, dict):
        raise UnreadableFile(f"{name}: holds a single {get_json_type(value)}, not a list or an object of records.")
    if _is_record(value):
        return [Entry(f"{prefix}[0]", value)]
    for word in WRAPPERS:
        inner = value.get(word)
        if not prefix and isinstance(inner, list | dict):
            return split_records(inner, name, word)
    start = f"{prefix}." if prefix else ""
    entries = [Entry(f"{start}{key}", item, key) for key, item in value.items()]
    if isinstance(value, RepeatedKeyObject):
        reason = f"the key {value.repeated!r} occurs twice in the file; only the last one could be read"
        entries.append(Entry(f"{start}{value.repeated}", Unusable(reason)))
    return entries


def _is_record(value: dict[str, Any]) -> bool:
    return any(key in value for key in RECORD_KEYS) or ("steps" in value and "schema_version" in value)

"""A file from outside, checked line by line: bounded in size, each problem with its line, place and reason."""

from __future__ import annotations

import codecs
import hashlib
import json
from collections.abc import Iterator
from typing import Any, BinaryIO, Literal, NoReturn

from pydantic import Field, ValidationError

from synthesis.contracts import Frozen
from synthesis.errors import FormatError
from synthesis.json_weight import require_light
from training.dataset.rows import DatasetKind, Row, TaskRow, TrajectoryRow

MESSAGE_CHARS = 300


class UploadLimits(Frozen):
    """What an uploaded file may be."""

    file_bytes: int = Field(default=512 * 1024 * 1024, ge=1)
    line_bytes: int = Field(default=4 * 1024 * 1024, ge=1)
    lines: int = Field(default=1_000_000, ge=1)
    problems: int = Field(default=100, ge=1)
    """So many problems are told in full; the others are counted."""


class LineProblem(Frozen):
    """`line` counts from 1; 0 is the file as a whole."""

    line: int
    place: str = ""
    message: str


class UploadReport(Frozen):
    """`complete` is false where a limit ended the check; `sha256` is then of what was read."""

    kind: DatasetKind
    lines: int
    rows: int
    bytes: int
    sha256: str
    complete: bool
    problem_count: int
    problems: tuple[LineProblem, ...]

    @property
    def ok(self) -> bool:
        return self.complete and not self.problem_count and self.rows > 0


def check_upload(file: BinaryIO, kind: DatasetKind, limits: UploadLimits | None = None) -> UploadReport:
    """Check a JSONL file from its current position on, reading no more than the limits allow."""
    limits = limits or UploadLimits()
    digest, size, lines, rows, count = hashlib.sha256(), 0, 0, 0, 0
    problems: list[LineProblem] = []
    seen: dict[str, int] = {}
    complete = True
    for line in _lines(file, limits):
        digest.update(line)
        size, lines = size + len(line), lines + 1
        stop = _too_much(size, lines, line, limits)
        problem = stop or _line_problem(line, lines, kind, seen)
        if problem is None:
            rows += 1
        else:
            count += 1
            problems += [problem] if len(problems) < limits.problems else []
        if stop:
            complete = False
            break
    if not lines:
        count, problems = 1, [LineProblem(line=0, message="The file is empty: one JSON object a line is expected")]
    return UploadReport(
        kind=kind,
        lines=lines,
        rows=rows,
        bytes=size,
        sha256=digest.hexdigest(),
        complete=complete,
        problem_count=count,
        problems=tuple(problems),
    )


def check_as_json(file: BinaryIO, kind: DatasetKind | Literal[""], limits: dict[str, int]) -> Iterator[Any]:
    """The one report of a file, as the process that reads it gives it on. Raises FormatError: its kind is not clear."""
    bounds = UploadLimits(**limits)
    yield check_upload(file, kind or _kind_of(file, bounds), bounds).model_dump(mode="json")


def kind_as_json(file: BinaryIO, limits: dict[str, int]) -> Iterator[DatasetKind]:
    """What a file's first line says that its rows are; as `check_as_json`."""
    yield _kind_of(file, UploadLimits(**limits))


def _kind_of(file: BinaryIO, limits: UploadLimits) -> DatasetKind:
    """Tasks have `rollout`, trajectories `messages`, or `prompt` and `completion`. Raises FormatError."""
    line = file.readline(limits.line_bytes + 1)
    file.seek(0)
    try:
        require_light(line)
        row = json.loads(line)
    except (ValueError, RecursionError, MemoryError):
        return "trajectories"  # whose check says what is wrong with the line
    names = set(row) if isinstance(row, dict) else set()
    if "rollout" in names:
        return "tasks"
    if names & {"messages", "prompt", "completion"}:
        return "trajectories"
    raise FormatError(
        "line 1",
        "is neither a task (it has no `rollout`) nor a trajectory (no `messages`, no `prompt` and `completion`).",
    )


def parse_line(line: bytes, kind: DatasetKind) -> Row:
    """One row. Raises FormatError with the place inside the row and the reason."""
    if line.startswith(codecs.BOM_UTF8):
        raise FormatError("", "begins with a byte order mark (BOM); save the file as UTF-8 without one")
    try:
        require_light(line)
        value = json.loads(line.decode("utf-8"), parse_constant=_no_constant)
        # What holds half a surrogate pair cannot be written, let alone tokenised.
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeDecodeError as error:
        raise FormatError("", f"is not UTF-8 (byte {error.start + 1} of the line)") from error
    except UnicodeEncodeError as error:
        raise FormatError("", "holds half a surrogate pair (\\ud800 to \\udfff)") from error
    except json.JSONDecodeError as error:
        raise FormatError("", f"is no JSON: {error.msg} at character {error.pos + 1}") from error
    except ValueError as error:
        raise FormatError("", f"is no JSON that can be read: {error}") from error
    except MemoryError as error:
        raise FormatError("", "needs more memory to be read than is given to a file; leave it out") from error
    except RecursionError as error:
        raise FormatError("", "is nested too deeply") from error
    if not isinstance(value, dict):
        raise FormatError("", "must be one JSON object")
    return read_row(value, kind)


def read_row(value: dict[str, Any], kind: DatasetKind) -> Row:
    """A row out of JSON. Raises FormatError with the place of its first problem."""
    try:
        return TaskRow.model_validate(value) if kind == "tasks" else TrajectoryRow.model_validate(value)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_input=False)
        place = ".".join(str(part) for part in problems[0]["loc"])
        others = len(problems) - 1
        more = f" (and {others} more problem{'s' * (others > 1)} in this line)" if others else ""
        message = problems[0]["msg"].removeprefix("Value error, ")
        if problems[0]["type"] == "extra_forbidden":
            message = "is no field of this format"
        elif problems[0]["type"] == "tuple_type":
            message = "must be a list"
        raise FormatError(_short(place), f"{_short(message)}{more}") from error


def _lines(file: BinaryIO, limits: UploadLimits) -> Iterator[bytes]:
    while line := file.readline(limits.line_bytes + 1):
        yield line


def _too_much(size: int, lines: int, line: bytes, limits: UploadLimits) -> LineProblem | None:
    if len(line.rstrip(b"\r\n")) > limits.line_bytes or (len(line) > limits.line_bytes and not line.endswith(b"\n")):
        text = f"is longer than {limits.line_bytes} bytes; leave it out, or shorten what its tools returned"
        return LineProblem(line=lines, message=text)
    if size > limits.file_bytes:
        return LineProblem(line=lines, message=f"the file is larger than {limits.file_bytes} bytes; split it")
    if lines > limits.lines:
        return LineProblem(line=lines, message=f"the file has more than {limits.lines} lines; split it")
    return None


def _line_problem(line: bytes, number: int, kind: DatasetKind, seen: dict[str, int]) -> LineProblem | None:
    if not line.strip():
        return LineProblem(line=number, message="is empty; delete it")
    try:
        row = parse_line(line, kind)
    except FormatError as error:
        return LineProblem(line=number, place=error.place, message=error.reason)
    if row.id and row.id in seen:
        return LineProblem(line=number, place="id", message=f"is the id of line {seen[row.id]} too; ids must differ")
    seen[row.id] = number
    return None


def _short(text: str) -> str:
    return text if len(text) <= MESSAGE_CHARS else f"{text[:MESSAGE_CHARS]}…"


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number of JSON")

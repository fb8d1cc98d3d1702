"""Check of an external file, line by line: bounded in size, each problem with its line, place and reason."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Collection, Iterator
from typing import Any, BinaryIO, Literal

from pydantic import Field, ValidationError

from synthesis.contracts import Frozen
from synthesis.errors import FormatError
from synthesis.formats.sft_reader import is_other_form, read_other_form
from synthesis.json_reader import read_json
from training.dataset.rows import MOST_LEVELS, DatasetKind, Row, TaskRow, TrajectoryRow

MESSAGE_CHARS = 300
PIECE = 1 << 20
MANY_LEFT_OUT = "{} lines before this one cannot be used, and no more may be left out; mend the file"


class UploadLimits(Frozen):
    """Limits of an uploaded file."""

    file_bytes: int = Field(default=512 * 1024 * 1024, ge=1)
    line_bytes: int = Field(default=4 * 1024 * 1024, ge=1)
    lines: int = Field(default=1_000_000, ge=1)
    problems: int = Field(default=100, ge=1)
    """Most problems that are reported in full; the others are counted."""
    left_out: int = Field(default=10_000, ge=1)
    """So many lines may be left out of a file; one with more is refused as a whole."""


class LineProblem(Frozen):
    """A problem of a line. `line` counts from 1; 0 is the file as a whole."""

    line: int
    place: str = ""
    message: str


class UploadReport(Frozen):
    """Result of a check. `complete` is False if a limit ended the check; `sha256` then covers only the part that was
    read.

    `left_out` are the numbers of the lines that are not kept, if the uploader chose so; otherwise empty.
    """

    kind: DatasetKind
    lines: int
    rows: int
    bytes: int
    sha256: str
    complete: bool
    problem_count: int
    problems: tuple[LineProblem, ...]
    left_out: tuple[int, ...] = ()

    @property
    def ok(self) -> bool:
        return self.complete and self.problem_count == len(self.left_out) and self.rows > 0


def check_upload(
    file: BinaryIO, kind: DatasetKind, limits: UploadLimits | None = None, leave_out: bool = False
) -> UploadReport:
    """Check a JSONL file from its current position on, reading no more than the limits allow.

    With `leave_out` a line with a problem does not invalidate the file: the report lists its number.
    """
    limits = limits or UploadLimits()
    digest, size, lines, rows, count = hashlib.sha256(), 0, 0, 0, 0
    problems: list[LineProblem] = []
    left_out: list[int] = []
    seen: dict[str, int] = {}
    complete = True
    for line, length in _read_lines(file, limits, digest.update):
        size, lines = size + length, lines + 1
        stop = _find_size_problem(size, lines, limits)
        problem = stop or _find_length_problem(line, lines, limits) or _find_line_problem(line, lines, kind, seen)
        if problem and not stop and len(left_out) >= limits.left_out:
            stop = problem = LineProblem(line=lines, message=MANY_LEFT_OUT.format(len(left_out)))
        if problem is None:
            rows += 1
        else:
            count += 1
            problems += [problem] if len(problems) < limits.problems else []
            left_out += [lines] if leave_out and not stop else []
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
        left_out=tuple(left_out),
    )


def check_upload_as_json(
    file: BinaryIO, kind: DatasetKind | Literal[""], limits: dict[str, int], leave_out: bool
) -> Iterator[Any]:
    """Yield the one report of a file, in the form that the reading process passes on. Raises FormatError: its kind is
    not clear.
    """
    bounds = UploadLimits(**limits)
    checked_kind = kind or _detect_kind(file, bounds, leave_out)
    yield check_upload(file, checked_kind, bounds, leave_out).model_dump(mode="json")


def detect_kind_as_json(file: BinaryIO, limits: dict[str, int], leave_out: bool) -> Iterator[DatasetKind]:
    """Yield the kind of rows that a file's first line indicates; errors as `check_upload_as_json`."""
    yield _detect_kind(file, UploadLimits(**limits), leave_out)


def _detect_kind(file: BinaryIO, limits: UploadLimits, leave_out: bool) -> DatasetKind:
    """Return the kind of the first line, or with `leave_out` of the first line that shows it. Raises FormatError."""
    lines = itertools.islice(_read_lines(file, limits), limits.left_out if leave_out else 1)
    kinds = (_detect_line_kind(line) for line, _ in lines)
    kind: DatasetKind | Literal[""] | None = next((kind for kind in kinds if kind or not leave_out), "")
    file.seek(0)
    if kind is None:
        raise FormatError(
            "line 1",
            "is neither a task (it has no `rollout`) nor a trajectory (no `messages`, no `prompt` and `completion`, no "
            "`conversations` of ShareGPT, no `instruction` and `output` of Alpaca).",
        )
    return kind or "trajectories"  # whose check reports the lines that cannot be read


def _detect_line_kind(line: bytes) -> DatasetKind | Literal[""] | None:
    """Return `tasks` for a line with `rollout`, `trajectories` for one with `messages`, or `prompt` and `completion`;
    "" if it cannot be read, None if it is neither.
    """
    try:
        row = read_json(line, most_levels=MOST_LEVELS)
    except FormatError:
        return ""
    names = set(row) if isinstance(row, dict) else set()
    if "rollout" in names:
        return "tasks"
    is_spoken = bool(names & {"messages", "prompt", "completion"}) or (bool(names) and is_other_form(row))
    return "trajectories" if is_spoken else None


def parse_line(line: bytes, kind: DatasetKind) -> Row:
    """Return one row. Raises FormatError with the place inside the row and the reason."""
    value = read_json(line, most_levels=MOST_LEVELS)
    if not isinstance(value, dict):
        raise FormatError("", "must be one JSON object")
    if kind == "trajectories" and is_other_form(value):
        value = read_other_form(value, MOST_LEVELS)
    return parse_row(value, kind)


def parse_row(value: dict[str, Any], kind: DatasetKind) -> Row:
    """Return a row parsed from JSON. Raises FormatError with the place of its first problem."""
    try:
        return TaskRow.model_validate(value) if kind == "tasks" else TrajectoryRow.model_validate(value)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_input=False)
        place = ".".join(str(part) for part in problems[0]["loc"])
        others = len(problems) - 1
        suffix = f" (and {others} more problem{'s' * (others > 1)} in this line)" if others else ""
        message = problems[0]["msg"].removeprefix("Value error, ")
        if problems[0]["type"] == "extra_forbidden":
            message = "is no field of this format"
        elif problems[0]["type"] == "tuple_type":
            message = "must be a list"
        raise FormatError(_shorten_text(place), f"{_shorten_text(message)}{suffix}") from error


def drop_lines(file: BinaryIO, left_out: Collection[int]) -> Iterator[bytes]:
    """Yield the content of a file without the lines of these numbers (the first is 1), in pieces of at most a
    mebibyte.
    """
    number = 1
    while piece := file.readline(PIECE):
        if number not in left_out:
            yield piece
        number += piece.endswith(b"\n")


def _read_lines(
    file: BinaryIO, limits: UploadLimits, seen: Callable[[bytes], object] = bool
) -> Iterator[tuple[bytes, int]]:
    """Yield lines with their lengths; of a line that is too long, only its beginning. `seen` is called with every piece
    read.
    """
    while line := file.readline(limits.line_bytes + 1):
        seen(line)
        length, piece = len(line), line
        while len(line) > limits.line_bytes and not piece.endswith(b"\n") and length <= limits.file_bytes:
            if not (piece := file.readline(PIECE)):
                break
            seen(piece)
            length += len(piece)
        yield line, length


def _find_length_problem(line: bytes, number: int, limits: UploadLimits) -> LineProblem | None:
    if len(line.rstrip(b"\r\n")) <= limits.line_bytes and (len(line) <= limits.line_bytes or line.endswith(b"\n")):
        return None
    text = f"is longer than {limits.line_bytes} bytes; leave it out, or shorten what its tools returned"
    return LineProblem(line=number, message=text)


def _find_size_problem(size: int, lines: int, limits: UploadLimits) -> LineProblem | None:
    if size > limits.file_bytes:
        return LineProblem(line=lines, message=f"the file is larger than {limits.file_bytes} bytes; split it")
    if lines > limits.lines:
        return LineProblem(line=lines, message=f"the file has more than {limits.lines} lines; split it")
    return None


def _find_line_problem(line: bytes, number: int, kind: DatasetKind, seen: dict[str, int]) -> LineProblem | None:
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


def _shorten_text(text: str) -> str:
    return text if len(text) <= MESSAGE_CHARS else f"{text[:MESSAGE_CHARS]}…"

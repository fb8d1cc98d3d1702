"""Record of a run: an append-only file that the trainer writes and the worker tails and posts. No torch.

One JSON object per line, with a sequence number from 1 without gaps. A line counts once its newline is written: a torn
line of a killed trainer is not read, and the next writer removes it. One writer at a time, any number of readers.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, Literal, Self

from pydantic import Field, TypeAdapter, ValidationError

from synthesis.contracts import Frozen
from synthesis.errors import FormatError, InfrastructureError

LINE_BYTES = 256 * 1024
READ_BYTES = 4 * 1024 * 1024
Number = Annotated[float, Field(allow_inf_nan=False)] | None
"""None represents a value that was no number (a NaN loss): a gap in the curve, not a missing record."""


class Name(Frozen):
    """Meaning of a key. `unit` is empty for a share or a plain number."""

    label: str
    unit: str = ""


NAMES: dict[str, Name] = {
    "loss": Name(label="Loss"),
    "learning_rate": Name(label="Learning rate"),
    "grad_norm": Name(label="Norm of the gradient"),
    "token_accuracy": Name(label="Share of tokens that the model would have chosen"),
    "reward": Name(label="Mean reward of the attempts that count"),
    "reward_std": Name(label="Standard deviation of their rewards"),
    "success": Name(label="Share of them that solved their task"),
    "advantage_std": Name(label="Standard deviation of the advantages"),
    "length": Name(label="Mean tokens of the agent in an attempt", unit="tokens"),
    "turns": Name(label="Mean turns of an attempt", unit="turns"),
    "horizon": Name(label="Turns that an agent has", unit="turns"),
    "tool_errors": Name(label="Share of calls that failed"),
    "kl": Name(label="Divergence that is penalised, from the reference or the old policy, per token or attempt"),
    "entropy": Name(label="Mean entropy of the agent's tokens", unit="nats"),
    "clipped_low": Name(label="Share clipped from below"),
    "clipped_high": Name(label="Share clipped from above"),
    "clipped_dual": Name(label="Share of bad ones whose ratio the dual clip bounded"),
    "masked": Name(label="Share of attempts that are masked"),
    "user_fault": Name(label="Share of judged conversations in which the simulated user erred"),
    "user_unknown": Name(label="Share of conversations whose judge gave no usable verdict on the user"),
    "program_errors": Name(label="Share of attempts that the environment's program ended"),
    "flat_groups": Name(label="Share of groups whose rewards are all equal"),
    "draws": Name(label="Draws made to fill the step", unit="draws"),
    "tokens_per_s": Name(label="Tokens made or learnt", unit="tokens/s"),
    "step_s": Name(label="Time of a step", unit="s"),
    "rollout_s": Name(label="Time of the step's attempts", unit="s"),
    "sampling_gap": Name(label="Mean gap between a token's log-probability as drawn and as trained", unit="nats"),
    "sampling_truncated": Name(label="Share of tokens whose correction for the sampling gap was cut"),
    "policy_age": Name(label="Mean age of the policy that drew a token", unit="updates"),
    "environment_share": Name(label="Share of the attempts' time spent in environments"),
    "verification_share": Name(label="Share of the attempts' time spent on verifiers"),
    "gpu_memory": Name(label="Memory of the GPU in use", unit="GiB"),
    "evaluation/reward": Name(label="Mean reward on the held-out split"),
    "evaluation/reward_deviation": Name(label="Standard deviation of held-out tasks' mean rewards"),
    "evaluation/success": Name(label="Share of held-out attempts that solved their task"),
    "evaluation/sampled/success": Name(label="The same share of attempts sampled at a second temperature"),
    "evaluation/tasks": Name(label="Held-out tasks of which an attempt counts", unit="tasks"),
    "evaluation/sampled/tasks": Name(label="The same tasks at a second temperature", unit="tasks"),
}
"""Keys of a whole step. Below a prefix (`environment/ID/`, `node/ID/`, `check/VERIFIER.NUMBER/`, `outcome/`) the same
names are of a part (of a check: the share of attempts that passed it; VERIFIER begins a verifier's hash);
`outcome/infra_error` and its like are shares of attempts. Below `evaluation/` they are of the held-out split."""


class Values(Frozen):
    """Numbers of one step: key to value."""

    kind: Literal["values"] = "values"
    seq: int = Field(ge=1)
    time: float
    step: int = Field(ge=0)
    values: dict[str, Number]


class Event(Frozen):
    """A message for people: a phase that begins, a warning, the reason why the job ended."""

    kind: Literal["event"] = "event"
    seq: int = Field(ge=1)
    time: float
    step: int = Field(ge=0)
    level: Literal["info", "warn", "error"]
    message: str
    data: dict[str, Any] = Field(default_factory=dict)


class Artefact(Frozen):
    """A file that the trainer finished: a checkpoint's folder or a step's rollouts, with a path relative to the job's
    folder.
    """

    kind: Literal["artefact"] = "artefact"
    seq: int = Field(ge=1)
    time: float
    step: int = Field(ge=0)
    what: Literal["checkpoint", "rollouts"]
    path: str
    data: dict[str, Any] = Field(default_factory=dict)


Record = Values | Event | Artefact
_RECORD: TypeAdapter[Record] = TypeAdapter(Annotated[Record, Field(discriminator="kind")])


class Writer:
    """Writer of records. Each is handed to the system before the call returns, so a killed process loses none.

    Opening removes a torn last line and continues the numbering. Raises InfrastructureError: another writer holds the
    file, or it cannot be written (a full disk: no partial record is left behind); FormatError: the file is damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.heard: Callable[[int, Mapping[str, float | int | None]], None] | None = None
        """Called with the step and numbers of each record of values."""
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        except OSError as error:
            raise InfrastructureError(f"{path}: cannot be opened for writing: {error.strerror}") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._end, last = _find_whole_part(self._file, path)
            os.ftruncate(self._file, self._end)
        except BlockingIOError as error:
            os.close(self._file)
            raise InfrastructureError(f"{path}: another process writes this record; stop it first") from error
        except BaseException:
            os.close(self._file)
            raise
        self.next_seq = last + 1

    def values(self, step: int, values: Mapping[str, float | int | None]) -> int:
        """Record numbers of a step; return the sequence number. Values that are not finite become None."""
        kept = {key: None if value is None or not math.isfinite(value) else value for key, value in values.items()}
        seq = self._append({"kind": "values", "step": step, "values": kept})
        if self.heard is not None:
            self.heard(step, kept)
        return seq

    def event(self, step: int, level: Literal["info", "warn", "error"], message: str, **data: Any) -> int:
        """Record a message; return the sequence number."""
        return self._append({"kind": "event", "step": step, "level": level, "message": message, "data": data})

    def artefact(self, step: int, what: Literal["checkpoint", "rollouts"], path: str, **data: Any) -> int:
        """Record a finished file or folder; return the sequence number."""
        return self._append({"kind": "artefact", "step": step, "what": what, "path": path, "data": data})

    def close(self) -> None:
        os.close(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _append(self, content: dict[str, Any]) -> int:
        seq = self.next_seq
        line = json.dumps({"seq": seq, "time": time.time(), **content}, allow_nan=False).encode() + b"\n"
        if len(line) > LINE_BYTES:
            raise ValueError(f"a record of {len(line)} bytes is too long (at most {LINE_BYTES}); write it to a file")
        try:
            written_bytes = 0
            while written_bytes < len(line):
                written_bytes += os.write(self._file, line[written_bytes:])
        except OSError as error:
            os.ftruncate(self._file, self._end)
            raise InfrastructureError(f"{self.path}: cannot be written: {error.strerror}") from error
        self._end += len(line)
        self.next_seq += 1
        return seq


class Position(Frozen):
    """Position of a reader: bytes read and the next sequence number. JSON, kept on disk while the web app is
    unreachable.
    """

    offset: int = Field(default=0, ge=0)
    next_seq: int = Field(default=1, ge=1)


def read_records(path: Path, position: Position, limit: int = 1_000) -> tuple[list[Record], Position]:
    """Return (at most `limit` new records, the position after them); no records if there is no file yet, or only a torn
    line.

    Raises FormatError: a whole line is no record, numbers have a gap, or the file is shorter than what was read.
    """
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size < position.offset:
                raise FormatError(
                    str(path), f"is shorter than the {position.offset} bytes already read: it was replaced"
                )
            file.seek(position.offset)
            chunk = file.read(READ_BYTES)
    except FileNotFoundError:
        return [], position
    records: list[Record] = []
    offset, seq = position.offset, position.next_seq
    *whole, torn = chunk.split(b"\n")
    for line in whole[:limit]:
        records.append(_parse_record(line, seq, f"{path} at byte {offset}"))
        offset, seq = offset + len(line) + 1, seq + 1
    if not whole and len(torn) > LINE_BYTES:
        raise FormatError(f"{path} at byte {offset}", f"has no line's end in {len(torn)} bytes: no such record")
    return records, Position(offset=offset, next_seq=seq)


def _parse_record(line: bytes, seq: int, place: str) -> Record:
    try:
        record = _RECORD.validate_json(line)
    except ValidationError as error:
        raise FormatError(place, f"is no record: {error.errors(include_url=False)[0]['msg']}") from error
    if record.seq != seq:
        raise FormatError(place, f"has number {record.seq} where {seq} should follow")
    return record


def _find_whole_part(file: int, path: Path) -> tuple[int, int]:
    """Return (bytes up to the last newline, sequence number of the last whole line; 0 without one)."""
    size = os.fstat(file).st_size
    start = max(0, size - 2 * LINE_BYTES)
    tail = os.pread(file, size - start, start)
    whole = tail[: tail.rfind(b"\n") + 1]
    if not whole:
        if start:
            raise FormatError(str(path), f"has no line's end in its last {2 * LINE_BYTES} bytes: no such record")
        return 0, 0
    last = whole[:-1].rsplit(b"\n", 1)[-1]
    try:
        return start + len(whole), _RECORD.validate_json(last).seq
    except ValidationError as error:
        raise FormatError(str(path), "its last whole line is no record: move the file away") from error

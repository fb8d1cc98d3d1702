"""Reader of a step's stored rollouts: single lines out of a compressed file that is not trusted."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterable, Iterator
from typing import IO, Annotated, Any

from django.core.files.storage import default_storage
from pydantic import Field, ValidationError

from synthesis.contracts import Attempt, Frozen
from synthesis.errors import FormatError, InputError
from webapp.runs.models import RolloutFile

LINE_BYTES = 32 * 1024 * 1024
FILE_BYTES = 4 * 1024 * 1024 * 1024
"""What a file may hold unpacked: a bomb is read no further."""


Whole = Annotated[int, Field(ge=0, le=2**31 - 1)]


class RolloutFileLine(Frozen):
    """One attempt as the trainer wrote it (`training.step_record`)."""

    row: str = Field(max_length=200)
    environment: str = ""
    scenario: str = ""
    task: str = ""
    category: str = ""
    setting: str = "task"
    verifier: str = ""
    ordinal: Whole = 0
    reward: float | None = Field(default=None, allow_inf_nan=False)
    masked: str = ""
    advantage: float | None = Field(default=None, allow_inf_nan=False)
    tokens: Whole = 0
    policy_step: Whole = 0
    horizon: Whole = 0
    attempt: Attempt


def lines(file: RolloutFile, wanted: Iterable[int]) -> Iterator[tuple[int, RolloutFileLine]]:
    """Lines at these places with their index, in the file's order.

    Raises InputError (the file is gone, or has no such line) and FormatError (a line cannot be read).
    """
    left = set(wanted)
    if not file.stored:
        raise InputError(
            f"The rollouts of step {file.step} were deleted when their time was over: what the lists show is all "
            "that is left of them."
        )
    try:
        with default_storage.open(file.stored, "rb") as stored, gzip.open(stored, "rb") as unpacked:
            for index, text in enumerate(_texts(unpacked, file.step)):
                if index in left:
                    left.discard(index)
                    yield index, _line(text, file.step, index)
                if not left:
                    return
    except FileNotFoundError as error:
        raise InputError(f"The rollouts of step {file.step} are not in the file store any more.") from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise FormatError(f"rollouts of step {file.step}", f"cannot be unpacked: {error}") from error
    raise InputError(f"The rollouts of step {file.step} have no line {min(left) + 1}.")


def line(file: RolloutFile, index: int) -> RolloutFileLine:
    """One line. Raises as `lines` does."""
    return next(record for _, record in lines(file, [index]))


def every(unpacked: IO[bytes], step: int) -> Iterator[RolloutFileLine]:
    """All lines, in their order. Raises FormatError: one cannot be read, or there are too many bytes."""
    for index, text in enumerate(_texts(unpacked, step)):
        yield _line(text, step, index)


def _texts(unpacked: IO[bytes], step: int) -> Iterator[bytes]:
    size = 0
    while text := unpacked.readline(LINE_BYTES + 1):
        size += len(text)
        if len(text) > LINE_BYTES or size > FILE_BYTES:
            raise FormatError(f"rollouts of step {step}", "are larger than an attempt can be; they are not read")
        yield text


def _line(text: bytes, step: int, index: int) -> RolloutFileLine:
    place = f"rollouts of step {step}, line {index + 1}"
    try:
        value: Any = json.loads(text.decode("utf-8"))
        return RolloutFileLine.model_validate(value)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, fault["loc"]))[:200]
        raise FormatError(place, f"is no attempt: {where}: {fault['msg'][:300]}") from error
    except (ValueError, RecursionError) as error:
        raise FormatError(place, f"is no JSON that can be read: {str(error)[:300]}") from error

"""Reader of a step's stored rollouts: single lines out of a compressed file that is not trusted."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Iterator

from django.core.files.storage import default_storage

from synthesis.errors import FormatError, InputError
from webapp.runs.models import RolloutFile
from webapp.runs.rollouts.rollout_line import RolloutFileLine, read_line, split_lines


def read_file_lines(file: RolloutFile, wanted: Iterable[int]) -> Iterator[tuple[int, RolloutFileLine]]:
    """Yield lines at these places with their index, in the file's order.

    Raises InputError (the file is gone, or has no such line) and FormatError (a line cannot be read).
    """
    left = set(wanted)
    if not file.stored:
        raise InputError(
            f"The rollouts of step {file.step} were deleted when their retention period ended: what the lists show is "
            "all that is left of them."
        )
    try:
        with default_storage.open(file.stored, "rb") as stored, gzip.open(stored, "rb") as unpacked:
            for index, text in enumerate(split_lines(unpacked, file.step)):
                if index in left:
                    left.discard(index)
                    yield index, read_line(text, file.step, index)
                if not left:
                    return
    except FileNotFoundError as error:
        raise InputError(f"The rollouts of step {file.step} are not in the file store any more.") from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise FormatError(f"rollouts of step {file.step}", f"cannot be unpacked: {error}") from error
    raise InputError(f"The rollouts of step {file.step} have no line {min(left) + 1}.")


def read_file_line(file: RolloutFile, index: int) -> RolloutFileLine:
    """Return one line. Raises as `read_file_lines` does."""
    return next(record for _, record in read_file_lines(file, [index]))

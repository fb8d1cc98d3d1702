"""The header of a safetensors file: JSON that names tensors; without Django, for the process that reads it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

from synthesis.errors import FormatError, InputError
from synthesis.json_reader import read_json

MOST_BYTES = 32 * 1024 * 1024
"""A hundred bytes a tensor; the largest models have some ten thousand in one file."""


def tensor_count(file: IO[bytes]) -> Iterator[int]:
    """How many tensors a header names. Raises InputError: it is none."""
    text = file.read(MOST_BYTES + 1)
    try:
        header = read_json(text, most_memory=256 << 20)
    except FormatError as error:
        raise InputError(f"its header is no JSON that can be read: {str(error)[:200]}") from error
    if not isinstance(header, dict) or not all(isinstance(entry, dict) for entry in header.values()):
        raise InputError("its header is no object of tensors")
    yield len(header) - ("__metadata__" in header)

"""The header of a safetensors file: JSON that names tensors; without Django, for the process that reads it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import IO, Any

from synthesis.errors import InputError
from synthesis.json_weight import require_light

MOST_BYTES = 32 * 1024 * 1024
"""A hundred bytes a tensor; the largest models have some ten thousand in one file."""


def tensor_count(file: IO[bytes]) -> Iterator[int]:
    """How many tensors a header names. Raises InputError: it is none."""
    text = file.read(MOST_BYTES + 1)
    try:
        require_light(text, 256 << 20)
        header: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"its header is no JSON that can be read: {str(error)[:200]}") from error
    if not isinstance(header, dict) or not all(isinstance(entry, dict) for entry in header.values()):
        raise InputError("its header is no object of tensors")
    yield len(header) - ("__metadata__" in header)

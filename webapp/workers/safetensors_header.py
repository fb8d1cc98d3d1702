"""Headers of safetensors files: JSON that names tensors; without Django, for the process that reads them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import IO, Any

from synthesis.errors import FormatError, InputError
from synthesis.json_reader import read_json

MOST_BYTES = 32 * 1024 * 1024
"""A hundred bytes a tensor; the largest models have some ten thousand in one file."""
MOST_AXES = 16
METADATA = "__metadata__"
BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
    "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32, "I64": 64, "U64": 64, "F64": 64,
    "C64": 64,
}  # fmt: skip
"""Bits of a number by the type that a header names."""


def tensors_of(file: IO[bytes], sizes: list[tuple[int, int]]) -> Iterator[tuple[str, list[int]]]:
    """Yield name and shape of every tensor of some files, whose headers follow one another in `file`. `sizes` are the
    bytes of each header and of the data behind it.

    Raises InputError: a header cannot be read, or its tensors do not fill the data without gaps.
    """
    seen: set[str] = set()
    for header, data in sizes:
        for name, shape in _parse_tensors(file.read(header), data):
            if name in seen:
                raise InputError(f"the tensor {name[:100]!a} is there twice")
            seen.add(name)
            yield name, shape


def _parse_tensors(text: bytes, size: int) -> list[tuple[str, list[int]]]:
    places: list[tuple[int, int, str]] = []
    tensors: list[tuple[str, list[int]]] = []
    for name, entry in _parse_entries(text):
        dtype, shape, offsets = (
            entry.get("dtype"),
            _parse_counts(entry.get("shape")),
            _parse_counts(entry.get("data_offsets")),
        )
        if not isinstance(dtype, str) or dtype not in BITS:
            raise InputError(f"its header gives the tensor {name[:100]!a} no type of numbers that is known")
        if shape is None or len(shape) > MOST_AXES:
            raise InputError(f"its header gives the tensor {name[:100]!a} no shape")
        if offsets is None or len(offsets) != 2:
            raise InputError(f"its header gives the tensor {name[:100]!a} no place in the file")
        if (offsets[1] - offsets[0]) * 8 != math.prod(shape) * BITS[dtype]:
            raise InputError(f"the tensor {name[:100]!a} has {offsets[1] - offsets[0]} bytes, its shape needs others")
        places.append((offsets[0], offsets[1], name))
        tensors.append((name, shape))
    end = 0
    for first, last, name in sorted(places):
        if first != end:
            raise InputError(f"the tensor {name[:100]!a} does not begin at the end of the one before it")
        end = last
    if end != size:
        raise InputError(f"its tensors have {end:,} bytes, the file has {size:,} for them")
    return tensors


def _parse_entries(text: bytes) -> list[tuple[str, dict[str, Any]]]:
    try:
        header = read_json(text, most_memory=256 << 20)
    except FormatError as error:
        raise InputError(f"its header is no JSON that can be read: {str(error)[:200]}") from error
    if not isinstance(header, dict) or not all(isinstance(entry, dict) for entry in header.values()):
        raise InputError("its header is no object of tensors")
    return [(name, entry) for name, entry in header.items() if name != METADATA]


def _parse_counts(value: Any) -> list[int] | None:
    """Return the value if it is a list of whole numbers that a file can have, else None."""
    fits = isinstance(value, list) and all(type(one) is int and 0 <= one < 2**50 for one in value)
    return value if fits else None

"""Writers of an export's files: JSON Lines and Parquet, a bounded number of rows in memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path

import pyarrow.parquet as pq

from synthesis.errors import FormatError
from webapp.datasets.export.columns import Column, build_arrow_schema, build_record_batch, choose_columns
from webapp.datasets.export.converters import Record
from webapp.datasets.export.record_shapes import FormName

GROUP_ROWS = 1_000
"""A row group of Parquet: the same everywhere, for the same bytes everywhere."""
GROUP_BYTES = 16 << 20
"""A group of long rows ends before it has so many rows."""


def write_jsonl(target: Path, records: Iterable[Record]) -> int:
    """Write one record per line; return how many there were."""
    written = 0
    with target.open("wb") as file:
        for record in records:
            file.write(json.dumps(record, ensure_ascii=False).encode() + b"\n")
            written += 1
    return written


def write_parquet(target: Path, records: Iterable[Record], form: FormName, read_bytes: Callable[[], int]) -> int:
    """Write records in row groups; return how many there were. `read_bytes` returns how much was read to make them.

    Raises FormatError: a record has other columns than those before it.
    """
    groups: _Groups | None = None
    begun = read_bytes()
    try:
        for number, record in enumerate(records, 1):
            groups = groups or _Groups(target, form, record)
            groups.add(record, number)
            if len(groups.rows) >= GROUP_ROWS or read_bytes() - begun >= GROUP_BYTES:
                groups.flush()
                begun = read_bytes()
        if groups is not None:
            groups.flush()
    finally:
        if groups is not None:
            groups.writer.close()
    return groups.written if groups else 0


class _Groups:
    def __init__(self, target: Path, form: FormName, first: Record) -> None:
        self.columns: dict[str, Column] = choose_columns(form, first)
        self.schema = build_arrow_schema(self.columns)
        # Fixed, whatever pyarrow's defaults become.
        self.writer = pq.ParquetWriter(
            target, self.schema, version="2.6", compression="zstd", compression_level=3, use_dictionary=False
        )
        self.rows: list[Record] = []
        self.written = 0

    def add(self, record: Record, number: int) -> None:
        if more := [name for name in record if name not in self.columns]:
            raise FormatError(
                f"row {number}",
                f"has {more[0]!r}, which the rows before it have not: a Parquet file has one set of columns. "
                "Choose JSON Lines for this dataset",
            )
        self.rows.append(record)

    def flush(self) -> None:
        if self.rows:
            self.writer.write_batch(
                build_record_batch(self.rows, self.columns, self.schema), row_group_size=len(self.rows)
            )
            self.written += len(self.rows)
            self.rows = []

"""Columns of an export's Parquet files: types for Arrow, and for the `datasets` library, which reads JSON columns back
as the objects they were.

Whatever may differ from row to row (a call's arguments, a tool's parameters) is a JSON column: one type for a whole
file, so that rows are written as they come. `datasets` keeps such values the same way.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

import pyarrow as pa

from webapp.datasets.export.converters import ORIGIN, Record
from webapp.datasets.export.record_shapes import FormName

Column = Literal["text", "number", "json", "json list", "exchange"]
ARROW: dict[Column, pa.DataType] = {
    "text": pa.string(),
    "number": pa.int64(),
    "json": pa.json_(pa.string()),
    "json list": pa.list_(pa.json_(pa.string())),
    "exchange": pa.list_(pa.struct({"from": pa.string(), "value": pa.string()})),
}
TEXT = {"dtype": "string", "_type": "Value"}
FEATURES: dict[Column, Any] = {
    "text": TEXT,
    "number": {"dtype": "int64", "_type": "Value"},
    "json": {"_type": "Json"},
    "json list": {"feature": {"_type": "Json"}, "_type": "List"},
    "exchange": {"feature": {"from": TEXT, "value": TEXT}, "_type": "List"},
}
NAMED: dict[str, Column] = dict.fromkeys(ORIGIN, "text")
SHAREGPT: dict[str, Column] = {"conversations": "exchange", "system": "text", "tools": "text"}
ENVSCALER: dict[str, Column] = {
    "traj_type": "text",
    "task_info": "json",
    "tools": "text",
    "messages": "text",
    "user_messages": "text",
    "steps": "number",
}
ATIF: dict[str, Column] = {
    "schema_version": "text",
    "trajectory_id": "text",
    "agent": "json",
    "steps": "json list",
    "final_metrics": "json",
    "extra": "json",
}
TASKS: dict[str, Column] = {"prompt": "json list", "rollout": "text", **NAMED}
WHOLE: dict[str, Column] = {"messages": "json list", "tools": "json list", **NAMED}
BY_TURN: dict[str, Column] = {"prompt": "json list", "completion": "json list", "tools": "json list", **NAMED}


def choose_columns(form: FormName, first: Record) -> dict[str, Column]:
    """Return the columns of a file, by its first record: rows of one dataset are all whole, or all a turn each."""
    if form == "trl":
        if "rollout" in first:
            return TASKS
        return WHOLE if "messages" in first else BY_TURN
    if form == "sharegpt" and "mask_history" in first:
        return {**SHAREGPT, "mask_history": "json"}
    return {"sharegpt": SHAREGPT, "envscaler": ENVSCALER, "atif": ATIF}[form]


def build_arrow_schema(columns: Mapping[str, Column]) -> pa.Schema:
    features = {"info": {"features": {name: FEATURES[kind] for name, kind in columns.items()}}}
    fields = [pa.field(name, ARROW[kind]) for name, kind in columns.items()]
    return pa.schema(fields, metadata={"huggingface": json.dumps(features)})


def build_record_batch(rows: list[Record], columns: Mapping[str, Column], schema: pa.Schema) -> pa.RecordBatch:
    """Return records as a batch. A column that a record lacks is empty in it."""
    arrays = [_build_array([row.get(name) for row in rows], kind) for name, kind in columns.items()]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _build_array(values: list[Any], kind: Column) -> pa.Array:
    if kind == "json":
        return _to_json_array(pa.array([_dump_json(value) for value in values], pa.string()))
    if kind == "json list":
        told = [None if value is None else [_dump_json(item) for item in value] for value in values]
        plain = pa.array(told, pa.list_(pa.string()))
        return pa.ListArray.from_arrays(plain.offsets, _to_json_array(plain.values), mask=plain.is_null())
    return pa.array(values, ARROW[kind])


def _to_json_array(plain: pa.Array) -> pa.Array:
    return pa.ExtensionArray.from_storage(ARROW["json"], plain)


def _dump_json(value: Any) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False, separators=(",", ":"))

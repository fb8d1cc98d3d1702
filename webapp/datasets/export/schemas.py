"""Schemas of the API of exports of datasets."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from ninja import Schema
from pydantic import ConfigDict, Field

from webapp.common.rest.types import BodyIn
from webapp.datasets.export.record_shapes import FormatName, FormName
from webapp.datasets.models import DatasetExport


class DatasetExportIn(BodyIn):
    model_config = ConfigDict(json_schema_extra={"examples": [{"form": "trl", "format": "parquet"}]})

    form: Annotated[
        FormName, Field(description="What reads it. A dataset of tasks leaves as `trl` or `verifiers` only.")
    ] = "trl"
    format: Annotated[
        FormatName | None,
        Field(description="By default `jsonl`, and of `verifiers`, which leaves as a package, `wheel`."),
    ] = None


class ExportedFileOut(Schema):
    path: str
    rows: int
    bytes: int
    sha256: str


class DatasetExportOut(Schema):
    id: str = Field(validation_alias="public_id")
    object: Literal["dataset.export"] = "dataset.export"
    form: FormName
    format: FormatName
    state: Annotated[
        Literal["making", "ready", "failed", "cleared"],
        Field(description="A `cleared` one was made once; its archive is gone, and asking again makes it again."),
    ]
    error: str
    rows: int
    left_out: Annotated[
        int, Field(description="Rows that do not fit the form and stayed out; manifest.json in the archive names them.")
    ]
    bytes: Annotated[int, Field(description="Of the archive.")]
    sha256: Annotated[str, Field(description="Of manifest.json in the archive, which has the hashes of its files.")]
    files: list[ExportedFileOut]
    job: Annotated[int | None, Field(description="The background job that makes it.", validation_alias="job_id")]
    created_at: datetime

    @staticmethod
    def resolve_left_out(row: DatasetExport) -> int:
        return (row.job.result or {}).get("left_out", 0) if row.job else 0


class DatasetExportList(Schema):
    object: Literal["list"] = "list"
    data: list[DatasetExportOut]

"""API of datasets: `/datasets`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from django.http import HttpRequest, StreamingHttpResponse
from django.shortcuts import get_object_or_404
from ninja import Query, Router, Schema, Status
from pydantic import Field

from webapp.accounts.services import write_audit_entry
from webapp.common.rest.auth import get_acting_user, require_scope
from webapp.common.rest.idempotency import idempotent
from webapp.common.rest.paging import cursor_page
from webapp.common.rest.problems import Problem
from webapp.common.rest.types import PageOf, describe_file_answer
from webapp.datasets import queries, services
from webapp.datasets.evidence.near_duplicates import load_listed_pairs
from webapp.datasets.models import Dataset, StoredFile
from webapp.datasets.preview import build_preview, require_file_rows, require_rows
from webapp.datasets.queries import get_sentence
from webapp.datasets.schemas import (
    DatasetIn,
    DatasetLine,
    DatasetOut,
    DatasetQuery,
    LookOut,
    NearDuplicatesOut,
    PublicId,
)
from webapp.datasets.storage import get_manifest, open_file
from webapp.trajectories.export.archive import build_attachment, read_blocks

router = Router(tags=["datasets"])
LINES = describe_file_answer("application/jsonl", "the rows of one side in TRL's form, one a line")


class ContentQuery(Schema):
    side: Annotated[Literal["train", "test"], Field(description="What is learnt from, or what is held out.")] = "train"


def get_dataset_or_404(ident: str) -> Dataset:
    return get_object_or_404(queries.select_datasets(), public_id=ident)


def serialize_dataset(row: Dataset) -> dict[str, Any]:
    """Return a dataset as `DatasetOut` takes it."""
    return serialize_dataset_line(row) | {
        "file": row.file.public_id if row.file else None,
        "characters": row.tokens,
        "same_content": list(queries.list_twin_datasets(row).values_list("public_id", flat=True)[:20]),
    }


def serialize_dataset_line(row: Dataset) -> dict[str, Any]:
    unit = row.split.get("unit", "environment") if row.split.get("test_share") else None
    return {**vars(row), "sentence": get_sentence(row), "split_unit": unit}


@router.get("/datasets", auth=require_scope("read"), response=PageOf[DatasetLine])
def list_datasets(request: HttpRequest, query: Query[DatasetQuery]) -> Any:
    """Datasets, newest first."""
    rows = queries.list_datasets(query.kind or "", query.state or "", archived=query.archived)
    page = cursor_page(rows, query)
    return page | {"data": [serialize_dataset_line(row) for row in page["data"]]}


@router.post("/datasets", auth=require_scope("train"), response={200: LookOut, 202: DatasetOut})
@idempotent
def create_dataset(request: HttpRequest, body: DatasetIn) -> Any:
    """Freeze a selection, or an uploaded file; follow it at /datasets/{dataset}. With `dry_run` only say what comes."""
    if body.selection is not None and body.file:
        raise Problem(422, "Give either `selection` or `file`, not both.")
    if body.file:
        row = _create_file_dataset(request, body)
    elif body.dry_run:
        preview = build_preview(body.choice(), body.split.split())
        return Status(200, preview.model_dump() | {"object": "dataset.dry_run"})
    else:
        require_rows(body.choice(), body.split.split())
        row = services.create_dataset(
            get_acting_user(request), body.choice(), body.split.split(), body.name, body.licence
        )
    return Status(202, serialize_dataset(row))


def _create_file_dataset(request: HttpRequest, body: DatasetIn) -> Dataset:
    if body.dry_run:
        raise Problem(422, "A dry run is for a selection. GET /files/{file} shows what an uploaded file holds.")
    file = StoredFile.objects.filter(public_id=body.file, deleted_at=None).first()
    if file is None:
        raise Problem(422, f"file: there is no file {body.file!r}.")
    services.require_usable(file)
    require_file_rows(file, body.split.split())
    return services.create_file_dataset(get_acting_user(request), file, body.split.split(), body.name, body.licence)


@router.get("/datasets/{dataset}", auth=require_scope("read"), response=DatasetOut)
def get_dataset(request: HttpRequest, dataset: PublicId) -> Any:
    """One dataset with its selection, its manifest, and why rows were left out."""
    return serialize_dataset(get_dataset_or_404(dataset))


@router.get("/datasets/{dataset}/near_duplicates", auth=require_scope("read"), response=NearDuplicatesOut)
def list_near_duplicates(request: HttpRequest, dataset: PublicId) -> Any:
    """Held-out rows with the row to learn from that is nearest to each, the most similar first, a thousand at most."""
    row = get_dataset_or_404(dataset)
    pairs = load_listed_pairs(row)
    report = get_manifest(row).report
    near = report.near_duplicates if report is not None else None
    return {"threshold": near.threshold if near else None, "rows": near.rows if near else 0, "data": pairs}


@router.get("/datasets/{dataset}/content", auth=require_scope("read"), openapi_extra=LINES)
def download_dataset(request: HttpRequest, dataset: PublicId, query: Query[ContentQuery]) -> StreamingHttpResponse:
    """The rows of one side, JSON Lines in TRL's form, as they were frozen."""
    row = get_dataset_or_404(dataset)
    file = open_file(row, f"{query.side}.jsonl")
    write_audit_entry(get_acting_user(request), "dataset.download", row, side=query.side)
    return build_attachment(read_blocks(file), f"{row.public_id}-{query.side}.jsonl", "application/jsonl")


@router.delete("/datasets/{dataset}", auth=require_scope("train"), response=DatasetOut)
def archive_dataset(request: HttpRequest, dataset: PublicId) -> Any:
    """Take it out of the lists. Its files stay: results of finished jobs name them. 409 while an open job uses it."""
    return serialize_dataset(services.archive_dataset(get_acting_user(request), get_dataset_or_404(dataset)))


@router.post("/datasets/{dataset}/restore", auth=require_scope("train"), response=DatasetOut)
@idempotent
def restore_dataset(request: HttpRequest, dataset: PublicId) -> Any:
    """Bring an archived dataset back into the lists."""
    return serialize_dataset(services.restore_dataset(get_acting_user(request), get_dataset_or_404(dataset)))

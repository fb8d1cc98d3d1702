"""API of datasets: `/datasets`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from django.http import HttpRequest, StreamingHttpResponse
from django.shortcuts import get_object_or_404
from ninja import Query, Router, Schema, Status
from pydantic import Field

from webapp.accounts.services import audit
from webapp.datasets import queries, services
from webapp.datasets.evidence.near_duplicates import listed_pairs
from webapp.datasets.models import Dataset, StoredFile
from webapp.datasets.preview import look, require_rows
from webapp.datasets.schemas import (
    DatasetIn,
    DatasetLine,
    DatasetOut,
    DatasetQuery,
    LookOut,
    NearDuplicatesOut,
    PublicId,
)
from webapp.datasets.storage import manifest_of, open_file, sentence_of
from webapp.rest.auth import needs, person
from webapp.rest.idempotency import idempotent
from webapp.rest.paging import cursor_page
from webapp.rest.problems import Problem
from webapp.rest.types import PageOf, file_of
from webapp.trajectories.export.archive import attachment, blocks

router = Router(tags=["datasets"])
LINES = file_of("application/jsonl", "the rows of one side in TRL's form, one a line")


class ContentQuery(Schema):
    side: Annotated[Literal["train", "test"], Field(description="What is learnt from, or what is held out.")] = "train"


def find(ident: str) -> Dataset:
    return get_object_or_404(queries.known(), public_id=ident)


def whole(row: Dataset) -> dict[str, Any]:
    """As `DatasetOut` takes it."""
    return line(row) | {
        "file": row.file.public_id if row.file else None,
        "characters": row.tokens,
        "same_content": list(queries.twins_of(row).values_list("public_id", flat=True)[:20]),
    }


def line(row: Dataset) -> dict[str, Any]:
    unit = row.split.get("unit", "environment") if row.split.get("test_share") else None
    return {**vars(row), "sentence": sentence_of(row), "split_unit": unit}


@router.get("/datasets", auth=needs("read"), response=PageOf[DatasetLine])
def list_datasets(request: HttpRequest, query: Query[DatasetQuery]) -> Any:
    """Datasets, newest first."""
    rows = queries.listed(query.kind or "", query.state or "", archived=query.archived)
    page = cursor_page(rows, query)
    return page | {"data": [line(row) for row in page["data"]]}


@router.post("/datasets", auth=needs("train"), response={200: LookOut, 202: DatasetOut})
@idempotent
def create_dataset(request: HttpRequest, body: DatasetIn) -> Any:
    """Freeze a selection, or an uploaded file; follow it at /datasets/{dataset}. With `dry_run` only say what comes."""
    if body.selection is not None and body.file:
        raise Problem(422, "Give either `selection` or `file`, not both.")
    if body.file:
        row = _of_file(request, body)
    elif body.dry_run:
        preview = look(body.choice(), body.split.split())
        return Status(200, preview.model_dump() | {"object": "dataset.dry_run"})
    else:
        require_rows(body.choice(), body.split.split())
        row = services.create_dataset(person(request), body.choice(), body.split.split(), body.name, body.licence)
    return Status(202, whole(row))


def _of_file(request: HttpRequest, body: DatasetIn) -> Dataset:
    if body.dry_run:
        raise Problem(422, "A dry run is for a selection. What an uploaded file holds, GET /files/{file} tells.")
    file = StoredFile.objects.filter(public_id=body.file, deleted_at=None).first()
    if file is None:
        raise Problem(422, f"file: there is no file {body.file!r}.")
    return services.uploaded(person(request), file, body.split.split(), body.name, body.licence)


@router.get("/datasets/{dataset}", auth=needs("read"), response=DatasetOut)
def get_dataset(request: HttpRequest, dataset: PublicId) -> Any:
    """One dataset with its selection, its manifest, and why rows were left out."""
    return whole(find(dataset))


@router.get("/datasets/{dataset}/near_duplicates", auth=needs("read"), response=NearDuplicatesOut)
def list_near_duplicates(request: HttpRequest, dataset: PublicId) -> Any:
    """Held-out rows with the row to learn from that is nearest to each, the most similar first, a thousand at most."""
    row = find(dataset)
    pairs = listed_pairs(row)
    report = manifest_of(row).report
    near = report.near_duplicates if report is not None else None
    return {"threshold": near.threshold if near else None, "rows": near.rows if near else 0, "data": pairs}


@router.get("/datasets/{dataset}/content", auth=needs("read"), openapi_extra=LINES)
def download_dataset(request: HttpRequest, dataset: PublicId, query: Query[ContentQuery]) -> StreamingHttpResponse:
    """The rows of one side, JSON Lines in TRL's form, as they were frozen."""
    row = find(dataset)
    file = open_file(row, f"{query.side}.jsonl")
    audit(person(request), "dataset.download", row, side=query.side)
    return attachment(blocks(file), f"{row.public_id}-{query.side}.jsonl", "application/jsonl")


@router.delete("/datasets/{dataset}", auth=needs("train"), response=DatasetOut)
def archive_dataset(request: HttpRequest, dataset: PublicId) -> Any:
    """Take it out of the lists. Its files stay: results of finished jobs name them. 409 while an open job uses it."""
    return whole(services.archive(person(request), find(dataset)))


@router.post("/datasets/{dataset}/restore", auth=needs("train"), response=DatasetOut)
@idempotent
def restore_dataset(request: HttpRequest, dataset: PublicId) -> Any:
    """Bring an archived dataset back into the lists."""
    return whole(services.restore(person(request), find(dataset)))

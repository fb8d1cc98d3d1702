"""API of exports of datasets: `/datasets/{dataset}/exports`."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, StreamingHttpResponse
from django.shortcuts import get_object_or_404
from ninja import Router, Status

from webapp.accounts.services import audit
from webapp.datasets import queries
from webapp.datasets.export import services
from webapp.datasets.export.schemas import DatasetExportIn, DatasetExportList, DatasetExportOut
from webapp.datasets.models import Dataset, DatasetExport
from webapp.datasets.schemas import PublicId
from webapp.rest.auth import needs, person
from webapp.rest.idempotency import idempotent
from webapp.rest.problems import Problem
from webapp.rest.types import file_of
from webapp.trajectories.export.archive import attachment, stored

router = Router(tags=["datasets"])
ZIP = file_of("application/zip", "a file a side, manifest.json with their hashes, and the dataset's card")
SHOWN = 100


def _dataset(ident: str) -> Dataset:
    return get_object_or_404(queries.known(), public_id=ident)


def _export(dataset: str, ident: str) -> DatasetExport:
    return get_object_or_404(services.exports_of(_dataset(dataset)), public_id=ident)


@router.get("/datasets/{dataset}/exports", auth=needs("read"), response=DatasetExportList)
def list_dataset_exports(request: HttpRequest, dataset: PublicId) -> Any:
    """The newest exports of a dataset."""
    return {"data": list(services.exports_of(_dataset(dataset))[:SHOWN])}


@router.post(
    "/datasets/{dataset}/exports", auth=needs("train"), response={200: DatasetExportOut, 202: DatasetExportOut}
)
@idempotent
def create_dataset_export(request: HttpRequest, dataset: PublicId, body: DatasetExportIn) -> Any:
    """Write a frozen dataset in the form and format of others: 202, follow it here. 200 where that was done before."""
    export, now = services.start_export(person(request), _dataset(dataset), body.form, body.format or "")
    return Status(202 if now else 200, export)


@router.get("/datasets/{dataset}/exports/{export}", auth=needs("read"), response=DatasetExportOut)
def get_dataset_export(request: HttpRequest, dataset: PublicId, export: PublicId) -> Any:
    """One export with its files and their hashes."""
    return _export(dataset, export)


@router.get("/datasets/{dataset}/exports/{export}/content", auth=needs("read"), openapi_extra=ZIP)
def download_dataset_export(request: HttpRequest, dataset: PublicId, export: PublicId) -> StreamingHttpResponse:
    """The archive."""
    row = _export(dataset, export)
    if not services.is_there(row):
        raise Problem(404, f"The export {export} has no archive: it is {row.state}. Ask for the export again.")
    audit(person(request), "dataset.download", row.dataset, form=row.form, format=row.format)
    return attachment(stored(row.stored), f"{row.dataset.public_id}-{row.form}-{row.format}.zip")


@router.delete("/datasets/{dataset}/exports/{export}", auth=needs("train"), response=DatasetExportOut)
def delete_dataset_export(request: HttpRequest, dataset: PublicId, export: PublicId) -> Any:
    """Remove the archive; the row stays, with its hashes. 409 while it is being made."""
    return services.drop_export(person(request), _export(dataset, export))

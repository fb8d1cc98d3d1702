"""API of exports of datasets: `/datasets/{dataset}/exports`."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, StreamingHttpResponse
from django.shortcuts import get_object_or_404
from ninja import Router, Status

from webapp.accounts.services import write_audit_entry
from webapp.common.rest.auth import get_acting_user, require_scope
from webapp.common.rest.idempotency import idempotent
from webapp.common.rest.problems import Problem
from webapp.common.rest.types import describe_file_answer
from webapp.datasets import queries
from webapp.datasets.export import services
from webapp.datasets.export.schemas import DatasetExportIn, DatasetExportList, DatasetExportOut
from webapp.datasets.models import Dataset, DatasetExport
from webapp.datasets.schemas import PublicId
from webapp.trajectories.export.archive import build_attachment, read_stored_file

router = Router(tags=["datasets"])
ZIP = describe_file_answer("application/zip", "a file a side, manifest.json with their hashes, and the dataset's card")
SHOWN = 100


def _get_dataset_or_404(ident: str) -> Dataset:
    return get_object_or_404(queries.select_datasets(), public_id=ident)


def _get_export_or_404(dataset: str, ident: str) -> DatasetExport:
    return get_object_or_404(services.list_dataset_exports(_get_dataset_or_404(dataset)), public_id=ident)


@router.get("/datasets/{dataset}/exports", auth=require_scope("read"), response=DatasetExportList)
def list_dataset_exports(request: HttpRequest, dataset: PublicId) -> Any:
    """The newest exports of a dataset."""
    return {"data": list(services.list_dataset_exports(_get_dataset_or_404(dataset))[:SHOWN])}


@router.post(
    "/datasets/{dataset}/exports", auth=require_scope("train"), response={200: DatasetExportOut, 202: DatasetExportOut}
)
@idempotent
def create_dataset_export(request: HttpRequest, dataset: PublicId, body: DatasetExportIn) -> Any:
    """Write a frozen dataset in the form and format of others: 202, follow it here. 200 if that was done before."""
    export, now = services.start_export(
        get_acting_user(request), _get_dataset_or_404(dataset), body.form, body.format or ""
    )
    return Status(202 if now else 200, export)


@router.get("/datasets/{dataset}/exports/{export}", auth=require_scope("read"), response=DatasetExportOut)
def get_dataset_export(request: HttpRequest, dataset: PublicId, export: PublicId) -> Any:
    """One export with its files and their hashes."""
    return _get_export_or_404(dataset, export)


@router.get("/datasets/{dataset}/exports/{export}/content", auth=require_scope("read"), openapi_extra=ZIP)
def download_dataset_export(request: HttpRequest, dataset: PublicId, export: PublicId) -> StreamingHttpResponse:
    """The archive."""
    row = _get_export_or_404(dataset, export)
    if not services.has_archive(row):
        raise Problem(404, f"The export {export} has no archive: it is {row.state}. Ask for the export again.")
    write_audit_entry(get_acting_user(request), "dataset.download", row.dataset, form=row.form, format=row.format)
    return build_attachment(read_stored_file(row.stored), f"{row.dataset.public_id}-{row.form}-{row.format}.zip")


@router.delete("/datasets/{dataset}/exports/{export}", auth=require_scope("train"), response=DatasetExportOut)
def delete_dataset_export(request: HttpRequest, dataset: PublicId, export: PublicId) -> Any:
    """Remove the archive; the row stays, with its hashes. 409 while it is being made."""
    return services.drop_export(get_acting_user(request), _get_export_or_404(dataset, export))

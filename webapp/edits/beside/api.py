"""API of what batches and imports stored beside human work: lists, rows, and adoption."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from ninja import Query, Router

from synthesis.errors import InputError
from webapp.batches.models import Batch
from webapp.common.rest.auth import get_acting_user, require_scope
from webapp.common.rest.etags import demand_match, describe_required_match
from webapp.common.rest.idempotency import idempotent
from webapp.common.rest.paging import cursor_page
from webapp.common.rest.types import Id, PageOf
from webapp.edits.beside import adoption
from webapp.edits.beside.origin import list_stored_by_batch, list_stored_by_import
from webapp.edits.beside.schemas import BesideQuery, RevisionBesideOut, VersionBesideOut
from webapp.environments.models import Version
from webapp.environments.totals import lock_environment
from webapp.jobs.models import Job
from webapp.scenarios.models import TaskRevision

router = Router(tags=["edits"])
VERSION, REVISION = "GET /edits/beside/versions/{pk}", "GET /edits/beside/revisions/{pk}"


@router.get("/edits/beside/versions", auth=require_scope("read"), response=PageOf[VersionBesideOut])
def list_versions_beside(request: HttpRequest, query: Query[BesideQuery]) -> Any:
    """List the versions that a batch or an import stored beside human work and that are not current, newest first."""
    return cursor_page(adoption.noncurrent_versions(_list_stored_beside(query)[0]).order_by(), query)


@router.get("/edits/beside/revisions", auth=require_scope("read"), response=PageOf[RevisionBesideOut])
def list_revisions_beside(request: HttpRequest, query: Query[BesideQuery]) -> Any:
    """List the revisions that a batch or an import stored beside human work and that are not current, newest first."""
    return cursor_page(adoption.noncurrent_revisions(_list_stored_beside(query)[1]).order_by(), query)


def _list_stored_beside(query: BesideQuery) -> tuple[list[int], list[int]]:
    """Return the versions and revisions of the named batch or import. Raises InputError, Http404."""
    if (query.batch is None) == (query.job is None):
        raise InputError("Name one of batch and job.")
    if query.batch is not None:
        return list_stored_by_batch(get_object_or_404(Batch.objects.only("pk"), pk=query.batch).pk)
    return list_stored_by_import(get_object_or_404(Job, pk=query.job or 0))


@router.get("/edits/beside/versions/{pk}", auth=require_scope("read"), response=VersionBesideOut)
def get_version_beside(request: HttpRequest, pk: Id) -> Version:
    """Return a version of an environment, and the current one. Its ETag is needed to adopt it."""
    return get_object_or_404(adoption.version_rows(), pk=pk)


@router.get("/edits/beside/revisions/{pk}", auth=require_scope("read"), response=RevisionBesideOut)
def get_revision_beside(request: HttpRequest, pk: Id) -> TaskRevision:
    """Return a revision of a task, and the current one. Its ETag is needed to adopt it."""
    return get_object_or_404(adoption.revision_rows(), pk=pk)


@router.post(
    "/edits/beside/versions/{pk}/adopt", auth=require_scope("review"), response=VersionBesideOut,
    openapi_extra=describe_required_match(VERSION),
)  # fmt: skip
@idempotent
def adopt_version_beside(request: HttpRequest, pk: Id) -> Version:
    """Make a version current, and with it the revisions on it of tasks without human work. `If-Match` is required.

    412 if another version has become current since it was read; 409 if this one is current already.
    """
    with transaction.atomic():
        lock_environment(get_version_beside(request, pk).environment_id)
        demand_match(request, VersionBesideOut.from_orm(get_version_beside(request, pk)), VERSION)
        adoption.adopt_version(get_acting_user(request), pk)
    return get_version_beside(request, pk)


@router.post(
    "/edits/beside/revisions/{pk}/adopt", auth=require_scope("review"), response=RevisionBesideOut,
    openapi_extra=describe_required_match(REVISION),
)  # fmt: skip
@idempotent
def adopt_revision_beside(request: HttpRequest, pk: Id) -> TaskRevision:
    """Make a revision of a task current; an approval of another one is reopened. `If-Match` is required.

    412 if the task has changed since it was read; 409 if the revision is current already.
    """
    with transaction.atomic():
        lock_environment(get_revision_beside(request, pk).task.environment_id)
        demand_match(request, RevisionBesideOut.from_orm(get_revision_beside(request, pk)), REVISION)
        adoption.adopt_revision(get_acting_user(request), pk)
    return get_revision_beside(request, pk)

"""What batches and imports stored beside human work over the API: listed, read, and adopted."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from ninja import Query, Router

from synthesis.errors import InputError
from webapp.batches.models import Batch
from webapp.edits.beside import adoption
from webapp.edits.beside.origin import list_of_batch, list_of_import
from webapp.edits.beside.schemas import BesideQuery, RevisionBesideOut, VersionBesideOut
from webapp.environments.models import Version
from webapp.environments.totals import lock_environment
from webapp.jobs.models import Job
from webapp.rest.auth import needs, person
from webapp.rest.etags import demand_match, match_needed
from webapp.rest.idempotency import idempotent
from webapp.rest.paging import cursor_page
from webapp.rest.types import Id, PageOf
from webapp.scenarios.models import TaskRevision

router = Router(tags=["edits"])
VERSION, REVISION = "GET /edits/beside/versions/{pk}", "GET /edits/beside/revisions/{pk}"


@router.get("/edits/beside/versions", auth=needs("read"), response=PageOf[VersionBesideOut])
def list_versions_beside(request: HttpRequest, query: Query[BesideQuery]) -> Any:
    """The versions that a batch or an import stored beside human work and that are not current, newest first."""
    return cursor_page(adoption.find_versions(_listed(query)[0]).order_by(), query)


@router.get("/edits/beside/revisions", auth=needs("read"), response=PageOf[RevisionBesideOut])
def list_revisions_beside(request: HttpRequest, query: Query[BesideQuery]) -> Any:
    """The revisions that a batch or an import stored beside human work and that are not current, newest first."""
    return cursor_page(adoption.find_revisions(_listed(query)[1]).order_by(), query)


def _listed(query: BesideQuery) -> tuple[list[int], list[int]]:
    """The versions and revisions of the batch or the import that is named. Raises InputError, Http404."""
    if (query.batch is None) == (query.job is None):
        raise InputError("Name one of batch and job.")
    if query.batch is not None:
        return list_of_batch(get_object_or_404(Batch.objects.only("pk"), pk=query.batch).pk)
    return list_of_import(get_object_or_404(Job, pk=query.job or 0))


@router.get("/edits/beside/versions/{pk}", auth=needs("read"), response=VersionBesideOut)
def get_version_beside(request: HttpRequest, pk: Id) -> Version:
    """A version of an environment, and the one that is current. Its ETag is what an adoption needs."""
    return get_object_or_404(adoption.version_rows(), pk=pk)


@router.get("/edits/beside/revisions/{pk}", auth=needs("read"), response=RevisionBesideOut)
def get_revision_beside(request: HttpRequest, pk: Id) -> TaskRevision:
    """A revision of a task, and the one that is current. Its ETag is what an adoption needs."""
    return get_object_or_404(adoption.revision_rows(), pk=pk)


@router.post(
    "/edits/beside/versions/{pk}/adopt", auth=needs("review"), response=VersionBesideOut,
    openapi_extra=match_needed(VERSION),
)  # fmt: skip
@idempotent
def adopt_version_beside(request: HttpRequest, pk: Id) -> Version:
    """Make a version current, and with it the revisions on it of tasks without human work. `If-Match` is required.

    412 if another version has become current since it was read; 409 if this one is current already.
    """
    with transaction.atomic():
        lock_environment(get_version_beside(request, pk).environment_id)
        demand_match(request, VersionBesideOut.from_orm(get_version_beside(request, pk)), VERSION)
        adoption.adopt_version(person(request), pk)
    return get_version_beside(request, pk)


@router.post(
    "/edits/beside/revisions/{pk}/adopt", auth=needs("review"), response=RevisionBesideOut,
    openapi_extra=match_needed(REVISION),
)  # fmt: skip
@idempotent
def adopt_revision_beside(request: HttpRequest, pk: Id) -> TaskRevision:
    """Make a revision of a task current; an approval of another one is reopened. `If-Match` is required.

    412 if the task has changed since it was read; 409 if the revision is current already.
    """
    with transaction.atomic():
        lock_environment(get_revision_beside(request, pk).task.environment_id)
        demand_match(request, RevisionBesideOut.from_orm(get_revision_beside(request, pk)), REVISION)
        adoption.adopt_revision(person(request), pk)
    return get_revision_beside(request, pk)

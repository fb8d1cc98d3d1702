"""Rows that one batch or one import stored beside human work, found by the batch or by the import's job."""

from __future__ import annotations

from webapp.batches.beside_human_work import list_revisions_beside, list_versions_beside
from webapp.jobs.models import Job
from webapp.scenarios.human_work import BESIDE

KINDS = ("version", "revision")


def list_stored_by_batch(batch: int) -> tuple[list[int], list[int]]:
    """Return the versions and the revisions that a batch stored beside human work."""
    versions = list_versions_beside(batch).values_list("version", flat=True)
    return list(versions), list(list_revisions_beside(batch).values_list("revision", flat=True))


def list_stored_by_import(job: Job) -> tuple[list[int], list[int]]:
    """Return the versions and the revisions that the result of an import lists."""
    lines = job.result.get(BESIDE, []) if isinstance(job.result, dict) else []
    lines = [line for line in lines if isinstance(line, dict) and type(line.get("id")) is int]
    versions, revisions = ([line["id"] for line in lines if line.get("kind") == kind] for kind in KINDS)
    return versions, revisions

"""What pages and API call to start the taxonomy's background jobs."""

from __future__ import annotations

from typing import Any

from django.core.files.base import File

from synthesis.errors import InputError
from synthesis.themes.dedupe import require_threshold
from webapp.endpoints.queries import find_choice
from webapp.jobs.models import Job
from webapp.jobs.services import create
from webapp.taxonomy import jobs as _registered  # noqa: F401  the kind of job that is created here
from webapp.taxonomy.importer import SOURCE
from webapp.taxonomy.near_duplicates.queries import open_job
from webapp.uploads import store_upload


def start_mcp_import(user: Any, file: File[bytes], source: str = SOURCE) -> Job:
    """Keep an upload and queue its import. Raises `InputError` (empty, too large)."""
    stored = store_upload(file)
    return create("import_mcp_servers", f"Import {stored['original']}", {"file": stored, "source": source}, user)


def start_grouping(user: Any, threshold: float, model: str = "") -> Job:
    """Queue a grouping of all themes. `model` is "" or `endpoint id/model`.

    Raises `InputError` (threshold, unknown model, a grouping that has not ended yet).
    """
    require_threshold(threshold)
    if model and find_choice(model) is None:
        raise InputError("This model is not listed at its endpoint. Choose another one.")
    running = open_job()
    if running is not None:
        raise InputError(f"Job {running.pk} is grouping themes already. Wait for it, or cancel it on its page.")
    return create("group_themes", f"Group themes at {threshold:g}", {"threshold": threshold, "model": model}, user)

"""What the pages call to import MCP servers in the background."""

from __future__ import annotations

from typing import Any

from django.core.files.base import File

from webapp.jobs.models import Job
from webapp.jobs.services import create
from webapp.taxonomy import jobs as _registered  # noqa: F401  the kind of job that is created here
from webapp.taxonomy.importing import SOURCE
from webapp.uploads import store_upload


def start_mcp_import(user: Any, file: File[bytes], source: str = SOURCE) -> Job:
    """Keep an upload and queue its import. Raises `InputError` (empty, too large)."""
    stored = store_upload(file)
    return create("import_mcp_servers", f"Import {stored['original']}", {"file": stored, "source": source}, user)

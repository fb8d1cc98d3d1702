"""Background jobs of the taxonomy."""

from __future__ import annotations

from typing import Any

from synthesis.formats.mcp import bounded
from webapp.jobs.context import JobContext
from webapp.jobs.registry import job
from webapp.taxonomy.importing import import_servers
from webapp.uploads import drop_uploads, read_upload, require_records


@job("import_mcp_servers", queue="sandbox")
def import_mcp_servers(context: JobContext) -> dict[str, Any]:
    """Import an uploaded file. Servers that went in before a crash are `unchanged` the second time."""
    stored = context.payload["file"]
    entries = bounded(read_upload(stored), stored["original"])
    require_records((stored, entries))
    context.afterwards.append(lambda: drop_uploads(stored))
    return import_servers(entries, context.payload["source"], context.progress)

"""Background jobs of scenarios and tasks."""

from __future__ import annotations

from typing import Any

from synthesis.runtime import default_sandbox
from webapp.environments.importing_uploads import drop_uploads, read_upload
from webapp.jobs.context import JobContext
from webapp.jobs.registry import job
from webapp.scenarios.importing import import_entries


@job("import_envscaler", queue="sandbox")
def import_envscaler(context: JobContext) -> dict[str, Any]:
    """Import uploaded files. Records that went in before a crash are `unchanged` the second time."""
    environments, scenarios = context.payload["environments"], context.payload.get("scenarios")
    result = import_entries(
        default_sandbox(),
        read_upload(environments),
        read_upload(scenarios),
        context.payload["source"],
        context.progress,
    )
    drop_uploads(environments, scenarios)
    return result

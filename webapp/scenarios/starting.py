"""What the pages call to import EnvScaler's files in the background."""

from __future__ import annotations

from typing import Any

from django.core.files.base import File

from webapp.environments.importing_uploads import store_upload
from webapp.jobs.models import Job
from webapp.jobs.services import create
from webapp.scenarios import jobs as _registered  # noqa: F401  the kind of job that is created here

SOURCE = "envscaler"


def start_envscaler_import(
    user: Any, envs_file: File[bytes], scenarios_file: File[bytes] | None = None, source: str = SOURCE
) -> Job:
    """Keep the uploads and queue their import. Raises `InputError` (empty, too large)."""
    environments = store_upload(envs_file)
    scenarios = store_upload(scenarios_file) if scenarios_file else None
    names = " and ".join(item["original"] for item in (environments, scenarios) if item)
    payload = {"environments": environments, "scenarios": scenarios, "source": source}
    return create("import_envscaler", f"Import {names}", payload, user)

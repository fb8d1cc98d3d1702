"""What pages and the API call to import EnvScaler's files, and to audit, in the background."""

from __future__ import annotations

from typing import Any

from django.core.files.base import File
from django.db import transaction

from synthesis.errors import InputError
from webapp.accounts.services import audit
from webapp.environments.models import Environment
from webapp.jobs.models import OPEN_STATES, Job
from webapp.jobs.services import create
from webapp.scenarios import jobs as _registered  # noqa: F401  the kinds of jobs that are created here
from webapp.scenarios.models import Task
from webapp.uploads import drop_uploads, store_upload

SOURCE = "envscaler"


def start_envscaler_import(
    user: Any, envs_file: File[bytes], scenarios_file: File[bytes] | None = None, source: str = SOURCE
) -> Job:
    """Keep the uploads and queue their import. Raises `InputError` (empty, too large)."""
    environments = store_upload(envs_file)
    try:
        scenarios = store_upload(scenarios_file) if scenarios_file else None
    except InputError:
        drop_uploads(environments)
        raise
    names = " and ".join(item["original"] for item in (environments, scenarios) if item)
    payload = {"environments": environments, "scenarios": scenarios, "source": source}
    return create("import_envscaler", f"Import {names}", payload, user)


def open_audit(task: Task) -> Job | None:
    """The job that audits this very task and has not ended."""
    return Job.objects.filter(kind="audit", state__in=OPEN_STATES, title=_title(task)).order_by("-id").first()


def _title(task: Task) -> str:
    return f"Audit task {task.pk}"


def start_task_audit(user: Any, task: Task) -> Job:
    """Queue the audit of one task; the job that is on its way already is handed back."""
    return open_audit(task) or _start(user, _title(task), {"tasks": [task.pk]})


def start_environment_audit(user: Any, environment: Environment) -> Job:
    """Queue the audit of every task of an environment."""
    return _start(user, f"Audit the tasks of {environment.name}", {"environment": environment.pk})


def start_filter_audit(user: Any, wanted: dict[str, Any]) -> Job:
    """Queue the audit of every task that a `TaskFilter`'s values leave, as they are when the job runs."""
    named = ", ".join(f"{name} {value}" for name, value in wanted.items() if name != "sort")
    return _start(user, f"Audit tasks with {named}" if named else "Audit all tasks", {"filter": wanted})


@transaction.atomic
def _start(user: Any, title: str, payload: dict[str, Any]) -> Job:
    job = create("audit", title, payload, user)
    audit(user, "audit.start", job, **payload)
    return job

"""Background jobs of scenarios and tasks."""

from __future__ import annotations

from typing import Any

from django.urls import reverse

from synthesis.errors import InputError
from synthesis.runtime import get_default_sandbox
from webapp.accounts.models import User
from webapp.jobs.context import JobContext
from webapp.jobs.models import Job
from webapp.jobs.registry import register_job_handler
from webapp.jobs.subjects import MadeLink, register_made_links, register_subject_page
from webapp.jobs.uploads import drop_uploads, read_upload, require_records, require_success
from webapp.scenarios import queries
from webapp.scenarios.audits.audit_job import audit_tasks
from webapp.scenarios.audits.rubric_judge import find_registered_judge
from webapp.scenarios.frames.services import frame_task, frame_tasks
from webapp.scenarios.golden.services import make_goldens, make_task_golden
from webapp.scenarios.human_work import BESIDE
from webapp.scenarios.importer import import_entries
from webapp.scenarios.models import AUDIT_RESULTS, SUPERSEDED, Task


@register_subject_page("task")
def build_task_page(pk: int) -> tuple[str, str]:
    return f"Task {pk}", reverse("scenarios:task", args=[pk])


@register_made_links("import_envscaler")
def link_imported_rows(job: Job) -> list[MadeLink]:
    """Link the newest rows of each kind of which any were imported."""
    links = []
    for what, page in (("environments", "environments:list"), ("tasks", "scenarios:tasks")):
        part = job.result.get(what)
        if not isinstance(part, dict):
            continue
        counted = ((part.get("created"), "new"), (part.get("updated"), "updated"))
        links += [MadeLink(_format_count(count, word, what), reverse(page)) for count, word in counted if count]
    return links + _link_rows_beside(job)


@register_made_links("frame_task")
def link_framed_revisions(job: Job) -> list[MadeLink]:
    """Link what is stored beside human work."""
    return _link_rows_beside(job)


@register_made_links("golden_task")
def link_golden_revisions(job: Job) -> list[MadeLink]:
    """Link what is stored beside human work."""
    return _link_rows_beside(job)


def _link_rows_beside(job: Job) -> list[MadeLink]:
    stays = job.result.get(BESIDE)
    if not isinstance(stays, list) or not stays:
        return []
    words = f"{len(stays):,} stored beside human work: decide what stays"
    return [MadeLink(words, f"{reverse('edits:beside')}?job={job.pk}")]


def _format_count(count: int, word: str, what: str) -> str:
    return f"{count:,} {word} {what if count != 1 else what.removesuffix('s')}"


@register_made_links("audit")
def link_audited_tasks(job: Job) -> list[MadeLink]:
    """Link the tasks by the state of their audits."""
    tasks = reverse("scenarios:tasks")
    links = [
        MadeLink(f"{job.result[state]:,} {state}", f"{tasks}?audit={state}")
        for state in AUDIT_RESULTS
        if job.result.get(state)
    ]
    if job.result.get("skipped"):
        links.append(MadeLink(f"{job.result['skipped']:,} superseded, skipped", f"{tasks}?review={SUPERSEDED}"))
    return links


@register_job_handler("import_envscaler", queue="sandbox")
def import_envscaler(context: JobContext) -> dict[str, Any]:
    """Import uploaded files. Records that were stored before a crash are `unchanged` the second time."""
    environments, scenarios = context.payload["environments"], context.payload.get("scenarios")
    entries, cases = read_upload(environments), read_upload(scenarios)
    require_records((environments, entries), (scenarios, cases))
    context.afterwards.append(lambda: drop_uploads(environments, scenarios))
    result = import_entries(
        get_default_sandbox(),
        entries,
        cases,
        context.payload["source"],
        context.progress,
        frames=bool(context.payload.get("frames")),
        user=find_job_user(context),
    )
    return require_success(result)


@register_job_handler("audit", queue="llm")  # rubrics ask a judge
def run_audit(context: JobContext) -> dict[str, Any]:
    """Audit tasks by id, of an environment, or those a filter of the list selects. Known audits are not computed
    again."""
    chosen = _list_chosen_tasks(context.payload)
    if not chosen:
        raise InputError("There is no task to audit: what was chosen has no current task any more.")
    result = audit_tasks(get_default_sandbox(), chosen, context.progress, judge=find_registered_judge())
    for line in result["failed"][:100]:
        context.log(f"{line['place']}: {line['reason']}", "error")
    return result


@register_job_handler("frame_task", queue="sandbox")
def make_frame(context: JobContext) -> dict[str, Any]:
    """Give tasks the frame of their reference: one, all of an environment, or those a filter of the list selects."""
    payload = context.payload
    if "task" not in payload:
        chosen = (
            _list_chosen_tasks(payload)
            if payload.get("makes", True)
            else _list_chosen_tasks(payload, current__frame__isnull=False)
        )
        return frame_tasks(get_default_sandbox(), chosen, find_job_user(context), context.progress, pins=True).report()
    rows = Task.objects.select_related("current__scenario__version", "current__scenario__initial")
    row = rows.filter(pk=payload["task"]).first()
    if row is None:
        raise InputError("This task no longer exists.")
    return {"revision": frame_task(get_default_sandbox(), row, find_job_user(context)).number}


@register_job_handler("golden_task", queue="sandbox")
def make_golden(context: JobContext) -> dict[str, Any]:
    """Judge tasks by the golden states of their references: one, all of an environment, or those a filter selects."""
    payload, sandbox, user = context.payload, get_default_sandbox(), find_job_user(context)
    if "task" not in payload:
        return make_goldens(sandbox, _list_chosen_tasks(payload), user, payload["equality"], context.progress).report()
    rows = Task.objects.select_related("current__scenario__version", "current__scenario__initial")
    row = rows.filter(pk=payload["task"]).first()
    if row is None:
        raise InputError("This task no longer exists.")
    return {"revision": make_task_golden(sandbox, row, user, payload["equality"]).number}


def find_job_user(context: JobContext) -> User | None:
    return User.objects.filter(pk=context.user_id).first() if context.user_id is not None else None


def _list_chosen_tasks(payload: dict[str, Any], **more: Any) -> list[int]:
    if "tasks" in payload:
        rows = Task.objects.filter(pk__in=payload["tasks"])
    elif "environment" in payload:
        rows = Task.objects.filter(environment=payload["environment"])
    else:
        rows = queries.filter_tasks(payload["filter"])
    return list(rows.filter(current__isnull=False, **more).order_by("id").values_list("id", flat=True))

"""Background jobs of scenarios and tasks."""

from __future__ import annotations

from typing import Any

from django.urls import reverse

from synthesis.errors import InputError
from synthesis.runtime import default_sandbox
from webapp.accounts.models import User
from webapp.jobs.context import JobContext
from webapp.jobs.models import Job
from webapp.jobs.registry import job
from webapp.jobs.subjects import MadeLink, made_by, subject_page
from webapp.scenarios import queries
from webapp.scenarios.audits.audit_job import audit_tasks
from webapp.scenarios.audits.rubric_judge import registered_judge
from webapp.scenarios.frames.services import frame_task, frame_tasks
from webapp.scenarios.golden.services import make_goldens, make_task_golden
from webapp.scenarios.human_work import BESIDE
from webapp.scenarios.importer import import_entries
from webapp.scenarios.models import AUDIT_RESULTS, SUPERSEDED, Task
from webapp.uploads import drop_uploads, read_upload, require_records, require_success


@subject_page("task")
def task_page(pk: int) -> tuple[str, str]:
    return f"Task {pk}", reverse("scenarios:task", args=[pk])


@made_by("import_envscaler")
def imported(job: Job) -> list[MadeLink]:
    """The newest rows of each sort of which any came in."""
    links = []
    for what, page in (("environments", "environments:list"), ("tasks", "scenarios:tasks")):
        part = job.result.get(what)
        if not isinstance(part, dict):
            continue
        counted = ((part.get("created"), "new"), (part.get("updated"), "updated"))
        links += [MadeLink(_counted(count, word, what), reverse(page)) for count, word in counted if count]
    return links + _beside(job)


@made_by("frame_task")
def framed(job: Job) -> list[MadeLink]:
    """What stands beside human work."""
    return _beside(job)


@made_by("golden_task")
def judged_by_golden_states(job: Job) -> list[MadeLink]:
    """What stands beside human work."""
    return _beside(job)


def _beside(job: Job) -> list[MadeLink]:
    stays = job.result.get(BESIDE)
    if not isinstance(stays, list) or not stays:
        return []
    words = f"{len(stays):,} stored beside what people made: look at what stays"
    return [MadeLink(words, f"{reverse('edits:beside')}?job={job.pk}")]


def _counted(count: int, word: str, what: str) -> str:
    return f"{count:,} {word} {what if count != 1 else what.removesuffix('s')}"


@made_by("audit")
def audited(job: Job) -> list[MadeLink]:
    """Tasks by the state of their audits."""
    tasks = reverse("scenarios:tasks")
    links = [
        MadeLink(f"{job.result[state]:,} {state}", f"{tasks}?audit={state}")
        for state in AUDIT_RESULTS
        if job.result.get(state)
    ]
    if job.result.get("skipped"):
        links.append(MadeLink(f"{job.result['skipped']:,} superseded, skipped", f"{tasks}?review={SUPERSEDED}"))
    return links


@job("import_envscaler", queue="sandbox")
def import_envscaler(context: JobContext) -> dict[str, Any]:
    """Import uploaded files. Records that went in before a crash are `unchanged` the second time."""
    environments, scenarios = context.payload["environments"], context.payload.get("scenarios")
    entries, cases = read_upload(environments), read_upload(scenarios)
    require_records((environments, entries), (scenarios, cases))
    context.afterwards.append(lambda: drop_uploads(environments, scenarios))
    result = import_entries(
        default_sandbox(),
        entries,
        cases,
        context.payload["source"],
        context.progress,
        frames=bool(context.payload.get("frames")),
        user=person_of(context),
    )
    return require_success(result)


@job("audit", queue="llm")  # rubrics ask a judge
def audit(context: JobContext) -> dict[str, Any]:
    """Audit tasks by id, of an environment, or those a filter of the list leaves. What is known is not done again."""
    chosen = _chosen(context.payload)
    if not chosen:
        raise InputError("There is no task to audit: what was chosen has no current task any more.")
    result = audit_tasks(default_sandbox(), chosen, context.progress, judge=registered_judge())
    for line in result["failed"][:100]:
        context.log(f"{line['place']}: {line['reason']}", "error")
    return result


@job("frame_task", queue="sandbox")
def make_frame(context: JobContext) -> dict[str, Any]:
    """Give tasks the frame of their reference: one, all of an environment, or those a filter of the list leaves."""
    payload = context.payload
    if "task" not in payload:
        chosen = _chosen(payload) if payload.get("makes", True) else _chosen(payload, current__frame__isnull=False)
        return frame_tasks(default_sandbox(), chosen, person_of(context), context.progress, pins=True).report()
    rows = Task.objects.select_related("current__scenario__version", "current__scenario__initial")
    row = rows.filter(pk=payload["task"]).first()
    if row is None:
        raise InputError("This task is gone.")
    return {"revision": frame_task(default_sandbox(), row, person_of(context)).number}


@job("golden_task", queue="sandbox")
def make_golden(context: JobContext) -> dict[str, Any]:
    """Judge tasks by the golden states of their references: one, all of an environment, or those a filter leaves."""
    payload, sandbox, user = context.payload, default_sandbox(), person_of(context)
    if "task" not in payload:
        return make_goldens(sandbox, _chosen(payload), user, payload["equality"], context.progress).report()
    rows = Task.objects.select_related("current__scenario__version", "current__scenario__initial")
    row = rows.filter(pk=payload["task"]).first()
    if row is None:
        raise InputError("This task is gone.")
    return {"revision": make_task_golden(sandbox, row, user, payload["equality"]).number}


def person_of(context: JobContext) -> User | None:
    return User.objects.filter(pk=context.user_id).first() if context.user_id is not None else None


def _chosen(payload: dict[str, Any], **more: Any) -> list[int]:
    if "tasks" in payload:
        rows = Task.objects.filter(pk__in=payload["tasks"])
    elif "environment" in payload:
        rows = Task.objects.filter(environment=payload["environment"])
    else:
        rows = queries.tasks(payload["filter"])
    return list(rows.filter(current__isnull=False, **more).order_by("id").values_list("id", flat=True))

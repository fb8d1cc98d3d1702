"""Background jobs of edits."""

from __future__ import annotations

from typing import Any

from django.urls import reverse

from synthesis.errors import InputError
from synthesis.runtime import get_default_sandbox
from webapp.edits import forecasts, services
from webapp.edits.models import Edit, Forecast, ForecastState
from webapp.edits.saved_edit import save_edit
from webapp.edits.tool_repair import ask_repair
from webapp.environments.models import Tool
from webapp.jobs.context import JobContext
from webapp.jobs.registry import register_job_handler
from webapp.jobs.subjects import register_subject_page
from webapp.scenarios.audits.rubric_judge import find_registered_judge
from webapp.scenarios.jobs import find_job_user


@register_subject_page("edit")
def build_edit_page(pk: int) -> tuple[str, str]:
    return f"Edit {pk}", reverse("edits:edit", args=[pk])


def close_forecast(job: int) -> None:
    """Mark a forecast as failed if its job ended without its handler."""
    rows = Forecast.objects.filter(job=job, state=ForecastState.WORKING)
    rows.update(state=ForecastState.FAILED, why="The job was stopped before it was done.")


@register_job_handler(services.FORECAST_JOB, queue="llm", closing=close_forecast)  # audits ask a judge
def forecast_edit(context: JobContext) -> dict[str, Any]:
    """Compute what saving a draft would do. After a crash it starts again."""
    rows = Forecast.objects.select_related("edit__environment", "edit__version", "edit__task", "edit__revision")
    forecast = rows.filter(pk=context.payload["forecast"]).first()
    if forecast is None:
        raise InputError("The edit no longer exists.")
    if forecast.state == ForecastState.READY:
        return _build_report(forecast)
    if forecast.edit.digest != forecast.digest:
        forecasts.mark_failed(forecast, "The draft was changed meanwhile. Work it out again.")
        raise InputError("The draft was changed meanwhile. Work it out again.")
    try:
        finished_forecast = forecasts.compute_forecast(
            get_default_sandbox(), forecast, find_registered_judge(), context.progress
        )
    except InputError as error:
        forecasts.mark_failed(forecast, str(error))
        raise
    return _build_report(finished_forecast)


def _build_report(forecast: Forecast) -> dict[str, Any]:
    return {"edit": forecast.edit_id, "tasks": forecast.tasks, "attempts": forecast.executed}


@register_job_handler(services.REPAIR_JOB, queue="llm")
def repair_tool(context: JobContext) -> dict[str, Any]:
    """Ask the author model for a repair of a tool; its reply is a draft."""
    tool = Tool.objects.select_related("version").filter(pk=context.payload["tool"]).first()
    user = find_job_user(context)
    if tool is None or user is None:
        raise InputError("The tool, or the person who requested its repair, no longer exists.")
    origin = Edit.objects.filter(pk=context.payload.get("origin") or 0).first()
    context.progress(0, 1, "the author model writes")
    edit = ask_repair(user, tool, origin, sample=context.job_id)
    context.progress(1, 1, "")
    return {"edit": edit.pk}


@register_job_handler(services.SAVE_JOB, queue="llm")
def save_edit_job(context: JobContext) -> dict[str, Any]:
    """Save a draft with all its effects. If it is saved already, return the result."""
    edit = services.find_edit(context.payload["edit"])
    if edit.state == "draft" and edit.serial != context.payload["serial"]:
        raise InputError("The draft was changed before it was saved. Look at it, and save it once more.")
    sandbox, user = get_default_sandbox(), find_job_user(context)
    return save_edit(sandbox, user, edit.pk, find_registered_judge(), context.progress).report()

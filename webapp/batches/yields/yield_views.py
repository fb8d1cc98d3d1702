"""Page of a batch's yield, alone or beside another batch's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from webapp.accounts.access import require_scope
from webapp.batches import queries
from webapp.batches.launch import prompt_trials
from webapp.batches.models import Batch
from webapp.batches.setting_labels import format_setting_value, get_setting_label, list_setting_changes
from webapp.batches.spec import BatchSettings
from webapp.batches.yields import services
from webapp.batches.yields.comparison import CHOICE, compare_figures
from webapp.batches.yields.published import ENVSCALER, NOT_SAID
from webapp.batches.yields.shared_environments import compare_shared_environments, group_offered_batches
from webapp.common.query_params import Params
from webapp.common.rest.api_examples import build_api_call

OFFERED = 50
"""Batches that can be chosen to compare with, of each group; any other one by its number in the address."""
TENTHS = 10


@require_scope("read")
@require_safe
@never_cache
def show_yield(request: HttpRequest, pk: int) -> HttpResponse:
    """Show the yield of a batch; `?with=` names a batch to compare it with."""
    row = get_object_or_404(queries.select_batches(), pk=pk)
    read = services.get_yield(row)
    context: dict[str, Any] = {
        "batch": row,
        "read": read,
        "figures": read.figures,
        "others": group_offered_batches(row, OFFERED),
        "copy_as": build_api_call(request, "GET", "api:get_batch_yield", args=(pk,)),
    }
    if read.figures is not None:
        context |= _build_figure_parts(read.figures) | {"choices": _group_choice_lines(row, read.figures)}
    number = Params(request.GET).number("with")
    if number is not None and number != pk:
        context |= _build_comparison_context(row, read, number)
    return render(request, "batches/yield.html", context)


@require_scope("synthesise")
@require_POST
def start_yield_job(request: HttpRequest, pk: int) -> HttpResponse:
    """Let a job read the yield of a large batch."""
    job = services.start_reading(request.user, get_object_or_404(Batch, pk=pk))
    messages.success(request, f"Job {job.pk} reads the yield. Reload this page in a moment.")
    return redirect("batches:yield", pk)


def _build_figure_parts(figures: Mapping[str, Any]) -> dict[str, Any]:
    rates = figures["solve_rates"]
    most = max([*rates["histogram"].values(), 1])
    return {
        "bins": [
            {"label": f"{tenth * TENTHS} %", "count": count, "share": 100 * count / most}
            for tenth, count in sorted((int(key), value) for key, value in rates["histogram"].items())
        ],
        "solved_share": rates["solved"] / rates["attempts"] if rates["attempts"] else None,
        "published": [(figure, list_our_figures(figures).get(figure.beside)) for figure in ENVSCALER],
        "not_said": NOT_SAID,
    }


@dataclass(frozen=True)
class ChoiceLine:
    """A figure of a choice, beside the other batch's if there is one (`there`)."""

    words: str
    sort: str
    value: float | None
    note: str
    there: float | None = None
    there_note: str = ""


@dataclass(frozen=True)
class ChoiceGroup:
    """The figures of one setting, with its value in both batches."""

    label: str
    value: str
    there: str
    lines: list[ChoiceLine]


def _group_choice_lines(
    row: Batch, figures: Mapping[str, Any], other: Batch | None = None, others: Mapping[str, Any] | None = None
) -> list[ChoiceGroup]:
    """Return the cost of each choice, by setting, in order."""
    batches = [one for one in (row, other) if one is not None]
    stages = [BatchSettings.model_validate(batch.settings).stages for batch in batches]
    other_figures = {figure["key"]: figure for figure in (others or {}).get("choices", ())}
    groups: dict[str, ChoiceGroup] = {}
    for figure in figures["choices"]:
        name = figure["setting"]
        if name not in groups:
            setting_values = [format_setting_value(getattr(one, name)) for one in stages]
            groups[name] = ChoiceGroup(get_setting_label(name), setting_values[0], setting_values[-1], [])
        other_figure = other_figures.get(figure["key"], {})
        own_values = {key: figure[key] for key in ("words", "sort", "value", "note")}
        line = ChoiceLine(**own_values, there=other_figure.get("value"), there_note=other_figure.get("note", ""))
        groups[name].lines.append(line)
    return list(groups.values())


def list_our_figures(figures: Mapping[str, Any]) -> dict[str, float | None]:
    """Return our figures that correspond to figures of the paper."""
    kept_counts, rates = figures["kept"], figures["solve_rates"]
    return {
        "environments": kept_counts["theme"],
        "scenarios": kept_counts["scenario"],
        "scenarios_an_environment": kept_counts["scenario"] / kept_counts["theme"] if kept_counts["theme"] else None,
        "trajectories": kept_counts["trajectory"],
        "mean_reward": rates["mean_reward"],
        "mean_reward_talk": rates["mean_reward_talk"],
    }


def _build_comparison_context(row: Batch, read: services.YieldRead, number: int) -> dict[str, Any]:
    other = queries.select_batches().filter(pk=number).first()
    if other is None:
        return {"not_there": number}
    other_read = services.get_yield(other)
    settings = [BatchSettings.model_validate(one.settings) for one in (row, other)]
    context: dict[str, Any] = {"other": other, "other_read": other_read, "changes": list_setting_changes(*settings)}
    context["prompt_changes"] = prompt_trials.compare_prompts(*settings)
    if read.figures is not None and other_read.figures is not None:
        lines = compare_figures(read.figures, other_read.figures)
        context["lines"] = [line for line in lines if not line.key.startswith(CHOICE)]
        context["shared"] = compare_shared_environments(row, other, read.figures, other_read.figures)
        context["choices"] = _group_choice_lines(row, read.figures, other, other_read.figures)
        context["replayed"] = [one["used"]["replayed"] for one in (read.figures, other_read.figures)]
    return context

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

from webapp.accounts.access import access
from webapp.batches import queries
from webapp.batches.launch import prompt_trials
from webapp.batches.models import Batch
from webapp.batches.setting_labels import describe_value, differences, name_setting
from webapp.batches.spec import BatchSettings
from webapp.batches.yields import services
from webapp.batches.yields.comparison import CHOICE, compared
from webapp.batches.yields.published import ENVSCALER, NOT_SAID
from webapp.query_params import Params
from webapp.rest.api_examples import api_call

OFFERED = 50
"""Newest batches that can be chosen to compare with; any other one by its number in the address."""
TENTHS = 10


@access("read")
@require_safe
@never_cache
def batch_yield(request: HttpRequest, pk: int) -> HttpResponse:
    """`?with=` names the batch beside it."""
    row = get_object_or_404(queries.batches(), pk=pk)
    read = services.known_yield(row)
    context: dict[str, Any] = {
        "batch": row,
        "read": read,
        "figures": read.figures,
        "others": _offered(row),
        "copy_as": api_call(request, "GET", "api:get_batch_yield", args=(pk,)),
    }
    if read.figures is not None:
        context |= _parts(read.figures) | {"choices": _group_choices(row, read.figures)}
    number = Params(request.GET).number("with")
    if number is not None and number != pk:
        context |= _beside(row, read, number)
    return render(request, "batches/yield.html", context)


@access("synthesise")
@require_POST
def read_yield(request: HttpRequest, pk: int) -> HttpResponse:
    """Have the yield of a large batch read by a job."""
    job = services.start_reading(request.user, get_object_or_404(Batch, pk=pk))
    messages.success(request, f"Job {job.pk} reads the yield. Reload this page in a moment.")
    return redirect("batches:yield", pk)


def _offered(row: Batch) -> list[tuple[int, str]]:
    rows = Batch.objects.exclude(pk=row.pk).order_by("-pk").values_list("pk", "name")[:OFFERED]
    return list(rows)


def _parts(figures: Mapping[str, Any]) -> dict[str, Any]:
    rates = figures["solve_rates"]
    most = max([*rates["histogram"].values(), 1])
    return {
        "bins": [
            {"label": f"{tenth * TENTHS} %", "count": count, "share": 100 * count / most}
            for tenth, count in sorted((int(key), value) for key, value in rates["histogram"].items())
        ],
        "solved_share": rates["solved"] / rates["attempts"] if rates["attempts"] else None,
        "published": [(figure, ours(figures).get(figure.beside)) for figure in ENVSCALER],
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


def _group_choices(
    row: Batch, figures: Mapping[str, Any], other: Batch | None = None, others: Mapping[str, Any] | None = None
) -> list[ChoiceGroup]:
    """What each choice costs, by setting, in their order."""
    batches = [one for one in (row, other) if one is not None]
    stages = [BatchSettings.model_validate(batch.settings).stages for batch in batches]
    beside = {figure["key"]: figure for figure in (others or {}).get("choices", ())}
    groups: dict[str, ChoiceGroup] = {}
    for figure in figures["choices"]:
        name = figure["setting"]
        if name not in groups:
            said = [describe_value(getattr(one, name)) for one in stages]
            groups[name] = ChoiceGroup(name_setting(name), said[0], said[-1], [])
        there = beside.get(figure["key"], {})
        known = {key: figure[key] for key in ("words", "sort", "value", "note")}
        line = ChoiceLine(**known, there=there.get("value"), there_note=there.get("note", ""))
        groups[name].lines.append(line)
    return list(groups.values())


def ours(figures: Mapping[str, Any]) -> dict[str, float | None]:
    """What stands beside figures of the paper."""
    kept, rates = figures["kept"], figures["solve_rates"]
    return {
        "environments": kept["theme"],
        "scenarios": kept["scenario"],
        "scenarios_an_environment": kept["scenario"] / kept["theme"] if kept["theme"] else None,
        "trajectories": kept["trajectory"],
        "mean_reward": rates["mean_reward"],
        "mean_reward_talk": rates["mean_reward_talk"],
    }


def _beside(row: Batch, read: services.YieldRead, number: int) -> dict[str, Any]:
    other = queries.batches().filter(pk=number).first()
    if other is None:
        return {"not_there": number}
    other_read = services.known_yield(other)
    settings = [BatchSettings.model_validate(one.settings) for one in (row, other)]
    beside: dict[str, Any] = {"other": other, "other_read": other_read, "changes": differences(*settings)}
    beside["prompt_changes"] = prompt_trials.between(*settings)
    if read.figures is not None and other_read.figures is not None:
        lines = compared(read.figures, other_read.figures)
        beside["lines"] = [line for line in lines if not line.key.startswith(CHOICE)]
        beside["choices"] = _group_choices(row, read.figures, other, other_read.figures)
        beside["replayed"] = [one["used"]["replayed"] for one in (read.figures, other_read.figures)]
    return beside

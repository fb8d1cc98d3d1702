"""Choice of a preset on the forms of a batch: its values, where the form departs from it, and what it leaves open."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST

from webapp.accounts.access import access
from webapp.batches.launch.forms import SettingsForm
from webapp.batches.presets import (
    AS_PUBLISHED,
    PUBLISHED,
    TITLES,
    UNCOVERED,
    PresetName,
    find_departures,
    list_differing,
    list_values,
    read_preset,
)
from webapp.batches.setting_labels import SettingLabel, describe_value, name_setting
from webapp.batches.spec import BatchSettings

TAKE = "take"
"""The button of a form that sets the values of a preset; its value is the preset's name."""
REDRAWN = ("more", TAKE)
"""Buttons after which a form comes back with something changed, and nothing is made."""


@dataclass(frozen=True)
class DepartureLine:
    """A choice that is not as the preset has it, in words."""

    label: str
    preset: str
    chosen: str
    place: str


def is_redrawn(request: HttpRequest) -> bool:
    return any(name in request.POST for name in REDRAWN)


def fill_in_preset(data: QueryDict) -> QueryDict:
    """What a form sent, with the values of the preset that its button names; as it is if none is named."""
    name = data.get(TAKE)
    if name not in TITLES:
        return data
    filled = data.copy()
    filled["preset"] = name
    for setting, value in list_values(name).items():
        filled.pop(setting, None)
        if value is not False:
            filled[setting] = "" if value is None else "on" if value is True else str(value)
    return filled


def mark_setting(setting: SettingLabel, preset: PresetName) -> SettingLabel:
    """The label with the mark of the value that the preset has: of the paper with its place, else as it is."""
    choice = next((choice for choice in PUBLISHED if choice.name == setting.name), None)
    if choice is None or preset != AS_PUBLISHED:
        return setting
    return replace(setting, mark="released" if choice.released else "published", place=choice.place)


def describe_choice(preset: PresetName) -> dict[str, Any]:
    """What the part of a form says about presets: their titles, where they differ, what none covers."""
    return {
        "preset": preset,
        "preset_title": TITLES[preset],
        "preset_titles": list(TITLES.items()),
        "preset_choices": [
            (name_setting(choice.name), describe_value(choice.ours), describe_value(choice.value), choice.place)
            for choice in list_differing()
        ],
        "uncovered": UNCOVERED,
    }


def describe_departures(settings: BatchSettings) -> list[DepartureLine]:
    """Where settings are not as their preset has them, as people read it."""
    return [
        DepartureLine(
            name_setting(departure.name),
            describe_value(departure.preset),
            describe_value(departure.chosen),
            departure.place,
        )
        for departure in find_departures(settings.preset, settings.stages)
    ]


def compare_with_preset(form: SettingsForm) -> dict[str, Any]:
    """Where a form departs from its preset, or that the form has faults."""
    unclear = form.is_bound and not form.is_valid()
    lines = [] if unclear else describe_departures(form.settings)
    return {"departures": lines, "departures_unclear": unclear}


@access("synthesise")
@require_POST
@never_cache
def departures(request: HttpRequest) -> HttpResponse:
    """Where a form departs from its preset, while it is filled in."""
    form = SettingsForm(request.POST, before=BatchSettings())
    context = compare_with_preset(form) | {"preset_title": TITLES[read_preset(form["preset"].value())]}
    return render(request, "batches/launch/departures.html", context)

"""Choice of a preset on the forms of a batch: its values, the departures of the form from it, and what it leaves
open."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from django.http import HttpRequest, QueryDict

from webapp.batches.presets import (
    AS_PUBLISHED,
    PUBLISHED,
    TITLES,
    UNCOVERED,
    PresetName,
    find_departures,
    list_differing_choices,
    list_preset_values,
)
from webapp.batches.setting_labels import SettingLabel, format_setting_value, get_setting_label
from webapp.batches.spec import BatchSettings

TAKE = "take"
"""The button of a form that sets the values of a preset; its value is the preset's name."""
REDRAWN = ("more", TAKE)
"""Buttons after which a form comes back with something changed, and nothing is made."""


@dataclass(frozen=True)
class DepartureLine:
    """A choice that departs from the preset, in words."""

    label: str
    preset: str
    chosen: str
    place: str


def is_redrawn(request: HttpRequest) -> bool:
    return any(name in request.POST for name in REDRAWN)


def fill_in_preset(data: QueryDict) -> QueryDict:
    """Return the sent form with the values of the preset that its button names; unchanged if none is named."""
    name = data.get(TAKE)
    if name not in TITLES:
        return data
    filled = data.copy()
    filled["preset"] = name
    for setting, value in list_preset_values(name).items():
        filled.pop(setting, None)
        if value is not False:
            filled[setting] = "" if value is None else "on" if value is True else str(value)
    return filled


def mark_setting(setting: SettingLabel, preset: PresetName) -> SettingLabel:
    """Return the label with the mark of the preset's value: the paper's with its place, else as it is."""
    choice = next((choice for choice in PUBLISHED if choice.name == setting.name), None)
    if choice is None or preset != AS_PUBLISHED:
        return setting
    return replace(setting, mark="released" if choice.released else "published", place=choice.place)


def describe_presets(preset: PresetName) -> dict[str, Any]:
    """Return the form's part on presets: their titles, their differences, what none covers."""
    return {
        "preset": preset,
        "preset_title": TITLES[preset],
        "preset_titles": list(TITLES.items()),
        "preset_choices": [
            (
                get_setting_label(choice.name),
                format_setting_value(choice.ours),
                format_setting_value(choice.value),
                choice.place,
            )
            for choice in list_differing_choices()
        ],
        "uncovered": UNCOVERED,
    }


def describe_departures(settings: BatchSettings) -> list[DepartureLine]:
    """Return the departures of settings from their preset, as people read them."""
    return [
        DepartureLine(
            get_setting_label(departure.name),
            format_setting_value(departure.preset),
            format_setting_value(departure.chosen),
            departure.place,
        )
        for departure in find_departures(settings.preset, settings.stages)
    ]

"""Schemas of presets of batches, and of departures from them."""

from __future__ import annotations

from typing import Annotated

from ninja import Schema
from pydantic import Field

from webapp.common.rest.types import Json


class DepartureOut(Schema):
    """A setting of `settings.stages` that departs from the preset; `place` is the source of the preset's value."""

    name: str
    preset: Json
    chosen: Json
    place: str


class PublishedChoiceOut(Schema):
    """A setting of `settings.stages` in the paper (`released`: in its authors' code), and ours."""

    name: str
    published: Annotated[Json, Field(validation_alias="value")]
    ours: Json
    place: str
    released: bool


class BatchPresetOut(Schema):
    """A preset of a batch: `settings.preset` takes the `name`. `values` are those of `settings.stages`; `uncovered`
    lists differences that no setting covers."""

    name: str
    title: str
    values: dict[str, Json]
    uncovered: list[str]


class BatchPresetsOut(Schema):
    """All presets, and their choices one by one."""

    presets: list[BatchPresetOut]
    choices: list[PublishedChoiceOut]

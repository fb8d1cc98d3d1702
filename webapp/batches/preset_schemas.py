"""Schemas of presets of batches, and of where a batch departs from its own."""

from __future__ import annotations

from typing import Annotated

from ninja import Schema
from pydantic import Field

from webapp.rest.types import Json


class DepartureOut(Schema):
    """A setting of `settings.stages` that is not as the preset has it; `place` says what the preset rests on."""

    name: str
    preset: Json
    chosen: Json
    place: str


class PublishedChoiceOut(Schema):
    """A setting of `settings.stages` as the paper has it (`released`: as its authors' code has it), and as ours."""

    name: str
    published: Annotated[Json, Field(validation_alias="value")]
    ours: Json
    place: str
    released: bool


class BatchPresetOut(Schema):
    """Whose choices a batch makes: `settings.preset` takes the `name`. `values` are those of `settings.stages`;
    `uncovered` says what no setting covers."""

    name: str
    title: str
    values: dict[str, Json]
    uncovered: list[str]


class BatchPresetsOut(Schema):
    """All presets, and their choices one by one."""

    presets: list[BatchPresetOut]
    choices: list[PublishedChoiceOut]

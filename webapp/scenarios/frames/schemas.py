"""API schemas of frames."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field

from webapp.common.rest.types import BodyIn, Position, Text
from webapp.scenarios.schemas import TaskFilterQuery


class PlaceIn(BodyIn):
    """A place that a right way may change as well; `most` of records that are added (`/+`) or removed (`/-`).

    A field may become one of `values`, or a number from `minimum` to `maximum`; without these, anything.
    """

    path: Annotated[Text, Field(min_length=2, max_length=600, pattern=r"^/", description="As /orders/O-3/note.")]
    most: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    values: Annotated[list[Text | bool | int | float | None], Field(max_length=50)] = []
    minimum: Annotated[float, Field(allow_inf_nan=False)] | None = None
    maximum: Annotated[float, Field(allow_inf_nan=False)] | None = None


class FrameWidening(BodyIn):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"places": [{"path": "/payments/+", "most": 2}], "reason": "It may be paid in two parts."}]
        }
    )

    places: Annotated[list[PlaceIn], Field(min_length=1, max_length=50)]
    reason: Annotated[Text, Field(min_length=1, max_length=500, description="Why this is right too.")]


class FrameRemoval(BodyIn):
    model_config = ConfigDict(json_schema_extra={"examples": [{"reason": "Any way to tidy up is right here."}]})

    reason: Annotated[Text, Field(min_length=1, max_length=500, description="Why whatever else changes is right.")]


class FrameRestoration(BodyIn):
    model_config = ConfigDict(json_schema_extra={"examples": [{"revision": 1}]})

    revision: Annotated[Position, Field(description="The number of the revision whose frame is wanted again.")]


class FramesWish(BodyIn):
    model_config = ConfigDict(json_schema_extra={"examples": [{"filter": {"source": "import"}}]})

    filter: Annotated[TaskFilterQuery, Field(description="As the list of tasks takes it.")]
    makes: Annotated[bool, Field(description="Whether tasks without a frame get one too, if a reference is known.")] = (
        False
    )

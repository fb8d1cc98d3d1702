"""The graph of a version's tools as the API shows it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from ninja import Schema
from pydantic import Field


class ToolEdgeOut(Schema):
    """An edge: what `source` returns may go into `parameter` of `target`. `model` judged it, in `batch`; both are empty
    if a person added it."""

    id: int
    kind: str
    source: str
    target: str
    parameter: str
    reason: str
    model: str
    batch: int | None
    created_at: datetime


class ToolGraphOut(Schema):
    """The graph of a version's tools. `judged_at` is null if no batch has judged the edges yet; without `graded` weak
    edges were not asked for."""

    version_id: int
    graded: Annotated[bool, Field(description="Whether weak edges were asked for too.")] = False
    model: str = ""
    batch: int | None = None
    judged_at: datetime | None = None
    edges: list[ToolEdgeOut]

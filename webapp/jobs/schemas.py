"""Schemas of the API of background jobs."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from ninja import Schema
from pydantic import Field

from webapp.common.rest.paging import PageQuery
from webapp.common.rest.types import Json


class JobQuery(PageQuery):
    state: Annotated[
        Literal["queued", "running", "succeeded", "failed", "cancelled"] | None, Field(description="In this state.")
    ] = None
    subject: Annotated[
        str | None, Field(max_length=64, description="That work on this, such as `trajectory:5`.", examples=["task:4"])
    ] = None


class JobLine(Schema):
    """`done` of `total` is the progress; `attempt` counts the workers that took the job."""

    id: int
    kind: str
    title: str
    subject: Annotated[
        str,
        Field(
            description="What it works on, spelled as in live updates: `trajectory:5`, `batch:7`. Empty if it is "
            "not a single object."
        ),
    ]
    queue: str
    state: str
    attempt: int
    done: int
    total: int
    note: str
    nothing_made: Annotated[
        bool, Field(description="It succeeded and nothing came of it: no record could be used, no item was kept.")
    ]
    cancel_requested: bool
    created_by: Annotated[str | None, Field(validation_alias="created_by.username")] = None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class JobOut(JobLine):
    """`result` is what the job came to, `error` why it failed."""

    result: Json
    error: str


class JobLogOut(Schema):
    id: int
    attempt: int
    level: str
    message: str
    at: datetime

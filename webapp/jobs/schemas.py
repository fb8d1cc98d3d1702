"""Jobs as the API shows them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from ninja import Schema
from pydantic import Field

from webapp.rest.paging import PageQuery
from webapp.rest.types import Json


class JobQuery(PageQuery):
    state: Annotated[
        Literal["queued", "running", "succeeded", "failed", "cancelled"] | None, Field(description="In this state.")
    ] = None


class JobLine(Schema):
    """`done` of `total` is the progress; `attempt` counts the workers that took the job."""

    id: int
    kind: str
    title: str
    queue: str
    state: str
    attempt: int
    done: int
    total: int
    note: str
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

"""API schemas of golden states."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field

from synthesis.contracts import Equality, VolatileRole
from webapp.common.rest.types import BodyIn, Text
from webapp.scenarios.schemas import TaskFilterQuery

Place = Annotated[Text, Field(min_length=2, max_length=600, pattern=r"^/", description="As /orders/O-3/token.")]


class GoldenIn(BodyIn):
    model_config = ConfigDict(json_schema_extra={"examples": [{"equality": "roles"}]})

    equality: Annotated[
        Equality,
        Field(
            description="roles: ids, moments and generated values in volatile places may be others; plain: every value "
            "must be the same."
        ),
    ] = "roles"


class GoldenWish(GoldenIn):
    model_config = ConfigDict(json_schema_extra={"examples": [{"filter": {"source": "import"}, "equality": "roles"}]})

    filter: Annotated[TaskFilterQuery, Field(description="As the list of tasks takes it.")]


class VolatileIn(BodyIn):
    """A place whose value may be another one, as its role says. It is declared in the caller's name."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"path": "/users/U-1/token", "role": "token", "reason": "A token is made at each login."}]
        }
    )

    path: Place
    role: VolatileRole
    reason: Annotated[Text, Field(min_length=1, max_length=500, description="Why another value is right too.")]


class VolatileRemoval(BodyIn):
    model_config = ConfigDict(json_schema_extra={"examples": [{"path": "/users/U-1/token"}]})

    path: Place

"""Environments, versions, tools and findings as the API shows them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from ninja import Schema
from pydantic import Field

from synthesis.stages import Variant
from webapp.common.rest.paging import PageQuery
from webapp.common.rest.types import Id, Json, ShortText
from webapp.environments.queries import Filters

Severity = Literal["fatal", "warning", "info"]
Count = Annotated[int, Field(ge=0, lt=10_000_000)]


class EnvironmentFilter(Schema):
    q: Annotated[ShortText, Field(description="Part of the name, or the whole key.")] = ""
    category: Annotated[ShortText, Field(description="A category, written whole.")] = ""
    finding: Annotated[ShortText, Field(description="A kind of finding that the current version has.")] = ""
    tools_min: Annotated[Count | None, Field(description="Tools at least.")] = None
    tools_max: Annotated[Count | None, Field(description="Tools at most.")] = None
    source: Annotated[ShortText, Field(max_length=32, description="Its source, such as starter.")] = ""
    leave_out: Annotated[ShortText, Field(max_length=32, description="Not from this source.")] = ""
    holds: Annotated[
        Literal["", "query", "change", "categories", "scenarios", "tasks", "trajectories", "score"],
        Field(description="What `least` and `most` count; without either, whatever has such a number."),
    ] = ""
    least: Annotated[Count | None, Field(description="Minimum of what `holds` names.")] = None
    most: Annotated[Count | None, Field(description="Maximum of what `holds` names.")] = None
    variant: Annotated[
        Literal["", Variant, "none"], Field(description="Whose pipeline made it; `none`: no batch did.")
    ] = ""
    sort: Annotated[
        Literal["new", "old", "name", "tools", "findings", "tasks"],
        Field(description="By name, else most, newest or oldest first."),
    ] = "new"

    def filters(self) -> Filters:
        names = ("source", "leave_out", "holds", "least", "most", "variant")
        linked = {name: getattr(self, name) for name in names}
        return Filters(self.q, self.category, self.finding, self.tools_min, self.tools_max, self.sort, **linked)


class EnvironmentQuery(EnvironmentFilter, PageQuery):
    pass


class EnvironmentLine(Schema):
    id: int
    source: str
    key: str
    name: str
    category: str
    variant: Annotated[str, Field(description="The variant of the pipeline that made it; empty if no batch did.")]
    tool_count: int
    finding_count: int
    scenario_count: int
    task_count: int
    trajectory_count: int
    created_at: datetime


class VersionLine(Schema):
    id: int
    environment_id: int
    number: int
    content_hash: str
    class_name: str
    created_at: datetime


class EnvironmentOut(EnvironmentLine):
    summary: str
    current: VersionLine | None
    updated_at: datetime


class VersionOut(VersionLine):
    """A version with its content. `source` is the program; `introduction`, `rules` and `state_schema` are its
    documentation."""

    source: str
    introduction: str
    rules: Json
    state_schema: Json


class ToolOut(Schema):
    """A tool. `parameters` is the JSON schema derived from the signature; `raw_schema` the one that was imported."""

    id: int
    version_id: int
    position: int
    name: str
    kind: str
    description: str
    parameters: Json
    raw_schema: Json
    source: str


class FindingQuery(PageQuery):
    environment: Annotated[Id | None, Field(description="Of this environment.")] = None
    kind: Annotated[ShortText, Field(description="A kind of finding, written whole.")] = ""
    severity: Annotated[Severity | None, Field(description="Of this severity.")] = None


class FindingOut(Schema):
    id: int
    version_id: int
    environment_id: Annotated[int, Field(validation_alias="version.environment_id")]
    kind: str
    severity: str
    place: str
    message: str
    data: Json

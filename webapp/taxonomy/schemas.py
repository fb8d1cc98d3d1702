"""Labels and themes as the API shows them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from ninja import Schema
from pydantic import Field

from webapp.common.rest.paging import PageQuery
from webapp.common.rest.types import Id, Json, ShortText
from webapp.taxonomy.queries import ThemeFilters


class NodeQuery(PageQuery):
    """Without `parent`, `level` or `q`: the whole tree."""

    parent: Annotated[Id | None, Field(description="Only the labels right below this one.")] = None
    level: Annotated[Literal[1, 2, 3] | None, Field(description="1 is the first level.")] = None
    q: Annotated[ShortText, Field(description="Part of the name.")] = ""


class NodeCountsOut(Schema):
    """Counts of what hangs on a label and below it. `pass_rate` is solved / scored, null if nothing is scored."""

    children: int
    environments: int
    themes: int
    tools: int
    tasks: int
    green: int
    red: int
    trajectories: int
    scored: int
    solved: int
    pass_rate: float | None


class NodeOut(Schema):
    id: int
    parent_id: int | None
    level: int
    name: str
    path: Annotated[str, Field(description="The folded names from the first level down; unique.")]
    counts: NodeCountsOut


class ThemeQuery(PageQuery):
    q: Annotated[ShortText, Field(description="Part of the name.")] = ""
    label: Annotated[ShortText, Field(description="A label that the theme has, written whole.")] = ""
    node: Annotated[Id | None, Field(description="A label of the tree: themes on it or below it.")] = None
    sort: Annotated[
        Literal["new", "name", "tools", "usage"], Field(description="By name, else most or newest first.")
    ] = "new"

    origin: Annotated[
        Literal["tasks", "servers", "documents", "requirements", "typed", "scripted"] | None,
        Field(description="Its source."),
    ] = None
    folded: Annotated[bool, Field(description="Also near-duplicates that are folded into another theme.")] = False

    def filters(self) -> ThemeFilters:
        return ThemeFilters(self.q, self.label, self.sort, origin=self.origin or "", folded=self.folded)


class ThemeLine(Schema):
    """`folded_into_id` is the theme that is kept instead of this near-duplicate; `duplicates` counts the other way."""

    id: int
    source: str
    origin: str
    folded_into_id: int | None
    similarity: float | None
    duplicates: int
    key: str
    name: str
    labels: list[str]
    node_id: int
    usage: int | None
    tool_count: int
    created_at: datetime


class ThemeToolOut(Schema):
    """`parameters` as they came: a JSON schema, a list of parameters, or null."""

    name: str
    description: str
    parameters: Json


class WorkflowOut(Schema):
    """A workflow of product requirements: its steps in order, and what else they say of it."""

    name: str
    about: str
    steps: list[str]


class ThemeOut(ThemeLine):
    description: str
    workflows: list[WorkflowOut]
    tasks: Annotated[list[str], Field(description="Texts of tasks that came with a set of tools.")]
    content_hash: str
    updated_at: datetime
    origin_text: str
    provenance: Json
    verdict: str
    tools: list[ThemeToolOut]

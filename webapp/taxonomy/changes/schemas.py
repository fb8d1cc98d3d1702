"""Changes of the tree as the API takes and shows them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from ninja import Schema
from pydantic import ConfigDict, Field

from webapp.common.rest.paging import PageQuery
from webapp.common.rest.types import BodyIn, Id, ShortText, Text
from webapp.taxonomy.changes import wishes
from webapp.taxonomy.changes.services import WHY
from webapp.taxonomy.changes.wishes import Parting, Wish

Why = Annotated[Text, Field(max_length=WHY, description="Why, in words; kept in the history.")]
Ids = Annotated[list[Id], Field(max_length=5_000)]


class MoveIn(BodyIn):
    kind: Literal["move"]
    node: Id
    parent: Annotated[Id | None, Field(description="The label that it is below then; null: the first level.")]

    def wish(self) -> Wish:
        return wishes.build_move(self.node, self.parent)


class MergeIn(BodyIn):
    """Labels below of one name become one too. `name` is what the label is called then; empty: as it is."""

    kind: Literal["merge"]
    nodes: Annotated[list[Id], Field(min_length=1, max_length=500)]
    into: Id
    name: ShortText = ""

    def wish(self) -> Wish:
        return wishes.build_merge(self.nodes, self.into, self.name)


class LabelSplitIn(BodyIn):
    """The parts of `node` that go to a new label: things that hang on `node` itself, and labels right below it."""

    kind: Literal["split"]
    node: Id
    name: ShortText
    below: Annotated[bool, Field(description="The new label is below `node`, else next to it.")] = False
    environments: Ids = []
    themes: Ids = []
    nodes: Ids = []

    def wish(self) -> Wish:
        parting = Parting({"environments": self.environments, "themes": self.themes}, self.nodes)
        return wishes.build_split(self.node, self.name, parting, below=self.below)


class RenameIn(BodyIn):
    kind: Literal["rename"]
    node: Id
    name: ShortText

    def wish(self) -> Wish:
        return wishes.build_rename(self.node, self.name)


class DeleteIn(BodyIn):
    kind: Literal["delete"]
    node: Id
    target: Annotated[Id | None, Field(description="Which label takes what hangs there; null: nothing does.")] = None

    def wish(self) -> Wish:
        return wishes.build_delete(self.node, self.target)


WishIn = Annotated[MoveIn | MergeIn | LabelSplitIn | RenameIn | DeleteIn, Field(discriminator="kind")]
EXAMPLE: dict[str, Any] = {"change": {"kind": "move", "node": 12, "parent": 7}}


class PreviewIn(BodyIn):
    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE]})

    change: WishIn


class TreeChangeIn(PreviewIn):
    """`serial` is that of the preview: if the tree was changed since, nothing is done (412)."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE | {"serial": 41, "why": "It is about travel."}]})

    serial: Annotated[int, Field(ge=0)]
    why: Why = ""


class UndoIn(BodyIn):
    model_config = ConfigDict(json_schema_extra={"examples": [{"why": "It was the wrong label."}]})

    why: Why = ""


class NodeLineOut(Schema):
    """A label before and after; empty if it does not exist. `into` is the target of the address of one that goes."""

    id: Annotated[int, Field(validation_alias="pk", description="Below zero: it will be made.")]
    before: str
    after: str
    into: str


class NamedOut(Schema):
    words: str
    url: str


class AffectedPartOut(Schema):
    """A sort of things that is touched; `lines` names the first of them, `numbers` says how many are how."""

    title: str
    number: int
    words: str
    lines: list[NamedOut]
    numbers: list[tuple[str, int]]


class PreviewOut(Schema):
    """`nodes` are written, `readdressed` get another path or go, those below included."""

    kind: str
    words: str
    serial: int
    nodes: int
    readdressed: int
    lines: list[NodeLineOut]
    parts: list[AffectedPartOut]


class TreeChangeQuery(PageQuery):
    node: Annotated[Id | None, Field(description="Only changes that touched this label.")] = None


class TreeChangeLine(Schema):
    """`kind`: move, merge, split, rename, delete, settled (by a labelling session) or undo."""

    id: int
    kind: str
    words: str
    why: str
    nodes: int
    environments: int
    themes: int
    by: Annotated[str | None, Field(validation_alias="by.username")] = None
    at: datetime
    undoes_id: int | None
    undone_by_id: Annotated[int | None, Field(validation_alias="undone_by.id")] = None


class TreeChangeOut(TreeChangeLine):
    """`node_ids` are the labels it wrote, those above them, and those that things came from or went to."""

    node_ids: list[int]

"""Sessions, reservations, labels and settlements as the API shows and takes them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from ninja import Schema
from pydantic import ConfigDict, Field

from webapp.common.rest.paging import PageQuery
from webapp.common.rest.types import BodyIn, Id, Json, ShortText, Text

Long = Annotated[Text, Field(max_length=20_000)]
Comment = Annotated[Text, Field(max_length=2_000)]
NODE = "Its id in the tree of the session; null: no node fits."


class LabelSessionQuery(PageQuery):
    kind: Annotated[Literal["", "place", "merge"], Field(description="Only of this kind.")] = ""
    state: Annotated[Literal["", "open", "closed", "applied"], Field(description="Only in this state.")] = ""


class LabelSessionLine(Schema):
    id: int
    name: str
    kind: str
    places: Annotated[str, Field(description="environment or theme; empty if labels are grouped.")]
    state: str
    overlap: Annotated[int, Field(description="Number of people who are asked about each item.")]
    lease_minutes: int
    item_count: int
    settled_count: int
    change_id: Annotated[int | None, Field(description="The change of the tree that last carried its result out.")]
    created_at: datetime


class LabelRoundOut(Schema):
    """`missing` answers were not given when it was closed."""

    number: int
    is_open: bool
    missing: int
    closed_at: datetime | None


class LabelSessionOut(LabelSessionLine):
    """`tree` has (id, parent, level, name) of each node as it was when the session opened."""

    members: list[str]
    guideline: str
    guideline_version: int
    rounds: list[LabelRoundOut]
    tree: Json


class LabelSessionIn(BodyIn):
    """The settings of a session; see `kind` for which fields count."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"name": "Place the newest", "kind": "place", "places": "environment", "most": 40, "overlap": 3}
            ]
        }
    )

    name: ShortText
    kind: Annotated[Literal["place", "merge"], Field(description="Put things on the tree, or group its labels.")]
    places: Annotated[Literal["", "environment", "theme"], Field(description="What is placed.")] = ""
    query: Annotated[Text, Field(max_length=2_000, description="Filters, as the list's address spells them.")] = ""
    nodes: Annotated[list[Id], Field(max_length=300, description="First-level nodes whose labels are grouped.")] = []
    labels: Annotated[
        list[Id], Field(max_length=300, description="Exactly the labels that are grouped, instead of those of `nodes`.")
    ] = []
    most: Annotated[int, Field(ge=1, le=2_000, description="Maximum number of items.")] = 60
    known: Annotated[list[Id], Field(max_length=100, description="Things whose present place is right.")] = []
    overlap: Annotated[int, Field(ge=1, le=9)] = 3
    lease_minutes: Annotated[int, Field(ge=1, le=240)] = 15
    members: Annotated[list[ShortText], Field(max_length=200)] = []
    guideline: Long = ""


class LabelItemOut(Schema):
    """An item that is asked about, as people see it: without its place in the tree."""

    id: int
    name: str
    content: Json


class ReservationOut(Schema):
    """A person's hold of an item in the open round."""

    id: int
    round: Annotated[int, Field(validation_alias="round.number")]
    state: str
    expires_at: datetime
    item: Annotated[LabelItemOut, Field(validation_alias="ask.item")]


class NextReservationOut(Schema):
    """`reservation` is null if nothing is left for this person."""

    reservation: ReservationOut | None


class ReservationTimeIn(BodyIn):
    model_config = ConfigDict(json_schema_extra={"examples": [{"seconds": 20.5}]})

    seconds: Annotated[float, Field(ge=0, le=86_400, description="How long the item was looked at, in all.")] = 0.0


class LabelGroup(BodyIn):
    """Labels that mean one thing. Labels that are in no group keep their own name."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "Clubs", "labels": [12, 15]}]})

    name: ShortText
    labels: Annotated[list[Id], Field(min_length=1, max_length=300)]
    rename: Annotated[
        bool, Field(description="The only label of the group takes its name; otherwise it keeps its own.")
    ] = False


class LabelIn(BodyIn):
    """The node of an item (`node`, `second`), or the groups of labels (`groups`); without either no node fits."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"node": 12, "confidence": 3, "comment": "All its tools move money."}]}
    )

    node: Annotated[Id | None, Field(description=NODE)] = None
    second: Annotated[Id | None, Field(description="Another node that fits too.")] = None
    groups: Annotated[list[LabelGroup] | None, Field(max_length=300)] = None
    confidence: Annotated[int, Field(ge=1, le=3, description="1 a guess, 2 fair, 3 sure.")] = 2
    comment: Comment = ""
    guideline: Annotated[int, Field(ge=0, le=30_000, description="The version that was seen; 0: the newest.")] = 0
    seconds: Annotated[float | None, Field(ge=0, le=86_400)] = None


class LabelOut(Schema):
    """`user` is null for a model's label (`judge`). Of an open round users get only their own."""

    id: int
    item_id: int
    round: Annotated[int, Field(validation_alias="round.number")]
    guideline: Annotated[int, Field(validation_alias="guideline.number")]
    user: str | None
    judge: str
    node: Annotated[int | None, Field(description=NODE)]
    second: int | None
    groups: Json
    confidence: int
    comment: str
    seconds: float | None
    created_at: datetime

    @staticmethod
    def resolve_user(label: Any) -> str | None:
        return label.user.username if label.user is not None else None


class LabelQuery(PageQuery):
    item: Annotated[Id | None, Field(description="Only of this item.")] = None


class SettlementOut(Schema):
    """The decision of an adjudicator on an item; `agreed`: all labels were the same."""

    item_id: int
    node: Annotated[int | None, Field(description=NODE)]
    groups: Json
    label_id: Annotated[int | None, Field(description="The label that was taken.")]
    agreed: bool
    words: str
    at: datetime


class SettlementIn(BodyIn):
    """Take a `label`, or say another `node` or other `groups`; without any of them no node fits."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"label": 7, "words": "Two of three, and guideline 2."}]})

    label: Annotated[Id | None, Field(description="The label to take.")] = None
    node: Annotated[Id | None, Field(description=NODE)] = None
    groups: Annotated[list[LabelGroup] | None, Field(max_length=300)] = None
    words: Comment = ""


class DisputeOut(Schema):
    """An item of closed rounds. `disagreement` is the mean distance of people's labels in the tree, 0 to 1."""

    item_id: int
    name: str
    disagreement: float | None
    labels: list[LabelOut]
    settlement: SettlementOut | None


class MovementOut(Schema):
    """Things that hang elsewhere than on the settled node."""

    kind: str
    node: int
    words: str
    ids: list[int]


class MergerOut(Schema):
    """The `sources` become `into`, which is called `name` from then on."""

    into: int
    sources: list[int]
    name: str


class OutcomeOut(Schema):
    """The changes that the settled items make to the tree as it is now; `hindrances` say what cannot be carried out."""

    movements: list[MovementOut]
    mergers: list[MergerOut]
    unchanged: int
    open_items: int
    hindrances: list[str]
    notes: Annotated[list[str], Field(description="What goes elsewhere than it was settled, as a label was merged.")]


class CarryOutIn(BodyIn):
    model_config = ConfigDict(json_schema_extra={"examples": [{"serial": 41, "why": "As three of us settled it."}]})

    serial: Annotated[int, Field(ge=0, description="The newest of /tree-changes when you looked; 0: there was none.")]
    why: Comment = ""


class ProposalIn(BodyIn):
    model_config = ConfigDict(json_schema_extra={"examples": [{"model": "1/qwen3-32b"}]})

    model: Annotated[Text, Field(max_length=400, description="The id of an endpoint, /, and a model that it lists.")]


class ProposalOut(Schema):
    job_id: Annotated[int, Field(validation_alias="pk")]
    state: str


class AskAgainIn(BodyIn):
    model_config = ConfigDict(json_schema_extra={"examples": [{"items": [3, 9]}]})

    items: Annotated[list[Id], Field(min_length=1, max_length=2_000, description="Items to ask about once more.")]


class GuidelineIn(BodyIn):
    model_config = ConfigDict(json_schema_extra={"examples": [{"text": "Ask what the state holds.", "seen": 1}]})

    text: Long
    seen: Annotated[int, Field(ge=1, le=30_000, description="The version that this one replaces.")]


class GuidelineOut(Schema):
    number: int
    text: str
    created_at: datetime


class PostIn(BodyIn):
    """`topic` names two labels of a list by their ids ("12-15"); empty: the item itself."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"text": "The rules speak of money alone."}]})

    text: Annotated[Text, Field(min_length=1, max_length=4_000)]
    topic: ShortText = ""


class PostOut(Schema):
    id: int
    topic: Annotated[str, Field(validation_alias="discussion.topic")]
    user: Annotated[str, Field(validation_alias="user.username")]
    text: str
    created_at: datetime

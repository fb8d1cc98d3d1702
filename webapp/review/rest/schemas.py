"""Schemas of queues, items, decisions and remarks in the API."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from ninja import Schema
from pydantic import ConfigDict, Field

from webapp.common.rest.paging import PageQuery
from webapp.common.rest.types import BodyIn, Id, Json, ShortText, Text
from webapp.review.assignments import list_holders
from webapp.review.models import QueueItem

Kind = Literal["task", "tool", "trajectory"]
Note = Annotated[Text, Field(max_length=500)]
Long = Annotated[Text, Field(max_length=20_000)]


class ReviewQueueOut(Schema):
    """A saved filter with an order. Empty `roles` and `members` let all reviewers work it.

    Nothing here changes while people decide: its ETag represents its settings.
    """

    id: int
    name: str
    kind: Annotated[str, Field(description="task, tool or trajectory.")]
    query: Annotated[str, Field(description="The filters, as the list's address spells them.")]
    order: str
    overlap: Annotated[int, Field(description="Number of people who decide on an item.")]
    lease_minutes: int
    roles: list[str]
    members: list[str]
    guideline: str
    gold_share: float
    is_open: bool

    @staticmethod
    def resolve_members(queue: object) -> list[str]:
        members = getattr(queue, "members", [])
        return members if isinstance(members, list) else sorted(user.username for user in members.all())


class ReviewProgressOut(Schema):
    """Progress of a queue."""

    item_count: int
    closed_count: Annotated[int, Field(description="Items that are decided.")]
    filled_at: datetime | None


class ReviewQueueLine(ReviewProgressOut, ReviewQueueOut):
    """A queue, and its progress."""


class ReviewQueueIn(BodyIn):
    """Settings of a queue; a change sends all of them, and `kind` stays the same."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"name": "Green tasks", "kind": "task", "query": "audit=green", "overlap": 2}]}
    )

    name: ShortText
    kind: Annotated[Literal["task", "tool", "trajectory"], Field(description="What it holds.")] = "task"
    query: Annotated[Text, Field(max_length=2_000)] = ""
    order: Annotated[
        Literal["", "blocked", "disagreement", "newest", "random"], Field(description="Empty: the kind's usual one.")
    ] = ""
    overlap: Annotated[int, Field(ge=1, le=9)] = 1
    lease_minutes: Annotated[int, Field(ge=1, le=240)] = 10
    roles: Annotated[list[ShortText], Field(max_length=10)] = []
    members: Annotated[list[ShortText], Field(max_length=200)] = []
    guideline: Long = ""
    gold_share: Annotated[float, Field(ge=0, le=0.5)] = 0.0


class ReviewQueueQuery(PageQuery):
    kind: Annotated[Literal["", "task", "tool", "trajectory"], Field(description="Only of this kind.")] = ""


class AssignmentOut(Schema):
    """A person's hold of an item. `kind` and `object_id` name the object to decide on, `why` is the reason for its
    rank."""

    id: int
    item_id: int
    queue_id: int
    kind: Annotated[str, Field(validation_alias="item.kind")]
    object_id: Annotated[int, Field(validation_alias="item.subject_id")]
    why: Annotated[str, Field(validation_alias="item.why")]
    state: str
    expires_at: datetime
    assignee: Annotated[
        str | None, Field(description="The person that the item was assigned to; null if it is open to all.")
    ]
    note: Annotated[str, Field(description="The note of the person who assigned it.")]

    @staticmethod
    def resolve_assignee(row: object) -> str | None:
        return get_assignee_name(getattr(row, "item", row))

    @staticmethod
    def resolve_note(row: object) -> str:
        return str(getattr(getattr(row, "item", row), "note", ""))


def get_assignee_name(item: object) -> str | None:
    """Return the user name of the person that an item was given to."""
    user = getattr(item, "assignee", None)
    return user if isinstance(user, str) else getattr(user, "username", None)


class ReviewItemOut(Schema):
    """An item of a queue, and its present holders. It shows neither how many people may hold it nor their decisions."""

    id: int
    queue_id: int
    kind: Annotated[str, Field(description="task, tool or trajectory.")]
    object_id: Annotated[int, Field(validation_alias="subject_id")]
    state: Annotated[str, Field(description="open, disputed, closed or withdrawn.")]
    why: Annotated[str, Field(description="Why it has its place in the order.")]
    assignee: Annotated[str | None, Field(description="The person that it was assigned to; null if it is open to all.")]
    note: str
    holders: Annotated[list[str], Field(description="User names of those who hold it now.")]

    @staticmethod
    def resolve_assignee(row: object) -> str | None:
        return get_assignee_name(row)

    @staticmethod
    def resolve_holders(row: object) -> list[str]:
        if isinstance(row, QueueItem):
            return sorted(hold.user.username for hold in list_holders(row))
        return list(getattr(row, "holders", []))


class NextOut(Schema):
    """The next item; `assignment` is null if no item is left for this person."""

    assignment: AssignmentOut | None


class AssignmentTimeIn(BodyIn):
    model_config = ConfigDict(json_schema_extra={"examples": [{"seconds": 42.0}]})

    seconds: Annotated[float, Field(ge=0, le=86_400, description="How long the item was looked at, in all.")] = 0.0


class SendIn(BodyIn):
    model_config = ConfigDict(json_schema_extra={"examples": [{"to": "jonas", "note": "You know this desk."}]})

    to: Annotated[ShortText, Field(description="A user name.")]
    note: Note = ""


class ObstacleOut(Schema):
    """Reason why a task cannot be approved; an adjudicator may override an `overridable` one, with a comment."""

    code: str
    message: str
    overridable: bool


class ReviewStateOut(Schema):
    """The state that a decision on an object is bound to: send the ETag of this answer as `If-Match` with the
    decision."""

    kind: str
    object_id: int
    seen: Annotated[str, Field(description="A hash of the content that is decided on.")]
    revision: int | None
    obstacles: list[ObstacleOut]


class ReviewDecisionIn(BodyIn):
    """A decision. `verdict` of a task: approve, request_changes, reject; of a tool: tool_bug, test_bug, ambiguous_rule,
    flaky, judge_wrong; of a trajectory: right, wrong_reward, unusable."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "verdict": "request_changes",
                    "reasons": ["check_too_loose"],
                    "comment": "Noon is found in afternoon.",
                    "places": ["check 4"],
                }
            ]
        }
    )

    verdict: ShortText
    reasons: Annotated[list[ShortText], Field(max_length=20)] = []
    comment: Annotated[Text, Field(max_length=4_000)] = ""
    places: Annotated[
        list[Note], Field(max_length=20, description="What it points to: `check 3`, `step 7`, `/orders/12`.")
    ] = []
    groups: Annotated[
        dict[ShortText, ShortText],
        Field(
            max_length=10, description="Of a tool: verdicts of single groups of its cases (accepts, half, ends, ...)."
        ),
    ] = {}
    overrides: Annotated[bool, Field(description="Approve against the audit; adjudicators only.")] = False
    seconds: Annotated[float | None, Field(ge=0, le=86_400)] = None


class SeenTask(BodyIn):
    task: Id
    seen: Annotated[ShortText, Field(description="The hash that GET /review/task/{pk} gave.")]


class SeenTaskOut(Schema):
    task: int
    seen: str


class BulkDecisionsIn(BodyIn):
    """One decision on many tasks, each as it was seen."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"tasks": [{"task": 7, "seen": "5b1d"}], "decision": {"verdict": "approve"}}]}
    )

    tasks: Annotated[list[SeenTask], Field(min_length=1, max_length=1_000)]
    decision: ReviewDecisionIn


class BulkDecisionsOut(Schema):
    """Result of a bulk action. `left` tasks were changed meanwhile or may not be approved, and are unchanged; so are
    `approved` ones, which the caller had approved already."""

    group: Annotated[UUID, Field(description="What undoes all of it: POST /review/bulk-decisions/{group}/undo.")]
    decided: int
    left: int
    approved: int


class BulkActOut(Schema):
    """One's own bulk action in its current state: the tasks whose decision is not undone, each with its current
    hash."""

    group: UUID
    tasks: list[SeenTaskOut]


class BulkUndoneOut(Schema):
    undone: int


class ReviewDraftIn(BodyIn):
    """Values of a decision form that is not sent yet; each field may be empty."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"verdict": "reject", "comment": "Noon is found in after", "seen": "5b1d"}]}
    )

    verdict: Annotated[Text, Field(max_length=20)] = ""
    reasons: Annotated[list[Annotated[Text, Field(max_length=32)]], Field(max_length=20)] = []
    comment: Annotated[Text, Field(max_length=8_000)] = ""
    places: Annotated[list[Note], Field(max_length=40)] = []
    groups: Annotated[
        dict[ShortText, ShortText], Field(max_length=10, description="Of a tool: verdicts of groups of its cases.")
    ] = {}
    overrides: bool = False
    seen: Annotated[Text, Field(max_length=64, description="The hash that GET /review/{kind}/{pk} gave.")] = ""


class ReviewDraftOut(Schema):
    """The caller's draft of a decision on an object; `updated_at` is null, and all else empty, if there is none."""

    kind: str
    object_id: int
    verdict: str
    reasons: list[str]
    comment: str
    places: list[str]
    groups: dict[str, str]
    overrides: bool
    seen: str
    updated_at: datetime | None


class ReviewDecisionOut(Schema):
    """A decision. `undone_at` is null while it is valid. `user` is null if a model judged (`judge`)."""

    id: int
    kind: str
    object_id: Annotated[int, Field(validation_alias="subject_id")]
    revision_id: int | None
    queue_id: int | None
    user: str | None
    judge: str
    verdict: str
    reasons: list[str]
    comment: str
    places: Json
    groups: Annotated[Json, Field(description="Of a tool: verdicts of single groups of its cases.")]
    overrides: bool
    adjudicates: bool
    seconds: float | None
    created_at: datetime
    undone_at: datetime | None

    @staticmethod
    def resolve_groups(row: object) -> object:
        groups = getattr(row, "groups", None)
        return groups if isinstance(groups, dict) else getattr(row, "detail", {}).get("groups", {})

    @staticmethod
    def resolve_user(row: object) -> str | None:
        user = getattr(row, "user", None)
        return user if isinstance(user, str) else getattr(user, "username", None)


class ReviewDecisionQuery(PageQuery):
    queue: Annotated[Id | None, Field(description="Of this queue.")] = None
    task: Annotated[Id | None, Field(description="On this task.")] = None


class PersonVerdictOut(Schema):
    """The verdict that people settled on a tool: it overrides its checker's verdicts, which the tool cases keep."""

    tool_id: int
    tool: str
    verdict: str
    groups: Annotated[dict[str, str], Field(description="Verdicts of single groups of its cases, if different.")]
    people: list[str]


class ReviewRemarkIn(BodyIn):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"remark": "flag", "text": "Solved by luck.", "place": "step 7"}]}
    )

    remark: Annotated[Literal["comment", "label", "flag"], Field(description="What it is.")]
    text: Annotated[Text, Field(min_length=1, max_length=4_000)]
    place: Annotated[Note, Field(description="`step 7`, `check 3`, a path of the state; empty for the whole.")] = ""


class ReviewRemarkOut(Schema):
    id: int
    remark: str
    place: str
    text: str
    user: Annotated[str, Field(validation_alias="user.username")]
    created_at: datetime
    resolved_at: datetime | None

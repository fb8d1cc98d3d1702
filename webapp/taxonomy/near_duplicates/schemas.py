"""Schemas of typed themes, near-duplicates and the results of sources."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from ninja import Schema
from pydantic import ConfigDict, Field

from synthesis.themes.dedupe import FLOOR
from synthesis.themes.judged_groups import MOST_PAIRS
from synthesis.themes.typed import CATEGORY, DESCRIPTION, LEAST_DESCRIPTION, NAME
from webapp.common.rest.types import BodyIn, Json, ShortText, Text
from webapp.taxonomy.near_duplicates.queries import Retention, ThemeGroup
from webapp.taxonomy.near_duplicates.services import MOST_ASKED
from webapp.taxonomy.schemas import ThemeLine

EXAMPLE: dict[str, Any] = {
    "name": "Public library lending desk",
    "description": "Staff lend books to members, take them back, renew loans and keep a waiting list for each title.",
    "category": "Education",
}


class ThemeIn(BodyIn):
    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE]})

    name: Annotated[Text, Field(min_length=1, max_length=NAME)]
    description: Annotated[Text, Field(min_length=LEAST_DESCRIPTION, max_length=DESCRIPTION)]
    category: Annotated[
        Text, Field(max_length=CATEGORY, description="The field it belongs to; a label of the tree.")
    ] = ""


class GroupingIn(BodyIn):
    """`model` is `endpoint id/model` of an embedding model; left out, themes are compared here, without a model.

    `judge` decides on each pair that this proposes: `endpoint id/model`, `scripted`, or `none`, with which all are one
    theme that are as similar as `threshold`. Left out it is the model that plays the judge, or none.
    """

    model_config = ConfigDict(json_schema_extra={"examples": [{"threshold": 0.85}]})

    threshold: Annotated[float, Field(ge=FLOOR, le=1, description="Similarity from which two themes are one.")] = 0.85
    model: ShortText = ""
    judge: ShortText = ""
    most: Annotated[int, Field(ge=1, le=MOST_PAIRS, description="Pairs that the judge is asked about.")] = MOST_ASKED


class CountOut(Schema):
    """The effects of a threshold: groups of more than one, and themes folded away."""

    threshold: float
    groups: int
    folded: int


class DecisionOut(Schema):
    """`kind`: grouping, apart, choice, batch or undo. `themes` were changed by it."""

    id: int
    kind: str
    words: str
    themes: int
    by: Annotated[str | None, Field(validation_alias="by.username")] = None
    at: datetime
    undoes_id: int | None
    undone: Annotated[bool, Field(validation_alias="is_undone")]


class GroupingOut(Schema):
    """One look at all themes. `counts` says what other thresholds would have folded; it is empty if a judge decided.

    Of a judge: pairs that it was `asked` about, pairs that stay apart `undecided`, what that cost as far as prices are
    known (`unpriced` replies came without).
    """

    id: int
    job_id: int | None
    threshold: float
    vectoriser: str
    themes: int
    groups: int
    folded: int
    counts: list[CountOut]
    judge: str
    asked: int
    undecided: int
    cost: float
    unpriced: int
    seconds: float
    decision: DecisionOut
    at: datetime


class GroupOut(Schema):
    """A kept theme with those folded into it, the most similar first; `rest` more are not listed."""

    kept: ThemeLine
    members: list[ThemeLine]
    rest: int


class SourceOut(Schema):
    """The results of a source. `judged` is null if nothing is judged: servers, and themes that people type.

    `rejected` maps reasons to numbers; `deduplicated` are folded into others; `left` are what environments grow from.
    """

    id: int
    name: str
    origin: str
    judged: int | None
    kept: int
    rejected: Json
    themes: int
    deduplicated: int
    left: int
    share: float | None


def serialize_group(group: ThemeGroup) -> dict[str, Any]:
    return {"kept": group.kept, "members": group.members, "rest": group.rest}


def serialize_source(retention: Retention) -> dict[str, Any]:
    return {
        "id": retention.source.pk,
        "name": retention.source.name,
        "origin": retention.source.origin,
        "judged": retention.judged,
        "kept": retention.kept_texts,
        "rejected": retention.rejected,
        "themes": retention.themes,
        "deduplicated": retention.folded,
        "left": retention.left,
        "share": retention.share,
    }

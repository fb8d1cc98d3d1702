"""Queries and answers of the API of alerts."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from ninja import Schema
from pydantic import Field

from webapp.common.rest.openai_lists import PublicId
from webapp.common.rest.paging import PageQuery
from webapp.runs.alerts.rules import BY_NAME
from webapp.runs.models import TrainingAlert


class AlertsQuery(PageQuery):
    which: Annotated[Literal["open", "all"], Field(description="`open`: those that have not ended.")] = "open"
    job: Annotated[PublicId, Field(description="Of this training job alone.")] = ""


class AlertOut(Schema):
    """Alert with its first step. `value` is what its rule measured at that step, `last_value` what it measured last."""

    id: int
    object: Literal["fine_tuning.alert"] = "fine_tuning.alert"
    job: Annotated[str, Field(validation_alias="job.public_id")]
    rule: str
    title: str
    message: str
    value: float
    last_value: float
    from_step: int
    to_step: int | None
    started_at: datetime
    ended_at: datetime | None
    muted: Annotated[bool, Field(description="Shown without colour, and sent to no webhook.")]

    @staticmethod
    def resolve_title(alert: TrainingAlert) -> str:
        rule = BY_NAME.get(alert.rule)
        return rule.title if rule else alert.rule


class AlertRuleOut(Schema):
    """Rule of an alert: begins beyond `begin` and ends at `end`; one that is `below` looks downwards. `key` is the
    curve that shows it."""

    name: str
    title: str
    key: str
    begin: float
    end: float
    below: bool
    unit: str
    methods: list[str]
    words: str
    why: str


class AlertRuleList(Schema):
    object: Literal["list"] = "list"
    data: list[AlertRuleOut]

"""API schemas of audits."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from ninja import Schema
from pydantic import ConfigDict, Field, model_validator

from webapp.common.rest.paging import PageQuery
from webapp.common.rest.types import BodyIn, Id, Json, ShortText
from webapp.scenarios.schemas import TaskFilterQuery


class AuditQuery(PageQuery):
    """Filters of the current audits of tasks."""

    task: Annotated[Id | None, Field(description="Of this task.")] = None
    environment: Annotated[Id | None, Field(description="Of the tasks of this environment.")] = None
    source: Annotated[ShortText, Field(description="Of tasks that came from here, such as starter.")] = ""
    state: Annotated[
        Literal["green", "red", "incomplete", "unproven", "stale"] | None,
        Field(description="The current state of the task's audit."),
    ] = None
    fault: Annotated[ShortText, Field(description="A kind of fault that was found, such as mutant_passes.")] = ""


class AuditLine(Schema):
    """One audit. `mutants` and the fields below it are null if no reference was known. `below` is how many mutants earn
    less than the full reward."""

    id: int
    task_id: Annotated[int, Field(validation_alias="revision.task_id")]
    revision: Annotated[int, Field(validation_alias="revision.number")]
    state: str
    why: Annotated[str, Field(description="Why it is incomplete or unproven.")]
    verifier_hash: str
    reference_hash: str
    audit_version: int
    judge: str
    do_nothing: float | None
    reference_reward: float | None
    mutants: int | None
    below: int | None
    equivalent: int | None
    nondeterministic: bool | None
    unseen: Annotated[
        float | None,
        Field(description="Without a frame: the share of records that can change without any check noticing."),
    ]
    created_at: datetime


class AuditFaultOut(Schema):
    """A fault. `check` counts checks from 0; null for what concerns the whole task."""

    kind: str
    check: Annotated[int | None, Field(validation_alias="check_index")]
    message: str


class AuditOut(AuditLine):
    """`probes`: nothing, reference, other_clock, other_seed and each of the mutants, with reward and checks passed."""

    faults: list[AuditFaultOut]
    probes: Json


class AuditWish(BodyIn):
    """Exactly one of task, environment and filter."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"task": 1}, {"filter": {"audit": "stale"}}]})

    task: Id | None = None
    environment: Id | None = None
    filter: TaskFilterQuery | None = None

    @model_validator(mode="after")
    def _require_one_selection(self) -> AuditWish:
        if sum(value is not None for value in (self.task, self.environment, self.filter)) != 1:
            raise ValueError("name exactly one of task, environment and filter")
        return self

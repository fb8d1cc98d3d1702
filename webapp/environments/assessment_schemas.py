"""Assessments and tool cases as the API shows them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from ninja import Schema
from pydantic import Field

from synthesis.drafts import CallVerdict, CaseKind
from webapp.common.rest.paging import PageQuery
from webapp.common.rest.types import Json, ShortText


class AssessmentLine(Schema):
    """An assessment. `score` counts passes and warnings, `strict` passes alone, both as shares of the calls that were
    `made`.

    `saved` of the `planned` calls were not needed, `lost` rounds gave no usable reply; `confidence` is null if the
    sequential test was off. `first_score` is the score before tools were repaired, null if none was. A re-run found
    `same_count` and `differs_count`; `rerun_at` is null before the first.
    """

    id: int
    version_id: int
    version: Annotated[int, Field(validation_alias="version.number")]
    environment_id: Annotated[int, Field(validation_alias="version.environment_id")]
    score: float
    strict: float
    first_score: float | None
    threshold: float
    confidence: float | None
    kept: bool
    planned: int
    made: int
    saved: int
    lost: int
    passed: int
    warned: int
    failed: int
    scripted: bool
    rerun_at: datetime | None
    same_count: int
    differs_count: int
    created_at: datetime


class AssessmentOut(AssessmentLine):
    """An assessment with its details. `rates` are the verdicts by tool, `roles` the model of each role, `prompts` the
    SHA-256 of each prompt; `notes` state what the calls do not show, `repairs` the outcome of each tool that failed."""

    rates: Json
    roles: Json
    prompts: Json
    notes: Json
    repairs: Json


class ToolCaseQuery(PageQuery):
    verdict: Annotated[CallVerdict | None, Field(description="With this verdict.")] = None
    tool: Annotated[ShortText, Field(description="Of this tool, written whole.")] = ""
    case: Annotated[CaseKind | None, Field(description="Meant to succeed, or to be refused.")] = None
    rerun: Annotated[Literal["same", "differs"] | None, Field(description="As the last re-run found it.")] = None


class ToolCaseLine(Schema):
    """A call of an assessment. `position` counts from 0. `result` and `patch` are encoded; with `cut` they were too
    large to store.

    `expectation` is the tester's.
    """

    id: int
    assessment_id: int
    position: int
    tool: str
    case: str
    expectation: str
    arguments: Json
    ok: bool
    result: Json
    error: str
    patch: Json
    cut: bool
    verdict: str
    reason: str
    rerun: str
    differs: str


class ToolCaseOut(ToolCaseLine):
    """A call with its state. `state` is the encoded state before the call: with `seed` and `now` all that a repetition
    needs."""

    state: Json
    seed: int
    now: str
    digest: str

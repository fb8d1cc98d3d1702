"""API schemas of verifiers, distinguished by `kind`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from ninja import Schema
from pydantic import Field

from synthesis.contracts import Dimension, Equality, ScoreRule, VolatileRole
from webapp.common.rest.types import Json
from webapp.scenarios.models import TaskRevision
from webapp.scenarios.verifiers import read_criteria


class AllowanceOut(Schema):
    """An allowed change. `*` in a path is any one key; `/+` at its end are records added, `/-` removed, `most` of them
    (null: any number). A field may become one of `values`, or a number from `minimum` to `maximum`; records are among
    `records` (id, content). Without all of these anything is right."""

    path: str
    most: int | None = None
    values: list[Json] = []
    minimum: float | None = None
    maximum: float | None = None
    records: list[tuple[str, Json]] = []
    source: Literal["reference", "author", "run", "person"] = "reference"
    reason: str = ""
    by: str = ""


class FrameOut(Schema):
    """Changes that a right way may make; any other change makes the reward 0."""

    allowances: list[AllowanceOut] = []


class CheckSourceOut(Schema):
    label: str
    source: str


class ChecksVerifierOut(Schema):
    """The share of goals that hold by `rule` `goals`, and 0 if a guard breaks; of all checks by `proportion`. A change
    outside the frame earns 0."""

    kind: Literal["checks"]
    rule: ScoreRule
    checks: list[CheckSourceOut]
    frame: FrameOut | None


class VolatileOut(Schema):
    """A place that may differ between two right ends, and the role that determines its comparison."""

    path: str
    role: VolatileRole
    reason: str
    by: Annotated[str, Field(description="The person who declared it; empty if it was found by executing twice.")]


class GoldenVerifierOut(Schema):
    """1 if the end state equals the golden state and the checks of the answer form hold, else 0. `plain` compares all
    of it, `roles` the volatile places by their role."""

    kind: Literal["golden"]
    equality: Equality
    volatile: list[VolatileOut]
    state_hash: Annotated[str, Field(description="SHA-256 of the golden state.")]
    checks: Annotated[list[CheckSourceOut], Field(description="Those that are made from the answer form.")]


class CriterionOut(Schema):
    """A judge decides a `fact`, code the others over a `field` of the answer form."""

    text: str
    dimension: Dimension
    field: str


class RubricVerifierOut(Schema):
    """1 if all criteria are met, else 0."""

    kind: Literal["rubric"]
    criteria: list[CriterionOut]


class ScriptVerifierOut(Schema):
    """1 if all assertions hold that `verify(answer, expected, initial_state, final_state)` returns by name, else 0; a
    change outside the frame earns 0."""

    kind: Literal["script"]
    source: str
    assertions: list[str]
    frame: FrameOut | None


VerifierOut = Annotated[
    ChecksVerifierOut | GoldenVerifierOut | RubricVerifierOut | ScriptVerifierOut, Field(discriminator="kind")
]


def serialize_verifier(revision: TaskRevision) -> VerifierOut:
    """Return the verifier of a revision; a golden state is named by its hash and not loaded."""
    checks = [CheckSourceOut(label=row.label, source=row.source) for row in revision.checks.all() if row.source]
    frame = FrameOut.model_validate(revision.frame) if revision.frame is not None else None
    parts = revision.verifier or {}
    if revision.verifier_kind == "rubric":
        criteria = [CriterionOut(**one.model_dump()) for one in read_criteria(revision.criteria)]
        return RubricVerifierOut(kind="rubric", criteria=criteria)
    if revision.verifier_kind == "script":
        return ScriptVerifierOut(kind="script", **parts, frame=frame)
    if revision.verifier_kind == "golden":
        return GoldenVerifierOut(kind="golden", **parts, state_hash=revision.golden_id or "", checks=checks)
    rule: Any = revision.score_rule
    return ChecksVerifierOut(kind="checks", rule=rule, checks=checks, frame=frame)

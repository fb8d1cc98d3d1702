"""API schemas of the pictures of the statistics."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Literal

from ninja import Schema
from pydantic import Field

from webapp.common.rest.types import Id, ShortText
from webapp.pages.statistics.attempt_pictures import AttemptPictures, PolicySizes, Sizes
from webapp.pages.statistics.review_pictures import ReviewPictures, Timeline


class AttemptPicturesQuery(Schema):
    environment: Annotated[Id | None, Field(description="Attempts in this environment.")] = None
    policy: Annotated[ShortText, Field(description="Attempts of this policy, its whole name.")] = ""
    days: Annotated[Literal[7, 30, 90] | None, Field(description="Attempts of this number of last days, in UTC.")] = (
        None
    )
    demo: Annotated[bool, Field(description="Also those of the training demo, which are left out otherwise.")] = False


class ReviewPicturesQuery(Schema):
    days: Annotated[Literal[7, 30, 90], Field(description="Number of last days, in UTC.")] = 30


class BarOut(Schema):
    name: str
    label: str
    count: int


class RateOut(Schema):
    """Judged attempts of a policy in an environment."""

    environment_id: int
    policy: str
    tried: int
    solved: int


class PolicySizesOut(Schema):
    """Percentiles 10, 25, 50, 75 and 90 of a policy's attempts; of tokens null if none of its attempts has a count."""

    policy: str
    attempts: int
    with_tokens: int
    steps: list[int]
    tokens: list[int] | None


class VerifierCountOut(Schema):
    """Tasks that a kind of verifier judges, and the judged attempts at them; a policy and a time do not narrow them."""

    kind: str
    tasks: int
    attempts: int
    solved: int


class UserFaultOut(Schema):
    """Judged conversations of a policy with a simulated user: in how many the judge found a fault of the user or gave
    no usable verdict, how many of the faults people decided on, and in how many of these they saw one too; `missed` are
    those without a fault in which people saw one."""

    policy: str
    user: str
    judged: int
    faults: int
    unknown: int
    decided: int
    agreed: int
    missed: int


class AttemptPicturesOut(Schema):
    """All pictures of attempts: `rates` are of the environments and policies with the most judged attempts, `failures`
    name each attempt once, `difficulty` counts tasks by the share of their judged attempts that solved them."""

    rates: list[RateOut]
    failures: list[BarOut]
    difficulty: list[BarOut]
    verifiers: Annotated[list[VerifierCountOut], Field(description="Every kind; empty if there is no task.")]
    sizes: list[PolicySizesOut]
    users: list[UserFaultOut]


class ToolUseOut(Schema):
    tool: str
    environment_id: int
    calls: int
    errors: int
    attempts: int
    failed_attempts: int


class ToolUsesOut(Schema):
    attempts: int
    tools: int
    calls: int
    errors: int
    faultless: int
    most_used: list[ToolUseOut]
    most_failing: list[ToolUseOut]


class CheckUseOut(Schema):
    """Check `number` (from 0) of a revision: how often it was asked, failed, and alone failed an attempt."""

    task_id: int
    revision: int
    number: int
    label: str
    asked: int
    failed: int
    alone: int


class CheckUsesOut(Schema):
    attempts: int
    checks: int
    unknown: int
    differs: int
    dead: int
    always: int
    alone: int
    deciding: list[CheckUseOut]
    idle: list[CheckUseOut]


class CallPicturesOut(Schema):
    """Pictures of the newest 1,000 attempts; null if they made no call, or no checks judged them."""

    tools: ToolUsesOut | None
    checks: CheckUsesOut | None


class DayOut(Schema):
    day: date
    counts: dict[str, int]


class ReviewPicturesOut(Schema):
    """Pictures of reviews: `stages` and `colours` are the present states of tasks; `cut`: there were too many rows to
    read them all."""

    stages: list[BarOut]
    events: list[DayOut]
    colours: list[BarOut]
    audits: list[DayOut]
    cut: bool


def serialize_attempt_pictures(pictures: AttemptPictures) -> AttemptPicturesOut:
    """Serialize the pictures of attempts."""
    heat, failures, difficulty = pictures.heat, pictures.failures, pictures.difficulty
    rates = [
        RateOut(environment_id=row.environment_id, policy=policy, tried=cell.tried, solved=cell.solved)
        for row in (heat.rows if heat else [])
        for policy, cell in zip(heat.policies if heat else [], row.cells, strict=True)
        if cell.tried
    ]
    return AttemptPicturesOut(
        rates=rates,
        failures=[BarOut.from_orm(bar) for bar in (failures.bars if failures else [])],
        difficulty=[BarOut.from_orm(bar) for bar in ([difficulty.untried, *difficulty.bars] if difficulty else [])],
        verifiers=[VerifierCountOut.from_orm(row) for row in pictures.verifiers],
        sizes=[_serialize_sizes(row) for row in (pictures.sizes.rows if pictures.sizes else [])],
        users=[UserFaultOut.from_orm(row) for row in (pictures.users.rows if pictures.users else [])],
    )


def _serialize_sizes(row: PolicySizes) -> PolicySizesOut:
    tokens: Sizes | None = row.tokens
    return PolicySizesOut(
        policy=row.policy,
        attempts=row.attempts,
        with_tokens=row.with_tokens,
        steps=list(row.steps.values),
        tokens=list(tokens.values) if tokens else None,
    )


def serialize_review_pictures(pictures: ReviewPictures) -> ReviewPicturesOut:
    """Serialize the pictures of reviews and audits."""
    return ReviewPicturesOut(
        stages=[BarOut.from_orm(bar) for bar in pictures.stages],
        events=_serialize_days(pictures.events),
        colours=[BarOut.from_orm(bar) for bar in pictures.colours],
        audits=_serialize_days(pictures.audits),
        cut=pictures.cut,
    )


def _serialize_days(timeline: Timeline | None) -> list[DayOut]:
    if timeline is None:
        return []
    return [DayOut(day=day, counts=dict(zip(timeline.names, counts, strict=True))) for day, counts in timeline.rows]

"""Queries and answers of the API of evaluations."""

from __future__ import annotations

from typing import Annotated, Literal

from ninja import Schema
from pydantic import Field

from webapp.common.rest.openai_lists import A_PAGE, After, PublicId
from webapp.common.rest.types import Position, Text
from webapp.runs.evaluations.comparison import MOST, Comparison
from webapp.runs.evaluations.results import EvaluationResults


class EvaluationsQuery(Schema):
    after: After = ""
    limit: Annotated[int, Field(ge=1, le=200, description=A_PAGE)] = 20
    dataset: Annotated[PublicId, Field(description="Of this dataset alone.")] = ""


class EvaluationComparisonQuery(Schema):
    jobs: Annotated[Text, Field(max_length=600, description=f"2 to {MOST} ids of evaluations, with commas between.")]
    horizon: Annotated[Position | None, Field(description="Turns; left out: the most that all of them have.")] = None


class EvaluationLineOut(Schema):
    """`success` is the share of the judged attempts with the most turns that solved their task; `left_out` counts those
    that have no reward. Both are of what is reported so far."""

    id: str
    object: Literal["fine_tuning.evaluation.line"] = "fine_tuning.evaluation.line"
    name: str
    status: str
    model: str
    dataset: str
    horizon: int | None
    attempts: int
    left_out: int
    success: float | None


class EvaluationList(Schema):
    object: Literal["list"] = "list"
    data: list[EvaluationLineOut]
    has_more: bool


class EvaluationOut(EvaluationResults):
    """Numbers are means over tasks with 95 % intervals: `bootstrap` draws tasks anew; `wilson` bounds a share of which
    every task gave the same. An attempt that was lost has no reward and is counted in `left_out`."""

    object: Literal["fine_tuning.evaluation"] = "fine_tuning.evaluation"


class EvaluationComparisonOut(Comparison):
    """`pairs`: of every two, tasks that the first one won, tied and lost by mean reward, Wilson's intervals of their
    shares, and the difference of the means with a paired bootstrap over tasks."""

    object: Literal["fine_tuning.evaluation.comparison"] = "fine_tuning.evaluation.comparison"

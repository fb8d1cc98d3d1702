"""API of curves as files: numbers as CSV, charts as PNG."""

from __future__ import annotations

from typing import Annotated

from django.http import HttpRequest, HttpResponse
from ninja import Query, Router, Schema
from pydantic import Field

from webapp.common.rest.auth import require_scope
from webapp.common.rest.openai_lists import PublicId
from webapp.common.rest.problems import FieldError, Problem
from webapp.common.rest.types import Position, Text, describe_file_answer
from webapp.runs.api import get_job_or_404
from webapp.runs.curves import files
from webapp.runs.curves.charts import MEASURES, CurveChoice
from webapp.runs.curves.curve_responses import build_csv_response, build_png_response
from webapp.runs.curves.series import MOST_KEYS

router = Router(tags=["training"])
CSV = describe_file_answer("text/csv", "A row a step, a column a key; what a step has not is empty")
PNG = describe_file_answer("image/png", "The charts in one image, at most 24")


class ChartsQuery(Schema):
    chart: Annotated[
        Text, Field(max_length=2_000, description="Names of charts with commas between; left out: all of the job.")
    ] = ""
    measure: Annotated[
        Text, Field(max_length=20, description=f"Of charts by environment and node: {', '.join(MEASURES)}.")
    ] = "reward"
    from_step: Annotated[Position | None, Field(description="The first step; left out: from the start.")] = None
    to_step: Annotated[Position | None, Field(description="The last step; left out: to the end.")] = None

    def names(self) -> list[str]:
        return split_names(self.chart)

    def choice(self) -> CurveChoice:
        """Return the choice of curves. Raises Problem: no such measure, or `to_step` before `from_step`."""
        if self.measure not in MEASURES:
            raise _build_problem("measure", f"Is none of {', '.join(MEASURES)}", "unknown")
        if self.to_step is not None and (self.from_step or 0) > self.to_step:
            raise _build_problem("to_step", "Is before from_step: no step is between them", "order")
        return CurveChoice(measure=self.measure, low=self.from_step, high=self.to_step)


class CsvQuery(ChartsQuery):
    keys: Annotated[
        Text, Field(max_length=20_000, description="Names of numbers with commas between, instead of charts.")
    ] = ""


def _build_problem(name: str, message: str, code: str) -> Problem:
    return Problem(422, f"{name}: {message}.", errors=[FieldError(loc=["query", name], message=message, code=code)])


def split_names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


@router.get("/fine_tuning/jobs/{job}/metrics.csv", auth=require_scope("read"), openapi_extra=CSV)
def get_training_metrics_csv(request: HttpRequest, job: PublicId, query: Query[CsvQuery]) -> HttpResponse:
    """The numbers of a job as CSV: of whole steps, of charts, or of `keys`; step by step, none left out."""
    row, keys = get_job_or_404(job), split_names(query.keys)
    if len(keys) > MOST_KEYS:
        raise _build_problem("keys", f"Names {len(keys)} keys, {MOST_KEYS} at most", "too_long")
    return build_csv_response(row, files.make_csv(row, query.names(), query.choice(), keys), query.names())


@router.get("/fine_tuning/jobs/{job}/curves.png", auth=require_scope("read"), openapi_extra=PNG)
def get_training_curves_png(request: HttpRequest, job: PublicId, query: Query[ChartsQuery]) -> HttpResponse:
    """Charts of a job as one image, with what has to be shown beside its results."""
    row = get_job_or_404(job)
    return build_png_response(row, files.make_png(row, query.names(), query.choice()), query.names())

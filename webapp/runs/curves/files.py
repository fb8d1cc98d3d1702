"""A training job's curves as files: which charts and keys an address names, as CSV or as one PNG."""

from __future__ import annotations

from collections.abc import Sequence

from webapp.errors import FieldFault, RefusedFields
from webapp.runs.curves.chart_images import MOST_CHARTS, draw_png
from webapp.runs.curves.charts import Chart, CurveChoice, all_groups, drawing
from webapp.runs.curves.metric_csv import chart_names, whole_names, write_csv
from webapp.runs.curves.series import keys_of
from webapp.runs.launch.preflight import sentence_of
from webapp.runs.models import TrainingJob
from webapp.runs.rollouts.check_names import check_names


def make_csv(job: TrainingJob, named: Sequence[str], choice: CurveChoice, keys: Sequence[str] = ()) -> str:
    """The numbers of the charts that are named, else of `keys`, else of whole steps. Raises RefusedFields."""
    if named:
        names = [name for chart in named_charts(job, named, choice) for name in chart_names(chart)]
    else:
        names = list(keys) or whole_names(keys_of(job))
    return write_csv(job, list(dict.fromkeys(names)), choice.low, choice.high)


def make_png(job: TrainingJob, named: Sequence[str], choice: CurveChoice) -> bytes:
    """The charts that are named, else all that the job has numbers for, in one image. Raises RefusedFields."""
    charts = named_charts(job, named, choice)[:MOST_CHARTS]
    heading = f"{job.name} ({job.public_id})" if job.name else job.public_id
    return draw_png(charts, drawing(job, charts, choice), heading, sentence_of(job.evaluation or job.dataset))


def named_charts(job: TrainingJob, named: Sequence[str], choice: CurveChoice) -> list[Chart]:
    """The job's charts of these names, in their order; without names all. Raises RefusedFields: there is none."""
    keys = keys_of(job)
    charts = [chart for group in all_groups(keys, choice, check_names(job, keys)) for chart in group.charts]
    there = {chart.name for chart in charts}
    unknown = next((name for name in named if name not in there), "")
    if unknown or not charts:
        has = f"it has {', '.join(sorted(there))[:2_000]}" if there else "it has no numbers yet"
        message = f"The job has no chart {unknown[:60]!a}: {has}." if unknown else f"The job has no charts: {has}."
        raise RefusedFields(message, [FieldFault(("query", "chart"), message, "unknown")])
    return [chart for chart in charts if not named or chart.name in named]

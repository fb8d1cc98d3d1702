"""Files of a training job's curves: the charts and keys that an address names, as CSV or as one PNG."""

from __future__ import annotations

from collections.abc import Sequence

from webapp.common.errors import FieldFault, RefusedFields
from webapp.datasets.queries import get_sentence
from webapp.runs.curves.chart_images import MOST_CHARTS, draw_png
from webapp.runs.curves.chart_points import build_drawing
from webapp.runs.curves.charts import Chart, CurveChoice, build_groups
from webapp.runs.curves.metric_csv import list_chart_keys, list_step_keys, write_csv
from webapp.runs.curves.series import list_keys
from webapp.runs.models import TrainingJob
from webapp.runs.rollouts.check_names import get_check_names


def make_csv(job: TrainingJob, named: Sequence[str], choice: CurveChoice, keys: Sequence[str] = ()) -> str:
    """Return the numbers of the charts that are named, else of `keys`, else of whole steps. Raises RefusedFields."""
    if named:
        names = [name for chart in list_named_charts(job, named, choice) for name in list_chart_keys(chart)]
    else:
        names = list(keys) or list_step_keys(list_keys(job))
    return write_csv(job, list(dict.fromkeys(names)), choice.low, choice.high)


def make_png(job: TrainingJob, named: Sequence[str], choice: CurveChoice) -> bytes:
    """Return an image of the named charts, else of all that the job has numbers for. Raises RefusedFields."""
    charts = list_named_charts(job, named, choice)[:MOST_CHARTS]
    heading = f"{job.name} ({job.public_id})" if job.name else job.public_id
    return draw_png(
        charts,
        build_drawing(job, charts, choice),
        heading,
        get_sentence(job.evaluation or job.dataset, "not frozen yet"),
    )


def list_named_charts(job: TrainingJob, named: Sequence[str], choice: CurveChoice) -> list[Chart]:
    """Return the job's charts of these names, in their order; without names all. Raises RefusedFields: there is
    none."""
    keys = list_keys(job)
    charts = [chart for group in build_groups(keys, choice, get_check_names(job, keys)) for chart in group.charts]
    chart_names_here = {chart.name for chart in charts}
    unknown = next((name for name in named if name not in chart_names_here), "")
    if unknown or not charts:
        has = f"it has {', '.join(sorted(chart_names_here))[:2_000]}" if chart_names_here else "it has no numbers yet"
        message = f"The job has no chart {unknown[:60]!a}: {has}." if unknown else f"The job has no charts: {has}."
        raise RefusedFields(message, [FieldFault(("query", "chart"), message, "unknown")])
    return [chart for chart in charts if not named or chart.name in named]

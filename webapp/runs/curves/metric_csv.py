"""Numbers of a training job as CSV: a row a step, a column a key.

Of a step that two attempts report the later one counts, and superseded numbers count nowhere, as in the curves. A
number that was not finite (NaN, infinite), and one that a step does not have, is an empty cell.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from webapp.runs.curves.charts import Chart
from webapp.runs.models import MetricKey, MetricPoint, TrainingJob

STEP = "step"
OPENAI_NAMES = {"loss": "train_loss", "token_accuracy": "train_accuracy"}
"""Columns of OpenAI's result files that these numbers are."""
OWN_PARTS = ("evaluation/environment/",)
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def list_step_keys(keys: Iterable[MetricKey]) -> list[str]:
    """Return the keys of whole steps, of their outcomes and of evaluations; not those of a part (an environment, a
    check)."""
    own = ("evaluation/", "outcome/")
    return [
        key.name
        for key in keys
        if "/" not in key.name or (key.name.startswith(own) and not key.name.startswith(OWN_PARTS))
    ]


def list_chart_keys(chart: Chart) -> list[str]:
    """Return the keys that a chart draws, each once."""
    return list(dict.fromkeys(chart.keys))


def write_csv(
    job: TrainingJob,
    names: Sequence[str],
    low: int | None = None,
    high: int | None = None,
    columns: Mapping[str, str] | None = None,
) -> str:
    """Return the numbers of `names` from step `low` to `high` as CSV; `columns` are other names for some of them."""
    keys = dict(MetricKey.objects.filter(job=job, name__in=names).values_list("pk", "name"))
    points = MetricPoint.objects.filter(key__in=keys, superseded=False)
    if low is not None:
        points = points.filter(step__gte=low)
    if high is not None:
        points = points.filter(step__lte=high)
    rows = points.order_by("step", "-attempt").values_list("step", "key", "value").iterator(chunk_size=10_000)
    present_names = [name for name in names if name in keys.values()]
    output = io.StringIO()
    writer = csv.writer(output, lineterminator="\n")
    writer.writerow([STEP, *(_escape_formula((columns or {}).get(name, name)) for name in present_names)])
    for step, step_points in groupby(rows, key=lambda row: row[0]):
        values: dict[str, float | None] = {}
        for _, key, value in step_points:
            values.setdefault(keys[key], value)
        writer.writerow([step, *("" if values.get(name) is None else repr(values[name]) for name in present_names)])
    return output.getvalue()


def write_result_file(job: TrainingJob, keys: Sequence[MetricKey]) -> str:
    """Return the numbers of whole steps as CSV, under OpenAI's names if it has one."""
    names = list_step_keys(keys)
    first = [name for name in OPENAI_NAMES if name in names]
    return write_csv(job, [*first, *(name for name in names if name not in first)], columns=OPENAI_NAMES)


def _escape_formula(name: str) -> str:
    """Return a name that no spreadsheet takes for a formula: keys come from workers."""
    return f"'{name}" if name.startswith(_FORMULA) else name

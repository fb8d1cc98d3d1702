"""Progress of an evaluation: the reports that are here, and the model that it asks."""

from __future__ import annotations

from synthesis.errors import InputError
from webapp.endpoints.models import Endpoint
from webapp.endpoints.queries import find_choice
from webapp.runs.models import RolloutFile, TrainingJob
from webapp.runs.spec import ENDPOINT


def count_reports(job: TrainingJob) -> int:
    """Return how many reports are here without a gap; the next attempt begins behind them."""
    steps = RolloutFile.objects.filter(job=job, superseded=False, step__gt=0).order_by("step")
    count = 0
    for step in steps.values_list("step", flat=True).distinct():
        if step != count + 1:
            break
        count = step
    return count


def get_served_model(job: TrainingJob) -> tuple[Endpoint, str]:
    """Return endpoint and name of the model that an evaluation asks. Raises InputError: no endpoint lists it."""
    chosen = find_choice(job.model.removeprefix(ENDPOINT))
    if chosen is None:
        raise InputError(
            f"model: no endpoint lists {job.model[:100]!r} any more; put it back under LLM endpoints, or evaluate "
            "another one"
        )
    return chosen

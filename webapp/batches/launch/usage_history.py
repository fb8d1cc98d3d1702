"""Usage of past calls by role, stage and model, for estimates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import CharField, Count, F, Max, Sum, Value
from django.db.models.functions import Cast, Coalesce, Concat

from webapp.batches.models import CallState, LLMCall
from webapp.batches.spec import SCRIPTED

LOOKED_BACK = 20_000
"""So many of the newest calls are looked at."""
LEAST_PATHS = 5
"""Items that a stage must have been seen for before its count is believed."""


@dataclass(frozen=True)
class AverageUsage:
    """What calls of one role and stage used, on average; `each` is how many of them one item made.

    `scripted`: they were the offline provider's, whose prompts are a model's too, and whose replies and times are not.
    """

    count: int
    each: float
    prompt: float
    completion: float
    seconds: float
    scripted: bool = False


class History:
    """The newest calls that were answered, summed up."""

    def __init__(self) -> None:
        newest = LLMCall.objects.aggregate(newest=Max("pk"))["newest"] or 0
        rows = LLMCall.objects.filter(pk__gt=newest - LOOKED_BACK, state=CallState.DONE)
        item = Concat(Coalesce(Cast("batch_id", CharField()), Value("")), Value(":"), F("path"))
        self.rows = list(
            rows.values("role", "stage", "model")
            .annotate(
                count=Count("pk"),
                # The same path comes again in each batch over the same themes: another item, with calls of its own.
                items=Count(item, distinct=True),
                prompt=Sum("prompt_tokens"),
                completion=Sum("completion_tokens"),
                spent=Sum("seconds"),
            )
            .order_by()
        )

    def of(self, role: str, stage: str, model: str) -> AverageUsage | None:
        """Of this model, else of others that are asked over a network, else of the offline provider; None where the
        stage was not seen often enough."""
        here = [row for row in self.rows if (row["role"], row["stage"]) == (role, stage)]
        groups = (
            [row for row in here if row["model"] == model],
            [row for row in here if row["model"] != SCRIPTED],
            [row for row in here if row["model"] == SCRIPTED],
        )
        return next((_past(group) for group in groups if sum(row["items"] for row in group) >= LEAST_PATHS), None)


def _past(rows: Sequence[Mapping[str, Any]]) -> AverageUsage:
    total = {name: sum(row[name] for row in rows) for name in ("count", "items", "prompt", "completion", "spent")}
    count = total["count"]
    return AverageUsage(
        count,
        count / total["items"],
        total["prompt"] / count,
        total["completion"] / count,
        total["spent"] / count,
        scripted=all(row["model"] == SCRIPTED for row in rows),
    )

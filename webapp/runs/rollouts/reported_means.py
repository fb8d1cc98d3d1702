"""Comparison of the means that a worker posts for a step with those that the step's rollouts give.

Both come from the same worker: numbers as metrics, attempts as a file. Whichever arrives second is compared with the
other. A difference marks the point of the curve and lets the job stand still.
"""

from __future__ import annotations

from collections.abc import Iterable

from synthesis.formats.values import clean
from webapp.runs import transitions
from webapp.runs.models import MetricPoint, RolloutFile, TrainingJob
from webapp.runs.rollouts.rollout_line import RolloutSummary

SAME = 1e-6
"""Relative; sums in another order differ by less."""
WORDS = {"reward": "mean reward", "success": "share of solved attempts", "length": "mean length in tokens"}


class StepMeans:
    """Sums over a step's attempts as they are read: of the whole step, each environment and each category."""

    def __init__(self) -> None:
        self._sums: dict[str, tuple[float, int]] = {}

    def count(self, line: RolloutSummary) -> None:
        """Count a line. As the trainer does, only attempts that have a reward count."""
        if line.reward is None:
            return
        values = {"reward": line.reward, "success": float(line.solved), "length": float(line.tokens)}
        parts = [f"{prefix}/{name}/" for prefix, name in _parts(line) if name]
        for begin in ("", *parts):
            for name, value in values.items():
                total, count = self._sums.get(begin + name, (0.0, 0))
                self._sums[begin + name] = total + value, count + 1

    def means(self) -> dict[str, float]:
        """Means by the key under which the trainer posts them."""
        return {clean(key): total / count for key, (total, count) in self._sums.items()}


def _parts(line: RolloutSummary) -> tuple[tuple[str, str], ...]:
    return ("environment", line.environment), ("node", line.category)


def compare(job: TrainingJob, attempt: int, steps: Iterable[int]) -> None:
    """Compare what is here of these steps, in both directions. Call with the job locked."""
    files = RolloutFile.objects.filter(job=job, attempt=attempt, step__in=list(steps), superseded=False)
    for file in files.order_by("step"):
        points = MetricPoint.objects.filter(
            key__job=job, attempt=attempt, step=file.step, key__name__in=list(file.means), superseded=False
        ).select_related("key")
        wrong = [
            point
            for point in points.order_by("key__name")
            if point.contradicted is None
            and point.value is not None
            and abs(point.value - file.means[point.key.name]) > SAME * max(1.0, abs(file.means[point.key.name]))
        ]
        if wrong:
            _mark(job, file, wrong)


def _mark(job: TrainingJob, file: RolloutFile, wrong: list[MetricPoint]) -> None:
    for point in wrong:
        point.contradicted = file.means[point.key.name]
    MetricPoint.objects.bulk_update(wrong, ["contradicted"], batch_size=1_000)
    # The whole step's reward says most.
    first = min(wrong, key=lambda point: (point.key.name != "reward", point.key.name.count("/"), point.key.name))
    message = sentence(first)
    if len(wrong) > 1:
        message += f" {len(wrong) - 1} more of the step's numbers differ."
    data = {
        "step": file.step,
        "key": first.key.name,
        "reported": first.value,
        "found": first.contradicted,
        "differing": len(wrong),
    }
    transitions.doubt(job, message, **data)


def sentence(point: MetricPoint) -> str:
    """What was posted and what the rollouts give, in words."""
    *part, name = point.key.name.split("/")
    of = f" of {part[0]} {'/'.join(part[1:])}" if part else ""
    told, found = _told_apart(point.value or 0.0, point.contradicted or 0.0)
    return (
        f"The worker reported a {WORDS.get(name, name)}{of} of {told} for step {point.step}; its rollouts give {found}."
    )


def _told_apart(first: float, second: float) -> tuple[str, str]:
    """Both numbers with as many digits as it takes to see that they differ."""
    for digits in range(2, 9):
        if f"{first:.{digits}f}" != f"{second:.{digits}f}":
            return f"{first:.{digits}f}", f"{second:.{digits}f}"
    return repr(first), repr(second)

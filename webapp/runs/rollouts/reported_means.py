"""Comparison of the means that a worker posts for a step with those that the step's rollouts give.

Both come from the same worker: numbers as metrics, attempts as a file. Whichever arrives second is compared with the
other. A difference marks the point of the curve and lets the job stand still.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

from synthesis.formats.values import clean
from webapp.runs import transitions
from webapp.runs.models import MetricPoint, RolloutFile, TrainingJob
from webapp.runs.rollouts.rollout_line import RolloutSummary

SAME = 1e-6
"""Relative; sums in another order differ by less."""
WORDS = {
    "reward": "mean reward",
    "reward_std": "standard deviation of the rewards",
    "success": "share of solved attempts",
    "length": "mean length in tokens",
    "tool_errors": "share of failed calls",
    "program_errors": "share of attempts that programs ended",
}
PARTS = ("environment", "node")
OUTCOMES = "outcome/"
NEVER_SENT = ("evaluation/", "check/")
"""Prefixes of numbers about attempts that no file of a step holds, or not by themselves."""


def is_counted(name: str) -> bool:
    """Whether a number is a figure of a step's attempts that their file gives too."""
    prefix, _, rest = name.partition("/")
    if prefix in PARTS and rest:
        name = rest.rpartition("/")[2]
    return name in WORDS or name.startswith(OUTCOMES)


class StepMeans:
    """Sums over a step's attempts as they are read: of the whole step, each environment and each category."""

    def __init__(self) -> None:
        self._rewards: dict[str, list[float]] = {}
        self._shares: dict[str, tuple[float, int]] = {}
        self._outcomes: Counter[str] = Counter()
        self._count = 0

    def count(self, line: RolloutSummary) -> None:
        """Count a line. As the trainer does, only attempts that have a reward count, but for what ended them."""
        self._count += 1
        self._outcomes[line.outcome] += 1
        self._outcomes["user_error"] += line.user_error
        for begin in ("", *(f"{prefix}/{name}/" for prefix, name in _parts(line) if name)):
            self._add(begin + "program_errors", line.outcome == "program_error")
            if line.reward is None:
                continue
            self._rewards.setdefault(begin, []).append(line.reward)
            self._add(begin + "success", line.solved)
            self._add(begin + "length", line.tokens)
            self._add(begin + "tool_errors", line.failed_calls, line.calls)

    def means(self) -> dict[str, float]:
        """Numbers by the key under which the trainer posts them (`training.step_record.values_of`)."""
        found = {name: total / count for name, (total, count) in self._shares.items() if count}
        for begin, rewards in self._rewards.items():
            mean = sum(rewards) / len(rewards)
            found[begin + "reward"] = mean
            if len(rewards) > 1:
                spread = sum((reward - mean) ** 2 for reward in rewards)
                found[begin + "reward_std"] = math.sqrt(spread / (len(rewards) - 1))
        for outcome, count in self._outcomes.items():
            found[OUTCOMES + outcome] = count / self._count
        return {clean(key): value for key, value in found.items()}

    def _add(self, key: str, value: float, count: int = 1) -> None:
        total, known = self._shares.get(key, (0.0, 0))
        self._shares[key] = total + value, known + count


def _parts(line: RolloutSummary) -> tuple[tuple[str, str], ...]:
    return ("environment", line.environment), ("node", line.category)


def compare(job: TrainingJob, attempt: int, steps: Iterable[int]) -> None:
    """Compare what is here of these steps, in both directions. Call with the job locked."""
    files = RolloutFile.objects.filter(job=job, attempt=attempt, step__in=list(steps), superseded=False)
    for file in files.order_by("step"):
        points = MetricPoint.objects.filter(key__job=job, attempt=attempt, step=file.step, superseded=False)
        wrong = [
            point
            for point in points.select_related("key").order_by("key__name")
            if point.contradicted is None and _differs(point, file.means)
        ]
        if wrong:
            _mark(job, file, wrong)


def _differs(point: MetricPoint, means: dict[str, float]) -> bool:
    """Whether a number is another one than the file gives, or one of attempts that the file has not."""
    if point.value is None or not is_counted(point.key.name):
        return False
    found = means.get(point.key.name)
    return found is None or abs(point.value - found) > SAME * max(1.0, abs(found))


def _mark(job: TrainingJob, file: RolloutFile, wrong: list[MetricPoint]) -> None:
    for point in wrong:
        point.contradicted = file.means.get(point.key.name, math.nan)
    MetricPoint.objects.bulk_update(wrong, ["contradicted"], batch_size=1_000)
    # The whole step's reward says most.
    first = min(wrong, key=_weigh)
    message = sentence(first)
    if len(wrong) > 1:
        message += f" {len(wrong) - 1} more of the step's numbers differ."
    data = {
        "step": file.step,
        "key": first.key.name,
        "reported": first.value,
        "found": file.means.get(first.key.name),
        "differing": len(wrong),
    }
    transitions.doubt(job, message, **data)


def _weigh(point: MetricPoint) -> tuple[bool, int, str]:
    """Rewards come first, and those of the whole step before those of a part."""
    name = point.key.name
    return name.rpartition("/")[2] != "reward", name.count("/"), name


def sentence(point: MetricPoint) -> str:
    """What was posted and what the rollouts give, in words."""
    *part, name = point.key.name.split("/")
    of = f" of {part[0]} {'/'.join(part[1:])}" if part else ""
    if part and part[0] == OUTCOMES.rstrip("/"):
        name, of = f"share of the outcome {name}", ""
    if math.isnan(point.contradicted or 0.0):
        found = "none: no such attempt of the step counts"
        return f"The worker reported a {WORDS.get(name, name)}{of} for step {point.step}; its rollouts give {found}."
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

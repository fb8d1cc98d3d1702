"""Comparison of the means that a worker posts for a step with those that the step's rollouts give.

Both come from the same worker: numbers as metrics, attempts as a file. Whichever arrives second is compared with the
other. A difference marks the point of the curve and pauses the job.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

from synthesis.formats.values import clean_text
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
    "masked": "share of masked attempts",
    "advantage_std": "standard deviation of the advantages",
    "user_fault": "share of judged conversations whose user erred",
    "user_unknown": "share of judged conversations without a usable verdict on the user",
}
COUNTED_LATER = ("masked", "user_fault", "user_unknown")
"""Numbers that earlier versions did not count in a file; each file that they are counted in has the first."""
PARTS = ("environment", "node")
OUTCOMES = "outcome/"
NEVER_SENT = ("evaluation/", "check/")
"""Prefixes of numbers about attempts that no file of a step holds, or not by themselves."""


def is_counted(name: str) -> bool:
    """Return whether a number is a figure of a step's attempts that their file gives too."""
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
        self._advantages: list[float] = []

    def count(self, line: RolloutSummary) -> None:
        """Count a line. As in the trainer, only attempts that have a reward count, except for the outcomes."""
        self._count += 1
        self._outcomes[line.outcome] += 1
        self._outcomes["user_error"] += line.user_error
        self._add("masked", bool(line.masked))
        if line.advantage is not None:
            self._advantages.append(line.advantage)
        if line.user_fault:
            self._add("user_unknown", line.user_fault == "unknown")
        if line.user_fault not in ("", "unknown"):
            self._add("user_fault", line.user_fault == "fault")
        for begin in ("", *(f"{prefix}/{name}/" for prefix, name in _list_parts(line) if name)):
            self._add(begin + "program_errors", line.outcome == "program_error")
            if line.reward is None:
                continue
            self._rewards.setdefault(begin, []).append(line.reward)
            self._add(begin + "success", line.solved)
            self._add(begin + "length", line.tokens)
            self._add(begin + "tool_errors", line.failed_calls, line.calls)

    def means(self) -> dict[str, float]:
        """Return numbers by the key under which the trainer posts them (`training.step_record.compute_step_values`)."""
        means = {name: total / count for name, (total, count) in self._shares.items() if count}
        for begin, rewards in self._rewards.items():
            mean = sum(rewards) / len(rewards)
            means[begin + "reward"] = mean
            if len(rewards) > 1:
                spread = sum((reward - mean) ** 2 for reward in rewards)
                means[begin + "reward_std"] = math.sqrt(spread / (len(rewards) - 1))
        if self._advantages:
            middle = sum(self._advantages) / len(self._advantages)
            squares = sum((advantage - middle) ** 2 for advantage in self._advantages)
            means["advantage_std"] = math.sqrt(squares / max(len(self._advantages) - 1, 1))
        for outcome, count in self._outcomes.items():
            means[OUTCOMES + outcome] = count / self._count
        return {clean_text(key): value for key, value in means.items()}

    def _add(self, key: str, value: float, count: int = 1) -> None:
        total, known = self._shares.get(key, (0.0, 0))
        self._shares[key] = total + value, known + count


def _list_parts(line: RolloutSummary) -> tuple[tuple[str, str], ...]:
    return ("environment", line.environment), ("node", line.category)


def compare_means(job: TrainingJob, attempt: int, steps: Iterable[int]) -> None:
    """Compare posted means with those of the files of these steps, as far as both are here. Call with the job
    locked."""
    files = RolloutFile.objects.filter(job=job, attempt=attempt, step__in=list(steps), superseded=False)
    for file in files.order_by("step"):
        points = MetricPoint.objects.filter(key__job=job, attempt=attempt, step=file.step, superseded=False)
        wrong = [
            point
            for point in points.select_related("key").order_by("key__name")
            if point.contradicted is None and _is_contradicted(point, file.means)
        ]
        if wrong:
            _mark_contradicted(job, file, wrong)


def _is_contradicted(point: MetricPoint, means: dict[str, float]) -> bool:
    """Return whether a number is another one than the file gives, or one of attempts that the file does not have."""
    if point.value is None or not is_counted(point.key.name):
        return False
    file_mean = means.get(point.key.name)
    if file_mean is None and point.key.name in COUNTED_LATER and "masked" not in means:
        return False
    if file_mean is None and point.key.name == "advantage_std":  # a file that an earlier version counted
        return False
    return file_mean is None or abs(point.value - file_mean) > SAME * max(1.0, abs(file_mean))


def _mark_contradicted(job: TrainingJob, file: RolloutFile, wrong: list[MetricPoint]) -> None:
    for point in wrong:
        point.contradicted = file.means.get(point.key.name, math.nan)
    MetricPoint.objects.bulk_update(wrong, ["contradicted"], batch_size=1_000)
    # The whole step's reward is the most telling of them.
    first = min(wrong, key=_rank_importance)
    message = format_contradiction(first)
    if len(wrong) > 1:
        message += f" {len(wrong) - 1} more of the step's numbers differ."
    data = {
        "step": file.step,
        "key": first.key.name,
        "reported": first.value,
        "found": file.means.get(first.key.name),
        "differing": len(wrong),
    }
    transitions.doubt_job(job, message, **data)


def _rank_importance(point: MetricPoint) -> tuple[bool, int, str]:
    """Return a sort key: rewards come first, and those of the whole step before those of a part."""
    name = point.key.name
    return name.rpartition("/")[2] != "reward", name.count("/"), name


def format_contradiction(point: MetricPoint) -> str:
    """Return the posted number and the one that the rollouts give, in words."""
    *part, name = point.key.name.split("/")
    of = f" of {part[0]} {'/'.join(part[1:])}" if part else ""
    if part and part[0] == OUTCOMES.rstrip("/"):
        name, of = f"share of the outcome {name}", ""
    if math.isnan(point.contradicted or 0.0):
        recomputed = "none: no such attempt of the step counts"
        return (
            f"The worker reported a {WORDS.get(name, name)}{of} for step {point.step}; its rollouts give {recomputed}."
        )
    posted, recomputed = _format_distinct(point.value or 0.0, point.contradicted or 0.0)
    return (
        f"The worker reported a {WORDS.get(name, name)}{of} of {posted} for step {point.step}; "
        f"its rollouts give {recomputed}."
    )


def _format_distinct(first: float, second: float) -> tuple[str, str]:
    """Format both numbers with as many digits as it takes to see that they differ."""
    for digits in range(2, 9):
        if f"{first:.{digits}f}" != f"{second:.{digits}f}":
            return f"{first:.{digits}f}", f"{second:.{digits}f}"
    return repr(first), repr(second)

"""Rules of alerts on a training job's numbers: what is measured, and the thresholds at which an alert begins and ends.

Thresholds are Envarium's own. An alert ends at another threshold than it begins at, so that a number that wavers about
one does not make an alert a step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

Past = Mapping[str, Sequence[tuple[int, float | None]]]
"""By key the steps and numbers up to a step, the last one at its end; None if it was not a number."""

HISTORY = 100
"""Number of past steps of each key that are read."""
NUMBERS = ("loss", "grad_norm", "kl", "entropy", "sampling_gap")
LOST = "outcome/infra_error"
LONG_STEPS, SHORT_STEPS = 10, 5
LEAST_REWARD, LEAST_ENTROPY = 0.1, 1e-6
STALL_SECONDS, STALL_TIMES, FIRST_STEP_SECONDS = 600.0, 10.0, 3_600.0


@dataclass(frozen=True)
class AlertRule:
    """Rule of an alert. `measure` returns the number that is judged at the last step of the past, None if it is
    unknown.

    An alert begins if the number is beyond `begin`, and ends once it is not beyond `end` any more; `below` rules look
    downwards. `key` is the chart that shows it, `words` its message, `why` the reason for the thresholds.
    """

    name: str
    title: str
    key: str
    begin: float
    end: float
    words: str
    why: str
    measure: Callable[[Past], float | None] | None = None
    below: bool = False
    unit: str = ""
    methods: tuple[str, ...] = ("reinforcement",)

    def begins(self, value: float) -> bool:
        return value < self.begin if self.below else value > self.begin

    def ends(self, value: float) -> bool:
        return value >= self.end if self.below else value <= self.end


def _get_last_values(past: Past, key: str, steps: int) -> list[float]:
    """Return the last so many numbers of a key if all of them are finite; else an empty list."""
    values = [value for _, value in past.get(key, ())[-steps:] if value is not None]
    return values if len(values) == steps else []


def _compute_mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def has_no_number(past: Past) -> float | None:
    """Return 1 if a watched number of the newest step is not finite (NaN or infinite), else 0."""
    newest = max((points[-1][0] for points in past.values() if points), default=None)
    ends = [points[-1] for key in NUMBERS if (points := past.get(key)) and points[-1][0] == newest]
    return float(any(value is None for _, value in ends)) if ends else None


def _make_mean_measure(key: str, steps: int = SHORT_STEPS) -> Callable[[Past], float | None]:
    def measure_mean(past: Past) -> float | None:
        values = _get_last_values(past, key, steps)
        return _compute_mean(values) if values else None

    return measure_mean


def _make_share_measure(key: str, least: float) -> Callable[[Past], float | None]:
    """Make a measure of the mean of the last ten steps as a share of the best ten in a row of the last hundred, if
    those reached `least`."""

    def measure_share(past: Past) -> float | None:
        values = [value for _, value in past.get(key, ()) if value is not None]
        if len(values) < 2 * LONG_STEPS:
            return None
        sums = [sum(values[:LONG_STEPS])]
        for at in range(LONG_STEPS, len(values)):
            sums.append(sums[-1] + values[at] - values[at - LONG_STEPS])
        best = max(sums) / LONG_STEPS
        return sums[-1] / LONG_STEPS / best if best >= least else None

    return measure_share


def compute_lost_share(past: Past) -> float | None:
    """Return the mean share of attempts lost to the infrastructure in the last five steps; a step without the key lost
    none."""
    steps = [step for step, _ in past.get("masked", ())[-SHORT_STEPS:]]
    if len(steps) < SHORT_STEPS:
        return None
    lost = dict(past.get(LOST, ()))
    return _compute_mean([lost.get(step) or 0.0 for step in steps])


def _make_rise_measure(key: str) -> Callable[[Past], float | None]:
    """Make a measure of the mean of the last ten steps less the lowest mean of ten in a row of the last hundred."""

    def measure_rise(past: Past) -> float | None:
        values = [value for _, value in past.get(key, ()) if value is not None]
        if len(values) < 2 * LONG_STEPS:
            return None
        means = [_compute_mean(values[at : at + LONG_STEPS]) for at in range(len(values) - LONG_STEPS + 1)]
        return means[-1] - min(means)

    return measure_rise


_BOTH = ("supervised", "reinforcement")
RULES: tuple[AlertRule, ...] = (
    AlertRule(
        "no_number",
        "Not a number",
        "loss",
        0.5,
        0.5,
        "A loss, gradient, divergence, entropy or sampling gap is no number",
        "One NaN or infinite number is enough: what is learnt from it spoils the weights. It ends with the first step "
        "whose numbers are all finite.",
        has_no_number,
        methods=_BOTH,
    ),
    AlertRule(
        "reward_collapse",
        "Reward collapsed",
        "reward",
        0.5,
        0.7,
        "Mean reward of ten steps, as a share of the best ten of the last hundred",
        "Begins below half of the best ten steps in a row of the last hundred, where those reached at least 0.1; ends "
        "at 0.7 of it. A longer horizon or harder tasks lower a reward by less than half as a rule.",
        _make_share_measure("reward", LEAST_REWARD),
        below=True,
    ),
    AlertRule(
        "entropy_collapse",
        "Entropy collapsed",
        "entropy",
        0.2,
        0.3,
        "Mean entropy of ten steps, as a share of the highest ten of the last hundred",
        "Begins below a fifth, ends at 0.3. Entropy that falls so fast leaves attempts that no longer differ, and so "
        "nothing to learn from.",
        _make_share_measure("entropy", LEAST_ENTROPY),
        below=True,
    ),
    AlertRule(
        "flat_groups",
        "Groups without variance",
        "flat_groups",
        0.8,
        0.7,
        "Mean share of groups with equal rewards in five steps",
        "Begins above 0.8, ends at 0.7. A group whose rewards are all equal has no advantage: four of five attempts "
        "are then made for nothing.",
        _make_mean_measure("flat_groups"),
    ),
    AlertRule(
        "kl",
        "Divergence is large",
        "kl",
        0.2,
        0.15,
        "Mean divergence from the reference in five steps",
        "Begins above 0.2 for a token or attempt (by the form of the loss), ends at 0.15: usual runs stay below 0.1.",
        _make_mean_measure("kl"),
        unit="nats",
    ),
    AlertRule(
        "sampling_gap",
        "Sampling gap is large",
        "sampling_gap",
        0.1,
        0.08,
        "Mean gap of five steps between a token's log-probability as drawn and as trained",
        "Begins above 0.1 nats a token, ends at 0.08: at 0.1 a token's ratio is 10 % away from 1 on average before "
        "anything is learnt, half of a usual clip.",
        _make_mean_measure("sampling_gap"),
        unit="nats",
    ),
    AlertRule(
        "lost_attempts",
        "Attempts are lost",
        LOST,
        0.05,
        0.02,
        "Mean share of attempts lost to the infrastructure in five steps",
        "Begins above 5 %, ends at 2 %. They are masked, never a reward of 0; limits.infra_error_share pauses the job.",
        compute_lost_share,
    ),
    AlertRule(
        "user_faults",
        "The user errs more often",
        "user_fault",
        0.1,
        0.05,
        "Share of conversations whose user erred in ten steps, above the lowest ten of the last hundred",
        "Begins 0.1 above, ends at 0.05. Such attempts are masked (masking.meu), so a policy loses nothing by leading "
        "its user into mistakes when it would fail: look into a share that rises as it learns.",
        _make_rise_measure("user_fault"),
    ),
    AlertRule(
        "stall",
        "Stalled",
        "step_s",
        1.0,
        1.0,
        "Time since the last number, as a multiple of what is waited for",
        "A running job that has reported no number for ten times its median step, and at least ten minutes; an hour "
        "before the first number of an attempt. Checked by the clock; ends with the next number.",
        methods=_BOTH,
    ),
)
BY_NAME = {rule.name: rule for rule in RULES}
WATCHED = tuple(dict.fromkeys([*NUMBERS, "reward", "flat_groups", "masked", "user_fault", LOST]))
"""Every key that a rule looks at."""

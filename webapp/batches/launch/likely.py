"""Likely figures of a batch: a typical value, and the range that four of five batches fall into.

The ends of an estimate (`estimate.py`) are a batch in which everything is as small, or as large, as possible. How
likely that is, is simulated: many batches are drawn, each with its own share of kept items and its own figures within
those ends. Half of the draws follow one common draw, because items of a batch and replies of a model are alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from synthesis.contracts import Usage
from synthesis.llm.cost import Price
from webapp.batches.launch.bounds import Bounds

DRAWS = 400
LOW, HIGH = 0.1, 0.9
COMMON = 0.5
"""Probability that a figure follows the common draw of its batch."""
FIGURES = ("calls", "prompt_tokens", "completion_tokens", "seconds", "cost")
SEEN_MEDIAN, ASSUMED_MEDIAN = 0.5, 0.35
"""Place of the median of a figure between its ends: in the middle if its ends come from earlier calls and are about a
mean; below it if they are assumed, because upper ends then hold what is rare."""
SPREAD = 1.5
"""How much figures crowd about their median; 1 would spread them evenly on either side."""


@dataclass(frozen=True)
class CallFigures:
    """Calls that one item makes of one kind, and tokens and seconds of one call. They come from `seen` past calls;
    `mean_calls` is known if enough items were seen."""

    model: str
    stage: str
    seen: int
    calls: Bounds
    prompt: Bounds
    completion: Bounds
    seconds: Bounds
    mean_calls: float | None = None

    @property
    def median(self) -> float:
        return SEEN_MEDIAN if self.seen else ASSUMED_MEDIAN

    @property
    def median_of_calls(self) -> float:
        return self.median if self.mean_calls is None else locate_between(self.mean_calls, self.calls)


@dataclass(frozen=True)
class LikelyRange:
    """`typical` is the median; one batch in ten lies below `low`, and one in ten above `high`."""

    low: float
    typical: float
    high: float


@dataclass(frozen=True)
class LevelLines:
    """`count` items of a level, if all were kept, and the calls of each of them."""

    level: str
    count: int
    lines: Sequence[CallFigures]


@dataclass(frozen=True)
class KeptShare:
    """Share of the items of a level that continues: its ends, and the position of its median between them. The share
    `sure` continues in any case."""

    ends: Bounds
    median: float
    sure: float = 0.0


Row = tuple[str, float, float]
"""A level, how many items of it there are, and the seconds of one item's calls in a row."""


def simulate_likely_ranges(
    levels: Sequence[LevelLines],
    shares: Mapping[str, KeptShare],
    prices: Mapping[str, Price],
    at_once: Mapping[str, int],
    last_seconds: Callable[[float, Sequence[Row]], float],
) -> dict[str, LikelyRange]:
    """Return the likely range of each figure. `at_once` is the number of concurrent calls of one item, by stage, and
    `last_seconds` computes how long all calls take. Deterministic."""
    random = Random(0)
    drawn: dict[str, list[float]] = {name: [] for name in FIGURES}
    for _ in range(DRAWS):
        figures = _draw_batch(random, levels, shares, prices, at_once, last_seconds)
        for name in FIGURES:
            drawn[name].append(figures[name])
    return {name: _summarize_draws(sorted(values)) for name, values in drawn.items()}


def _draw_batch(
    random: Random,
    levels: Sequence[LevelLines],
    shares: Mapping[str, KeptShare],
    prices: Mapping[str, Price],
    at_once: Mapping[str, int],
    last_seconds: Callable[[float, Sequence[Row]], float],
) -> dict[str, float]:
    common = random.random()

    def draw_between(ends: Bounds, median: float) -> float:
        follows = random.random() < COMMON
        return _find_quantile(common if follows else random.random(), ends, median)

    reached = _draw_reached_shares(shares, draw_between)
    total = dict.fromkeys(FIGURES, 0.0)
    rows: list[Row] = []
    for level in levels:
        items, in_row = level.count * reached[level.level], 0.0
        for line in level.lines:
            calls = draw_between(line.calls, line.median_of_calls)
            prompt, completion, seconds = (
                calls * draw_between(ends, line.median) for ends in (line.prompt, line.completion, line.seconds)
            )
            in_row += seconds / max(1.0, min(at_once.get(line.stage, 1), calls))
            total["calls"] += items * calls
            total["prompt_tokens"] += items * prompt
            total["completion_tokens"] += items * completion
            total["seconds"] += items * seconds
            if (price := prices.get(line.model)) is not None:
                usage = Usage(prompt_tokens=int(items * prompt), completion_tokens=int(items * completion))
                total["cost"] += price.of(usage)
        rows.append((level.level, items, in_row))
    total["seconds"] = last_seconds(total["seconds"], rows)
    return total


def _draw_reached_shares(shares: Mapping[str, KeptShare], draw: Callable[[Bounds, float], float]) -> dict[str, float]:
    """Return the share of items that is reached at all, by level."""
    reached, at = {}, 1.0
    for level, share in shares.items():
        reached[level] = at
        at *= share.sure + (1 - share.sure) * draw(share.ends, share.median)
    return reached


def _find_quantile(chance: float, ends: Bounds, median: float) -> float:
    """Return the figure below which this share of the draws lies."""
    middle = ends.low + (ends.high - ends.low) * median
    aside = abs(2 * chance - 1) ** SPREAD
    return middle - (middle - ends.low) * aside if chance < 0.5 else middle + (ends.high - middle) * aside


def locate_between(figure: float, ends: Bounds) -> float:
    """Return the position of a figure between two ends: 0 at the low one, 1 at the high one."""
    width = ends.high - ends.low
    return min(1.0, max(0.0, (figure - ends.low) / width)) if width else 0.5


def _summarize_draws(values: Sequence[float]) -> LikelyRange:
    def value_at(share: float) -> float:
        return values[round(share * (len(values) - 1))]

    return LikelyRange(value_at(LOW), value_at(0.5), value_at(HIGH))

"""Estimate of a batch before it starts: ranges of calls, tokens, cost and time, and one item's first prompt.

The low end is a lean batch that keeps as few items as earlier ones, the high end one that keeps every item; likely
values lie between them (`likely.py`). The usage of an item in a stage is taken from earlier batches
(`usage_history.py`); if there are none yet, from `assumed_usage.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from synthesis.contracts import Usage
from synthesis.llm.cost import Price
from synthesis.stage_adapters import find_known_edges
from synthesis.stages import LEVELS, ItemSpec, Pipeline, StageSettings
from synthesis.themes.inversion import needs_inversion
from webapp.batches.engine.cast import Cast, build_cast, count_lanes, fill_in_defaults
from webapp.batches.launch.assumed_usage import KEPT, AssumedUsage, assume_kept_share, assume_usage, find_task_way
from webapp.batches.launch.bounds import NOTHING, Bounds, sum_bounds
from webapp.batches.launch.first_prompt import find_first_prompt
from webapp.batches.launch.likely import (
    CallFigures,
    KeptShare,
    LevelLines,
    LikelyRange,
    Row,
    locate_between,
    simulate_likely_ranges,
)
from webapp.batches.launch.usage_history import History
from webapp.batches.spec import SCRIPTED, BatchSettings

SIDE_BY_SIDE = {
    **{"code_method": 8, "check_function": 8, "solve": 4, "test_call": 3, "choose_call": 3, "check_call": 3},
    **{"tool_edges": 8, "weak_edges": 8, "prune_merge": 4, "reasoning_nodes": 4, "reasoning_edges": 4},
}
"""Calls that one item makes at once in a stage, at most; in others each waits for the one before."""
TOKENS = ("prompt_tokens", "completion_tokens")
FIGURES = ("calls", *TOKENS, "seconds")


@dataclass(frozen=True)
class EstimateLine:
    """Estimate of one kind of call. `seen` past calls were used for it; `cost` None: a price is unknown."""

    role: str
    stage: str
    model: str
    calls: Bounds
    prompt_tokens: Bounds
    completion_tokens: Bounds
    seconds: Bounds
    cost: Bounds | None
    seen: int


@dataclass(frozen=True)
class Estimate:
    """Estimate of a batch. `items` are those of the high end, by level; `rests_on` describes the basis of the
    range in words."""

    themes: int
    items: dict[str, int]
    lines: list[EstimateLine] = field(default_factory=list)
    seconds: Bounds = NOTHING
    rests_on: str = ""
    sample: dict[str, Any] | None = None
    note: str = ""
    likely: dict[str, LikelyRange] = field(default_factory=dict)
    """By figure, the typical value and the range that four of five batches fall into; other figures are its ends."""

    @property
    def calls(self) -> Bounds:
        return sum_bounds([line.calls for line in self.lines])

    @property
    def prompt_tokens(self) -> Bounds:
        return sum_bounds([line.prompt_tokens for line in self.lines])

    @property
    def completion_tokens(self) -> Bounds:
        return sum_bounds([line.completion_tokens for line in self.lines])

    @property
    def unpriced(self) -> list[str]:
        """Models without a known price."""
        return sorted({line.model for line in self.lines if line.cost is None})

    @property
    def cost(self) -> Bounds | None:
        costs = [line.cost for line in self.lines if line.cost is not None]
        return None if len(costs) < len(self.lines) else sum_bounds(costs)


@dataclass(frozen=True)
class LevelWish:
    """Items of one kind that a batch would make at a level, and the usage of each of them."""

    level: str
    items: Bounds
    kept: Bounds
    """The share of them that goes on."""
    asks: dict[tuple[str, str], AssumedUsage]


def build_estimate(specs: Sequence[ItemSpec], settings: BatchSettings, pipeline: Pipeline) -> Estimate:
    """Return the estimate of a batch over these items. Raises InputError if its models cannot be used."""
    settings = fill_in_defaults(settings)
    batch_cast = build_cast(settings)
    items = count_items_by_level(len(specs), settings.stages, pipeline)
    before = History(settings.stages, len(specs))
    lines: dict[tuple[str, str], EstimateLine] = {}
    rows: list[tuple[str, Bounds, Bounds]] = []
    levels: list[LevelLines] = []
    shares = _find_kept_bounds(before, batch_cast, len(specs))
    for wish in _list_level_wishes(specs, settings.stages, items, pipeline, shares):
        figures = [_find_call_figures(place, wish, guess, before, batch_cast) for place, guess in wish.asks.items()]
        item_lines = [_build_item_line(role, figure) for (role, _), figure in zip(wish.asks, figures, strict=True)]
        rows.append((wish.level, wish.items, sum_bounds([_count_sequential_seconds(line) for line in item_lines])))
        levels.append(LevelLines(wish.level, round(wish.items.high), figures))
        for line in item_lines:
            place = line.role, line.stage
            many = _multiply_line(line, wish.items)
            lines[place] = _add_lines(lines[place], many) if place in lines else many
    whole = [_round_and_price(line, batch_cast.prices) for line in lines.values()]
    sample, note = find_first_prompt(specs[0], settings, pipeline) if specs else (None, "")
    del items["talk"]
    room = _compute_capacity(settings, batch_cast)
    likely = simulate_likely_ranges(
        levels,
        _estimate_kept_shares(specs, settings.stages, pipeline, shares),
        batch_cast.prices,
        SIDE_BY_SIDE,
        lambda seconds, begun: _find_slowest_bound(seconds, begun, room),
    )
    times = _estimate_seconds(whole, rows, room)
    return Estimate(len(specs), items, whole, times, describe_basis(whole), sample, note, likely)


def _estimate_kept_shares(
    specs: Sequence[ItemSpec], stages: StageSettings, pipeline: Pipeline, shares: Mapping[str, Bounds]
) -> dict[str, KeptShare]:
    """Return the share of items that continues by level; its median is the middle of what earlier batches show."""
    sure = _find_sure_share(specs, stages, pipeline)
    kept_shares: dict[str, KeptShare] = {}
    for level in LEVELS:
        ends = shares[level]
        typical = KEPT if ends == assume_kept_share(len(specs)) else (ends.low + ends.high) / 2
        kept_shares[level] = KeptShare(ends, locate_between(typical, ends), sure if level == "theme" else 0.0)
    return kept_shares


def _find_sure_share(specs: Sequence[ItemSpec], stages: StageSettings, pipeline: Pipeline) -> float:
    """Return the share of existing environments that are not assessed again: they always continue."""
    existing = [spec for spec in specs if spec.environment is not None]
    return (len(existing) - _count_assessed(existing, stages, pipeline)) / max(1, len(specs))


def _count_assessed(there: Sequence[ItemSpec], stages: StageSettings, pipeline: Pipeline) -> int:
    return sum(any(stage.name == "assess" for stage in pipeline.path("theme", stages, spec)) for spec in there)


def describe_basis(lines: Sequence[EstimateLine]) -> str:
    """Describe the basis of the range for people."""
    seen, calls = sum(line.seen > 0 for line in lines), sum(line.seen for line in lines)
    if not seen:
        return "No earlier batch asked for anything like this: the range rests on assumptions, so it is wide."
    if seen == len(lines):
        return f"The range rests on {calls:,} earlier calls, and on how much they differ from item to item."
    return (
        f"The range rests on {calls:,} earlier calls for {seen} of {len(lines)} kinds of call, and on assumptions for "
        "the others."
    )


def _find_kept_bounds(before: History, played: Cast, themes: int) -> dict[str, Bounds]:
    """Return the share of items that continues, by level."""
    scripted = SCRIPTED in played.names.values()
    return {level: before.bound_kept_share(level, scripted=scripted) or assume_kept_share(themes) for level in LEVELS}


def _list_level_wishes(
    specs: Sequence[ItemSpec],
    stages: StageSettings,
    items: dict[str, int],
    pipeline: Pipeline,
    shares: dict[str, Bounds],
) -> list[LevelWish]:
    """Return all items to be made; a level may come more than once."""
    existing = [spec for spec in specs if spec.environment is not None]
    texts = sum(bool(spec.text) for spec in specs)
    again = _count_assessed(existing, stages, pipeline)
    inverted = sum(spec.theme is not None and needs_inversion(spec.theme) for spec in specs)
    way = find_task_way(pipeline)
    drawn = specs if way in ("graph", "walks") and items["scenario"] else ()
    walked = drawn if way == "walks" else ()
    ungraded = sum(find_known_edges(stages, spec, graded=True) is None for spec in walked)
    kinds = (
        ("theme", "theme", False, False, len(specs) - texts - len(existing)),
        ("theme", "theme", True, False, texts),
        ("theme", "environment", False, False, again),
        ("theme", "inversion", False, False, inverted),
        ("theme", "edges", False, False, sum(find_known_edges(stages, spec) is None for spec in drawn)),
        ("theme", "weak_edges", False, False, ungraded),
        ("theme", "graph", False, False, len(drawn) - len(walked)),
        ("scenario", "scenario", False, False, items["scenario"]),
        ("task", "task", False, False, items["task"]),
        ("trajectory", "trajectory", False, False, items["trajectory"] - items["talk"]),
        ("trajectory", "trajectory", False, True, items["talk"]),
    )
    sure = _find_sure_share(specs, stages, pipeline)
    reached = {"theme": 1.0}
    for above, level in pairwise(LEVELS):
        low = shares[above].low
        reached[level] = reached[above] * (sure + (1 - sure) * low if above == "theme" else low)
    return [
        LevelWish(
            level,
            Bounds(reached[level] * count, count),
            shares[level],
            assume_usage(stages, what, text=text, talk=talk, way=way),
        )
        for level, what, text, talk, count in kinds
        if count
    ]


def _find_call_figures(
    place: tuple[str, str], wish: LevelWish, guess: AssumedUsage, before: History, played: Cast
) -> CallFigures:
    """Return the figures of one item. Calls of the scripted provider give only numbers and prompts for another
    model."""
    model = played.names[place[0]]
    past = before.of(*place, model)
    usable_past = past if past and not (past.scripted and model != SCRIPTED) else None
    assumed_calls = guess.calls.times(wish.kept.low if guess.late else 1.0, 1.0)
    return CallFigures(
        model,
        place[1],
        past.count if past else 0,
        past.calls if past and past.calls else assumed_calls,
        past.prompt if past else guess.prompt,
        usable_past.completion if usable_past else guess.completion,
        NOTHING if model == SCRIPTED else usable_past.seconds if usable_past else guess.seconds,
        past.mean_calls if past else None,
    )


def _build_item_line(role: str, one: CallFigures) -> EstimateLine:
    """Return the estimate of one item."""
    tokens = one.calls.by(one.prompt), one.calls.by(one.completion)
    return EstimateLine(role, one.stage, one.model, one.calls, *tokens, one.calls.by(one.seconds), None, one.seen)


def _multiply_line(line: EstimateLine, items: Bounds) -> EstimateLine:
    figures = {name: getattr(line, name).by(items) for name in FIGURES}
    return replace(line, **figures)


def _add_lines(line: EstimateLine, more: EstimateLine) -> EstimateLine:
    figures = {name: getattr(line, name) + getattr(more, name) for name in FIGURES}
    return replace(line, **figures)


def _round_and_price(line: EstimateLine, prices: Mapping[str, Price]) -> EstimateLine:
    """Return the line in whole calls and tokens, with their cost."""
    line = replace(line, **{name: getattr(line, name).whole() for name in ("calls", *TOKENS)})
    price = prices.get(line.model)
    if price is None:
        return line
    low, high = (
        price.of(Usage(prompt_tokens=int(prompt), completion_tokens=int(completion)))
        for prompt, completion in (
            (line.prompt_tokens.low, line.completion_tokens.low),
            (line.prompt_tokens.high, line.completion_tokens.high),
        )
    )
    return replace(line, cost=Bounds(low, high))


def _estimate_seconds(
    lines: Sequence[EstimateLine], rows: Sequence[tuple[str, Bounds, Bounds]], room: BatchRoom
) -> Bounds:
    """Return the seconds at both ends."""

    def seconds_at_end(end: str) -> float:
        begun = [(level, getattr(items, end), getattr(row, end)) for level, items, row in rows]
        return _find_slowest_bound(sum(getattr(line.seconds, end) for line in lines), begun, room)

    return Bounds(seconds_at_end("low"), seconds_at_end("high"))


@dataclass(frozen=True)
class BatchRoom:
    """Requests that endpoints take at once, and items in work at once."""

    requests: int
    items: int


def _compute_capacity(settings: BatchSettings, played: Cast) -> BatchRoom:
    lanes = count_lanes(settings)
    requests = sum(endpoint.max_concurrency * lanes for endpoint in _list_endpoints(played.endpoints)) or 1
    return BatchRoom(requests, settings.at_once * lanes)


def _find_slowest_bound(seconds: float, rows: Sequence[Row], room: BatchRoom) -> float:
    """Return the seconds that a batch lasts, by its bottleneck: the endpoints, its items at once, or one item's calls
    in a row. `seconds` are those of all calls."""
    longest = {level: 0.0 for level, _, _ in rows}
    for level, items, row in rows:
        longest[level] = max(longest[level], row if items >= 1 else 0.0)
    return max(
        seconds / room.requests,
        sum(items * row for _, items, row in rows) / room.items,
        sum(longest.values()),
    )


def _count_sequential_seconds(line: EstimateLine) -> Bounds:
    """Return the seconds of one item's calls in a stage, with concurrent calls counted once."""
    at_once = SIDE_BY_SIDE.get(line.stage, 1)
    return line.seconds.times(1 / max(1.0, min(at_once, line.calls.low)), 1 / max(1.0, min(at_once, line.calls.high)))


def _list_endpoints(by_role: dict[str, Any]) -> list[Any]:
    return list({endpoint.name: endpoint for endpoint, _ in by_role.values()}.values())


def count_items_by_level(themes: int, stages: StageSettings, pipeline: Pipeline) -> dict[str, int]:
    """Return the items by level if all were kept; `talk` counts the conversations among the trajectories."""
    scenarios = themes * len(pipeline.parts("theme", stages))
    tasks = scenarios * len(pipeline.parts("scenario", stages))
    runs = pipeline.parts("task", stages)
    talks = sum(part.spec.conversational for part in runs)
    return {
        "theme": themes,
        "scenario": scenarios,
        "task": tasks,
        "trajectory": tasks * len(runs),
        "talk": tasks * talks,
    }

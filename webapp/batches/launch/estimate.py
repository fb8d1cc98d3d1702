"""Estimate of a batch before it starts: ranges of calls, tokens, cost and time, and one item's first prompt.

The low end is a lean batch that keeps as few items as earlier ones, the high end one of which every item is kept; what
is likely lies between them (`likely.py`). What
items of a stage asked for is taken from earlier batches (`usage_history.py`); where there are none yet, from
`assumed_usage.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from synthesis.contracts import Usage
from synthesis.errors import EnvariumError
from synthesis.llm.asker import Asker
from synthesis.llm.calls import StageCall
from synthesis.llm.chat import Reply
from synthesis.llm.cost import CostMeter, Price
from synthesis.llm.store import MemoryStore
from synthesis.prompts.trial import trying
from synthesis.runtime import default_sandbox
from synthesis.stages import LEVELS, ItemSpec, Kit, Pipeline, StageSettings
from synthesis.themes.inversion import needs_inversion
from synthesis.themes.keys import theme_of
from webapp.batches.engine.cast import Cast, cast, lanes_of, with_defaults
from webapp.batches.launch.assumed_usage import KEPT, AssumedUsage, assumed, assumed_share, find_way
from webapp.batches.launch.bounds import NOTHING, Bounds, total
from webapp.batches.launch.likely import (
    CallFigures,
    KeptShare,
    LevelLines,
    LikelyRange,
    Row,
    draw_likely,
    place_between,
)
from webapp.batches.launch.usage_history import History
from webapp.batches.spec import SCRIPTED, BatchSettings

SIDE_BY_SIDE = {
    **{"code_method": 8, "check_function": 8, "solve": 4, "test_call": 3, "choose_call": 3, "check_call": 3},
    **{"tool_edges": 8, "prune_merge": 4, "reasoning_nodes": 4, "reasoning_edges": 4},
}
"""Calls that one item makes at once in a stage, at most; in others each waits for the one before."""
SHOWN = 20_000
TOKENS = ("prompt_tokens", "completion_tokens")
FIGURES = ("calls", *TOKENS, "seconds")


@dataclass(frozen=True)
class EstimateLine:
    """What one kind of call would come to. `seen` calls of the past were looked at; `cost` None: a price is unknown."""

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
    """`items` are those of the high end, by level; `rests_on` says in words where the range comes from."""

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
        return total([line.calls for line in self.lines])

    @property
    def prompt_tokens(self) -> Bounds:
        return total([line.prompt_tokens for line in self.lines])

    @property
    def completion_tokens(self) -> Bounds:
        return total([line.completion_tokens for line in self.lines])

    @property
    def unpriced(self) -> list[str]:
        """Models whose price nobody has said."""
        return sorted({line.model for line in self.lines if line.cost is None})

    @property
    def cost(self) -> Bounds | None:
        costs = [line.cost for line in self.lines if line.cost is not None]
        return None if len(costs) < len(self.lines) else total(costs)


@dataclass(frozen=True)
class LevelWish:
    """Items of one kind that a batch would make at a level, and what each of them asks for."""

    level: str
    items: Bounds
    kept: Bounds
    """The share of them that goes on."""
    asks: dict[tuple[str, str], AssumedUsage]


def estimate(specs: Sequence[ItemSpec], settings: BatchSettings, pipeline: Pipeline) -> Estimate:
    """What a batch over these themes would take. Raises InputError where its models cannot be used."""
    settings = with_defaults(settings)
    played = cast(settings)
    items = counted(len(specs), settings.stages, pipeline)
    before = History(settings.stages, len(specs))
    lines: dict[tuple[str, str], EstimateLine] = {}
    rows: list[tuple[str, Bounds, Bounds]] = []
    levels: list[LevelLines] = []
    shares = _shares(before, played, len(specs))
    for wish in _wishes(specs, settings.stages, items, pipeline, shares):
        figures = [_find_figures(place, wish, guess, before, played) for place, guess in wish.asks.items()]
        one = [_line(role, figure) for (role, _), figure in zip(wish.asks, figures, strict=True)]
        rows.append((wish.level, wish.items, total([_in_row(line) for line in one])))
        levels.append(LevelLines(wish.level, round(wish.items.high), figures))
        for line in one:
            place = line.role, line.stage
            many = _times(line, wish.items)
            lines[place] = _both(lines[place], many) if place in lines else many
    whole = [_priced(line, played.prices) for line in lines.values()]
    sample, note = sample_prompt(specs[0], settings, pipeline) if specs else (None, "")
    del items["talk"]
    room = _find_room(settings, played)
    likely = draw_likely(
        levels,
        _kept_shares(specs, settings.stages, pipeline, shares),
        played.prices,
        SIDE_BY_SIDE,
        lambda seconds, begun: _last(seconds, begun, room),
    )
    times = _time(whole, rows, room)
    return Estimate(len(specs), items, whole, times, rests_on(whole), sample, note, likely)


def _kept_shares(
    specs: Sequence[ItemSpec], stages: StageSettings, pipeline: Pipeline, shares: Mapping[str, Bounds]
) -> dict[str, KeptShare]:
    """By level, the share of items that goes on; where it mostly lies is the middle of what earlier batches tell."""
    sure = _sure_share(specs, stages, pipeline)
    known: dict[str, KeptShare] = {}
    for level in LEVELS:
        ends = shares[level]
        typical = KEPT if ends == assumed_share(len(specs)) else (ends.low + ends.high) / 2
        known[level] = KeptShare(ends, place_between(typical, ends), sure if level == "theme" else 0.0)
    return known


def _sure_share(specs: Sequence[ItemSpec], stages: StageSettings, pipeline: Pipeline) -> float:
    """An environment that is there and is not assessed again always goes on."""
    there = [spec for spec in specs if spec.environment is not None]
    return (len(there) - _count_assessed(there, stages, pipeline)) / max(1, len(specs))


def _count_assessed(there: Sequence[ItemSpec], stages: StageSettings, pipeline: Pipeline) -> int:
    return sum(any(stage.name == "assess" for stage in pipeline.path("theme", stages, spec)) for spec in there)


def rests_on(lines: Sequence[EstimateLine]) -> str:
    """Where the range comes from, for people."""
    seen, calls = sum(line.seen > 0 for line in lines), sum(line.seen for line in lines)
    if not seen:
        return "No earlier batch asked for anything like this: the range rests on assumptions, so it is wide."
    if seen == len(lines):
        return f"The range rests on {calls:,} earlier calls, and on how much they differ from item to item."
    return (
        f"The range rests on {calls:,} earlier calls for {seen} of {len(lines)} kinds of call, and on assumptions for "
        "the others."
    )


def _shares(before: History, played: Cast, themes: int) -> dict[str, Bounds]:
    """By level, the share of its items that goes on."""
    scripted = SCRIPTED in played.names.values()
    return {level: before.kept(level, scripted=scripted) or assumed_share(themes) for level in LEVELS}


def _wishes(
    specs: Sequence[ItemSpec],
    stages: StageSettings,
    items: dict[str, int],
    pipeline: Pipeline,
    shares: dict[str, Bounds],
) -> list[LevelWish]:
    """All that is to be made; a level may come more than once."""
    there = [spec for spec in specs if spec.environment is not None]
    texts = sum(bool(spec.text) for spec in specs)
    again = _count_assessed(there, stages, pipeline)
    inverted = sum(spec.theme is not None and needs_inversion(spec.theme) for spec in specs)
    way = find_way(pipeline)
    kinds = (
        ("theme", "theme", False, False, len(specs) - texts - len(there)),
        ("theme", "theme", True, False, texts),
        ("theme", "environment", False, False, again),
        ("theme", "inversion", False, False, inverted),
        ("theme", "graph", False, False, len(specs) if way == "graph" and items["scenario"] else 0),
        ("scenario", "scenario", False, False, items["scenario"]),
        ("task", "task", False, False, items["task"]),
        ("trajectory", "trajectory", False, False, items["trajectory"] - items["talk"]),
        ("trajectory", "trajectory", False, True, items["talk"]),
    )
    sure = _sure_share(specs, stages, pipeline)
    reached = {"theme": 1.0}
    for above, level in pairwise(LEVELS):
        low = shares[above].low
        reached[level] = reached[above] * (sure + (1 - sure) * low if above == "theme" else low)
    return [
        LevelWish(
            level,
            Bounds(reached[level] * count, count),
            shares[level],
            assumed(stages, what, text=text, talk=talk, way=way),
        )
        for level, what, text, talk, count in kinds
        if count
    ]


def _find_figures(
    place: tuple[str, str], wish: LevelWish, guess: AssumedUsage, before: History, played: Cast
) -> CallFigures:
    """Of one item. Of the offline provider's calls only number and prompts say something about another model."""
    model = played.names[place[0]]
    past = before.of(*place, model)
    told = past if past and not (past.scripted and model != SCRIPTED) else None
    assumed_calls = guess.calls.times(wish.kept.low if guess.late else 1.0, 1.0)
    return CallFigures(
        model,
        place[1],
        past.count if past else 0,
        past.calls if past and past.calls else assumed_calls,
        past.prompt if past else guess.prompt,
        told.completion if told else guess.completion,
        NOTHING if model == SCRIPTED else told.seconds if told else guess.seconds,
        past.mean_calls if past else None,
    )


def _line(role: str, one: CallFigures) -> EstimateLine:
    """Of one item."""
    tokens = one.calls.by(one.prompt), one.calls.by(one.completion)
    return EstimateLine(role, one.stage, one.model, one.calls, *tokens, one.calls.by(one.seconds), None, one.seen)


def _times(line: EstimateLine, items: Bounds) -> EstimateLine:
    figures = {name: getattr(line, name).by(items) for name in FIGURES}
    return replace(line, **figures)


def _both(line: EstimateLine, more: EstimateLine) -> EstimateLine:
    figures = {name: getattr(line, name) + getattr(more, name) for name in FIGURES}
    return replace(line, **figures)


def _priced(line: EstimateLine, prices: Mapping[str, Price]) -> EstimateLine:
    """In whole calls and tokens, with what they cost."""
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


def _time(lines: Sequence[EstimateLine], rows: Sequence[tuple[str, Bounds, Bounds]], room: BatchRoom) -> Bounds:
    """Seconds at both ends."""

    def at(end: str) -> float:
        begun = [(level, getattr(items, end), getattr(row, end)) for level, items, row in rows]
        return _last(sum(getattr(line.seconds, end) for line in lines), begun, room)

    return Bounds(at("low"), at("high"))


@dataclass(frozen=True)
class BatchRoom:
    """Requests that endpoints take at once, and items that are worked on at once."""

    requests: int
    items: int


def _find_room(settings: BatchSettings, played: Cast) -> BatchRoom:
    lanes = lanes_of(settings)
    requests = sum(endpoint.max_concurrency * lanes for endpoint in _endpoints(played.endpoints)) or 1
    return BatchRoom(requests, settings.at_once * lanes)


def _last(seconds: float, rows: Sequence[Row], room: BatchRoom) -> float:
    """Seconds that a batch lasts, by what holds it up most: the endpoints, its items at once, or one item's calls in a
    row. `seconds` are those of all calls."""
    longest = {level: 0.0 for level, _, _ in rows}
    for level, items, row in rows:
        longest[level] = max(longest[level], row if items >= 1 else 0.0)
    return max(
        seconds / room.requests,
        sum(items * row for _, items, row in rows) / room.items,
        sum(longest.values()),
    )


def _in_row(line: EstimateLine) -> Bounds:
    """Seconds of one item's calls in a stage, with those beside each other counted once."""
    at_once = SIDE_BY_SIDE.get(line.stage, 1)
    return line.seconds.times(1 / max(1.0, min(at_once, line.calls.low)), 1 / max(1.0, min(at_once, line.calls.high)))


def _endpoints(by_role: dict[str, Any]) -> list[Any]:
    return list({endpoint.name: endpoint for endpoint, _ in by_role.values()}.values())


def counted(themes: int, stages: StageSettings, pipeline: Pipeline) -> dict[str, int]:
    """Items by level, were all kept; `talk` counts the conversations among the trajectories."""
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


class _EstimateDone(EnvariumError):
    """The first call, in place of being sent."""

    def __init__(self, call: StageCall) -> None:
        super().__init__("A call would be sent here.")
        self.call = call


class _Catcher(MemoryStore):
    async def find(self, key: str) -> Reply | None:
        return None

    async def begin(self, key: str, call: StageCall, model: str) -> None:
        raise _EstimateDone(call)


@dataclass(frozen=True)
class _Nobody:
    name: str = "nobody"


def sample_prompt(spec: ItemSpec, settings: BatchSettings, pipeline: Pipeline) -> tuple[dict[str, Any] | None, str]:
    """(the first call that an item would make, why there is none). Nothing is sent and nothing is stored."""
    try:
        with trying(settings.prompts):
            asyncio.run(_until_asked(spec, settings, pipeline))
    except _EstimateDone as seen:
        site = seen.call.site
        messages = [{"role": message.role, "content": message.content[:SHOWN]} for message in seen.call.messages]
        return {"item": site.item, "role": site.role, "stage": site.stage, "messages": messages}, ""
    except EnvariumError as error:
        return None, str(error)
    return None, "The first stages ask nobody."


async def _until_asked(spec: ItemSpec, settings: BatchSettings, pipeline: Pipeline) -> None:
    models: Any = {role: _Nobody() for role in settings.models}
    drafts: dict[str, Any] = {}
    with ThreadPoolExecutor(1) as threads:
        asker = Asker(models, _Catcher(), CostMeter())
        kit = Kit(asker, default_sandbox(), spec.key, theme_of(spec.key), threads, settings.stages, settings.seed)
        for stage in pipeline.path("theme", settings.stages, spec):
            drafts[stage.name] = stage.given(spec)
            if drafts[stage.name] is None and stage.run is not None:
                drafts[stage.name] = await stage.run(kit, spec, *(drafts[name] for name in stage.takes))
        for part in pipeline.parts("theme", settings.stages)[:1]:
            below = pipeline.of(part.level)[0]
            assert below.run is not None
            await below.run(kit.at(part.name), part.spec, *(drafts[name] for name in below.takes))

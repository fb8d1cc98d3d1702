"""Estimate of a batch before it starts: calls, tokens, cost, time, and one item's first prompt.

An upper estimate: as if every item were kept. What earlier calls of a stage used is taken from their rows
(`history.py`); where there are none yet, from `assumed`, which is ours.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from synthesis.contracts import Usage
from synthesis.errors import EnvariumError
from synthesis.llm.asker import Asker
from synthesis.llm.calls import StageCall
from synthesis.llm.chat import Reply
from synthesis.llm.cost import CostMeter, Price
from synthesis.llm.store import MemoryStore
from synthesis.runtime import default_sandbox
from synthesis.stages import ItemSpec, Kit, Pipeline, StageSettings
from synthesis.themes.keys import theme_of
from webapp.batches.engine.cast import cast, lanes_of, with_defaults
from webapp.batches.launch.usage_history import AverageUsage, History
from webapp.batches.spec import SCRIPTED, BatchSettings

SIDE_BY_SIDE = {"code_method": 8, "check_function": 8, "solve": 4, "test_call": 3, "check_call": 3}
"""Calls that one item makes at once in a stage, at most; in others each waits for the one before."""
SHOWN = 20_000


@dataclass(frozen=True)
class EstimateLine:
    """What one kind of call would come to. `seen` calls of the past were looked at; `cost` None: a price is unknown."""

    role: str
    stage: str
    model: str
    calls: int
    prompt_tokens: int
    completion_tokens: int
    seconds: float
    cost: float | None
    seen: int


@dataclass(frozen=True)
class Estimate:
    themes: int
    items: dict[str, int]
    lines: list[EstimateLine] = field(default_factory=list)
    seconds: float = 0.0
    sample: dict[str, Any] | None = None
    note: str = ""

    @property
    def calls(self) -> int:
        return sum(line.calls for line in self.lines)

    @property
    def prompt_tokens(self) -> int:
        return sum(line.prompt_tokens for line in self.lines)

    @property
    def completion_tokens(self) -> int:
        return sum(line.completion_tokens for line in self.lines)

    @property
    def unpriced(self) -> list[str]:
        """Models whose price nobody has said."""
        return sorted({line.model for line in self.lines if line.cost is None})

    @property
    def cost(self) -> float | None:
        costs = [line.cost for line in self.lines]
        return None if None in costs else sum(cost for cost in costs if cost is not None)


@dataclass(frozen=True)
class AssumedUsage:
    """Calls an item, tokens and seconds a call."""

    calls: float
    prompt: int = 1_500
    completion: int = 600
    seconds: float = 8.0


def assumed(settings: StageSettings, level: str, *, text: bool, talk: bool) -> dict[tuple[str, str], AssumedUsage]:
    """By role and stage: what one item of a level asks for, where nothing is known of the past. `environment` is one
    that is there and is to be assessed."""
    calls = settings.assessment_calls
    tools = (settings.least_tools + settings.most_tools) / 2
    assessing = {
        ("author", "test_state"): AssumedUsage(settings.test_states, 4_000, 2_500),
        ("tester", "test_call"): AssumedUsage(calls, 4_000, 200),
        ("checker", "check_call"): AssumedUsage(calls, 5_000, 200),
    }
    if level == "environment":
        return assessing
    if level == "theme":
        building = {
            ("author", "plan_state"): AssumedUsage(1),
            ("author", "plan_operations"): AssumedUsage(1),
            ("author", "code_attributes"): AssumedUsage(1, 2_500),
            ("author", "code_method"): AssumedUsage(tools, 3_000),
            ("author", "repair"): AssumedUsage(settings.repairs / 2, 6_000, 1_500),
            ("author", "repair_tool"): AssumedUsage(settings.tool_repairs, 8_000, 800),
            **assessing,
        }
        return (
            {("author", "judge_task"): AssumedUsage(1), ("author", "infer_theme"): AssumedUsage(1), **building}
            if text
            else building
        )
    if level == "scenario":
        return {("author", "initial_state"): AssumedUsage(1, 4_000, 2_500)}
    if level == "task":
        return {
            ("author", "instruction"): AssumedUsage(1, 5_000, 400),
            ("author", "checklist"): AssumedUsage(1, 5_000, 400),
            ("author", "check_function"): AssumedUsage(5, 6_000, 400),
            ("teacher", "solve"): AssumedUsage(settings.solver_runs * 10, 5_000, 300),
            # One task in four has a check that leaves its doubts to a judge: of runs' answers, and of an audit's.
            ("judge", "judge_answer"): AssumedUsage((settings.solver_runs + 12) / 4, 1_500, 100),
        }
    rollout = {
        ("teacher", "rollout"): AssumedUsage(10, 5_000, 300),
        ("judge", "judge_run"): AssumedUsage(1, 5_000, 200),
    }
    return rollout | {("user", "user"): AssumedUsage(6, 1_000, 100)} if talk else rollout


def estimate(specs: Sequence[ItemSpec], settings: BatchSettings, pipeline: Pipeline) -> Estimate:
    """What a batch over these themes would take at most. Raises InputError where its models cannot be used."""
    settings = with_defaults(settings)
    played = cast(settings)
    items = counted(len(specs), settings.stages, pipeline)
    before = History()

    def line(place: tuple[str, str], count: float, guess: AssumedUsage) -> EstimateLine:
        model = played.names[place[0]]
        return _line(place, count, guess, before.of(*place, model), model, played.prices)

    wanted: dict[tuple[str, str], tuple[float, AssumedUsage]] = {}
    rows: list[tuple[str, int, float]] = []
    for level, count, every in _levels(specs, settings.stages, items, pipeline):
        # Where nobody judges, an answer that a check cannot tell stays uncertain.
        asked = {place: guess for place, guess in every.items() if place[0] != "judge" or "judge" in played.names}
        for place, guess in asked.items():
            wanted[place] = wanted.get(place, (0.0, guess))[0] + count, guess
        rows.append((level, count, sum(_in_row(line(place, 1, guess)) for place, guess in asked.items())))
    lines = [line(place, count, guess) for place, (count, guess) in wanted.items()]
    lanes = lanes_of(settings)
    requests = sum(endpoint.max_concurrency * lanes for endpoint in _endpoints(played.endpoints)) or 1
    seconds = max(
        sum(line.seconds for line in lines) / requests,
        sum(count * row for _, count, row in rows) / (settings.at_once * lanes),
        sum(max(row for at, _, row in rows if at == level) for level in {level for level, _, _ in rows}),
    )
    sample, note = sample_prompt(specs[0], settings, pipeline) if specs else (None, "")
    del items["talk"]
    return Estimate(len(specs), items, lines, seconds, sample, note)


def _levels(
    specs: Sequence[ItemSpec], stages: StageSettings, items: dict[str, int], pipeline: Pipeline
) -> list[tuple[str, int, dict[tuple[str, str], AssumedUsage]]]:
    """(level, items, what one of them asks for) of all that is to be made; a level may come more than once."""
    there = [spec for spec in specs if spec.environment is not None]
    texts = sum(bool(spec.text) for spec in specs)
    again = sum(any(stage.name == "assess" for stage in pipeline.path("theme", stages, spec)) for spec in there)
    kinds = (
        ("theme", "theme", False, False, len(specs) - texts - len(there)),
        ("theme", "theme", True, False, texts),
        ("theme", "environment", False, False, again),
        ("scenario", "scenario", False, False, items["scenario"]),
        ("task", "task", False, False, items["task"]),
        ("trajectory", "trajectory", False, False, items["trajectory"] - items["talk"]),
        ("trajectory", "trajectory", False, True, items["talk"]),
    )
    return [
        (level, count, assumed(stages, what, text=text, talk=talk)) for level, what, text, talk, count in kinds if count
    ]


def _in_row(line: EstimateLine) -> float:
    """Seconds of one item's calls in a stage, with those beside each other counted once."""
    return line.seconds / max(1, min(SIDE_BY_SIDE.get(line.stage, 1), line.calls))


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


def _line(
    place: tuple[str, str],
    items: float,
    guess: AssumedUsage,
    seen: AverageUsage | None,
    model: str,
    prices: dict[str, Price],
) -> EstimateLine:
    """Of the offline provider's calls only their number and their prompts say something about another model."""
    told = seen if seen and not (seen.scripted and model != SCRIPTED) else None
    calls = round(items * (seen.each if seen and place[1] not in ("test_call", "check_call") else guess.calls))
    prompt = round(calls * (seen.prompt if seen else guess.prompt))
    completion = round(calls * (told.completion if told else guess.completion))
    seconds = 0.0 if model == SCRIPTED else calls * (told.seconds if told else guess.seconds)
    price = prices.get(model)
    cost = price.of(Usage(prompt_tokens=prompt, completion_tokens=completion)) if price is not None else None
    return EstimateLine(*place, model, calls, prompt, completion, seconds, cost, seen.count if seen else 0)


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

"""What a batch would take, before it is started: calls, tokens, cost, time, and one item's first prompt.

An upper estimate: as if every item were kept. What earlier calls of a stage used is taken from their rows; where there
are none yet, from `ASSUMED`, which is ours.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Avg, Count, Max

from synthesis.contracts import Usage
from synthesis.errors import EnvariumError
from synthesis.llm.asker import Asker
from synthesis.llm.calls import StageCall
from synthesis.llm.chat import Reply
from synthesis.llm.cost import Meter, Price
from synthesis.llm.store import MemoryStore
from synthesis.runtime import default_sandbox
from synthesis.stages import ItemSpec, Kit, Pipeline, StageSettings
from webapp.batches.models import CallState, LLMCall
from webapp.batches.playing import cast, with_defaults
from webapp.batches.spec import SCRIPTED, BatchSettings

LOOKED_BACK = 20_000
"""So many of the newest calls are looked at."""
LEAST_PATHS = 5
"""Items that a stage must have been seen for before its count is believed."""
SHOWN = 20_000


@dataclass(frozen=True)
class Line:
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
    lines: list[Line] = field(default_factory=list)
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
    def cost(self) -> float | None:
        costs = [line.cost for line in self.lines]
        return None if None in costs else sum(cost for cost in costs if cost is not None)


@dataclass(frozen=True)
class Assumed:
    """Calls an item, tokens and seconds a call."""

    calls: float
    prompt: int = 1_500
    completion: int = 600
    seconds: float = 8.0


def assumed(settings: StageSettings, level: str, *, text: bool, talk: bool) -> dict[tuple[str, str], Assumed]:
    """By role and stage: what one item of a level asks for, where nothing is known of the past."""
    calls = settings.assessment_calls
    tools = (settings.least_tools + settings.most_tools) / 2
    if level == "theme":
        found = {
            ("author", "plan_state"): Assumed(1),
            ("author", "plan_operations"): Assumed(1),
            ("author", "code_attributes"): Assumed(1, 2_500),
            ("author", "code_method"): Assumed(tools, 3_000),
            ("author", "repair"): Assumed(settings.repairs / 2, 6_000, 1_500),
            ("author", "test_state"): Assumed(settings.test_states, 4_000, 2_500),
            ("tester", "test_call"): Assumed(calls, 4_000, 200),
            ("checker", "check_call"): Assumed(calls, 3_000, 200),
        }
        return {("author", "judge_task"): Assumed(1), ("author", "infer_theme"): Assumed(1), **found} if text else found
    if level == "scenario":
        return {("author", "initial_state"): Assumed(1, 4_000, 2_500)}
    if level == "task":
        return {
            ("author", "instruction"): Assumed(1, 5_000, 400),
            ("author", "checklist"): Assumed(1, 5_000, 400),
            ("author", "check_function"): Assumed(5, 6_000, 400),
            ("teacher", "solve"): Assumed(settings.solver_runs * 10, 5_000, 300),
        }
    found = {("teacher", "rollout"): Assumed(10, 5_000, 300), ("judge", "judge_run"): Assumed(1, 5_000, 200)}
    return found | {("user", "user"): Assumed(6, 1_000, 100)} if talk else found


@dataclass(frozen=True)
class Past:
    """What calls of one role and stage used, on average; `each` is how many of them one item made."""

    count: int
    each: float
    prompt: float
    completion: float
    seconds: float


def past() -> dict[tuple[str, str], Past]:
    newest = LLMCall.objects.aggregate(newest=Max("pk"))["newest"] or 0
    rows = LLMCall.objects.filter(pk__gt=newest - LOOKED_BACK, state=CallState.DONE).values("role", "stage")
    rows = rows.annotate(
        count=Count("pk"),
        paths=Count("path", distinct=True),
        prompt=Avg("prompt_tokens"),
        completion=Avg("completion_tokens"),
        spent=Avg("seconds"),
    )
    return {
        (row["role"], row["stage"]): Past(
            row["count"], row["count"] / row["paths"], row["prompt"], row["completion"], row["spent"]
        )
        for row in rows.order_by()
        if row["paths"] >= LEAST_PATHS
    }


def estimate(specs: Sequence[ItemSpec], settings: BatchSettings, pipeline: Pipeline) -> Estimate:
    """What a batch over these themes would take at most. Raises InputError where its models cannot be used."""
    settings = with_defaults(settings)
    played = cast(settings)
    stages = settings.stages
    items = counted(len(specs), stages, pipeline)
    wanted: dict[tuple[str, str], tuple[float, Assumed]] = {}
    texts = sum(spec.theme is None for spec in specs)
    for level, text, talk, count in (
        ("theme", False, False, len(specs) - texts),
        ("theme", True, False, texts),
        ("scenario", False, False, items["scenario"]),
        ("task", False, False, items["task"]),
        ("trajectory", False, False, items["trajectory"] - items["talk"]),
        ("trajectory", False, True, items["talk"]),
    ):
        for place, one in assumed(stages, level, text=text, talk=talk).items():
            known = wanted.get(place, (0.0, one))[0]
            wanted[place] = known + count, one
    before = past()
    lines = [
        _line(place, count, one, before.get(place), played.names[place[0]], played.prices)
        for place, (count, one) in wanted.items()
        if count
    ]
    at_once = sum(endpoint.max_concurrency * settings.lanes for endpoint in _endpoints(played.endpoints)) or 1
    seconds = sum(line.seconds for line in lines) / min(at_once, settings.at_once * settings.lanes)
    sample, note = sample_prompt(specs[0], settings, pipeline) if specs else (None, "")
    del items["talk"]
    return Estimate(len(specs), items, lines, seconds, sample, note)


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
    place: tuple[str, str], items: float, one: Assumed, seen: Past | None, model: str, prices: dict[str, Price]
) -> Line:
    each = seen.each if seen and place[1] not in ("test_call", "check_call") else one.calls
    calls = round(items * each)
    prompt = round(calls * (seen.prompt if seen else one.prompt))
    completion = round(calls * (seen.completion if seen else one.completion))
    seconds = 0.0 if model == SCRIPTED else calls * (seen.seconds if seen else one.seconds)
    price = prices.get(model)
    cost = price.of(Usage(prompt_tokens=prompt, completion_tokens=completion)) if price is not None else None
    return Line(*place, model, calls, prompt, completion, seconds, cost, seen.count if seen else 0)


class _Seen(EnvariumError):
    """The first call, in place of being sent."""

    def __init__(self, call: StageCall) -> None:
        super().__init__("A call would be sent here.")
        self.call = call


class _Catcher(MemoryStore):
    async def find(self, key: str) -> Reply | None:
        return None

    async def begin(self, key: str, call: StageCall, model: str) -> None:
        raise _Seen(call)


@dataclass(frozen=True)
class _Nobody:
    name: str = "nobody"


def sample_prompt(spec: ItemSpec, settings: BatchSettings, pipeline: Pipeline) -> tuple[dict[str, Any] | None, str]:
    """(the first call that an item would make, why there is none). Nothing is sent and nothing is stored."""
    try:
        asyncio.run(_until_asked(spec, settings, pipeline))
    except _Seen as seen:
        site = seen.call.site
        said = [{"role": one.role, "content": one.content[:SHOWN]} for one in seen.call.messages]
        return {"item": site.item, "role": site.role, "stage": site.stage, "messages": said}, ""
    except EnvariumError as error:
        return None, str(error)
    return None, "The first stages ask nobody."


async def _until_asked(spec: ItemSpec, settings: BatchSettings, pipeline: Pipeline) -> None:
    models: Any = {role: _Nobody() for role in settings.models}
    drafts: dict[str, Any] = {}
    with ThreadPoolExecutor(1) as threads:
        asker = Asker(models, _Catcher(), Meter())
        kit = Kit(asker, default_sandbox(), spec.key, spec.key, threads, settings.stages, settings.seed)
        for stage in pipeline.of("theme"):
            if stage.run is not None:
                drafts[stage.name] = await stage.run(kit, spec, *(drafts[name] for name in stage.takes))

"""Writes on measures of checkers: a measurement is run, and stored with every verdict that it counts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from synthesis.errors import InputError
from synthesis.formats.values import clean_text
from synthesis.llm.asker import Asker
from synthesis.llm.cost import CostMeter
from synthesis.llm.store import MemoryStore
from synthesis.prompts import get_prompt, map_prompt_hashes
from synthesis.runtime import Sandbox
from synthesis.scripted import ScriptedModel
from synthesis.seeded_faults.faulty_calls import draw_faulty_calls
from synthesis.seeded_faults.measure import measure_checker
from synthesis.stages import Kit
from webapp.endpoints.connections import open_chat_model
from webapp.endpoints.models import Endpoint, LLMRole
from webapp.endpoints.queries import find_default_model, load_prices
from webapp.environments.models import CheckerMeasure

SCRIPTED = "scripted"
THREADS = 4
Tell = Callable[[int, int, str], None]
OpenModel = AbstractAsyncContextManager[Any]


@asynccontextmanager
async def open_scripted_checker() -> AsyncIterator[ScriptedModel]:
    yield ScriptedModel()


def find_checker_model(name: str, model: str = "") -> tuple[str, OpenModel]:
    """Return (the name that calls are counted under, a model to open) of a registered endpoint: the model that is
    named, else the default checker, else the endpoint's only model. Raises InputError."""
    row = Endpoint.objects.filter(name=name).first()
    if row is None:
        known_names = (
            ", ".join(Endpoint.objects.order_by("name").values_list("name", flat=True)) or "none is registered"
        )
        raise InputError(f"There is no endpoint {name[:60]!r} ({known_names}).")
    chosen = find_default_model(LLMRole.CHECKER)
    checker_model = chosen[1] if chosen is not None and chosen[0].pk == row.pk else ""
    model = model or checker_model or (row.model_names[0] if len(row.model_names) == 1 else "")
    if not model:
        raise InputError(f"{name} lists {len(row.model_names)} models. Name one with --model.")
    return f"{row.name}/{model}", open_chat_model(row, model, "checker")


def create_measure(
    sandbox: Sandbox, model: OpenModel, name: str, count: int, seed: int, tell: Tell = lambda done, total, note: None
) -> CheckerMeasure:
    """Measure a checker on `count` seeded faults, and store it. Raises LLMError, SandboxUnavailable and SandboxLost."""
    began = time.monotonic()
    calls = []
    for call in draw_faulty_calls(sandbox, count, seed):
        calls.append(call)
        tell(len(calls), count, "faults are seeded")
    meter = CostMeter(load_prices())

    async def judge_calls() -> Any:
        with ThreadPoolExecutor(THREADS) as threads:
            async with model as checker:
                asker = Asker({"checker": checker}, MemoryStore(), meter)
                return await measure_checker(Kit(asker, sandbox, "checker", "checker", threads, seed=seed), calls)

    result = asyncio.run(judge_calls())
    used = meter.total
    numbers = result.model_dump(mode="json", exclude={"faults", "by_kind"})
    return CheckerMeasure.objects.create(
        model=clean_text(name)[:300],
        scripted=name == SCRIPTED,
        seed=seed,
        by_kind={kind: count.model_dump() for kind, count in result.by_kind.items()},
        faults=[_clean_fault(fault.model_dump(mode="json")) for fault in result.faults],
        prompts=map_prompt_hashes(get_prompt("assessment", "check_call")),
        prompt_tokens=used.usage.prompt_tokens,
        completion_tokens=used.usage.completion_tokens,
        cost=used.cost,
        unpriced=used.unpriced,
        seconds=time.monotonic() - began,
        **numbers,
    )


def _clean_fault(fault: Mapping[str, Any]) -> dict[str, Any]:
    return {key: clean_text(value) if isinstance(value, str) else value for key, value in fault.items()}


def report_measure(row: CheckerMeasure) -> dict[str, Any]:
    """Return the numbers of a measure, as commands print them."""
    names = (
        *("model", "mutants", "found", "warned", "sound", "alarms", "unusable", "precision", "recall", "by_kind"),
        *("prompt_tokens", "completion_tokens", "cost", "unpriced", "seed"),
    )
    return {"measure": row.pk, **{name: getattr(row, name) for name in names}, "seconds": round(row.seconds, 1)}

"""Writes on measures of checkers: one is made, and stored with every verdict it stands on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from synthesis.errors import InputError
from synthesis.formats.values import clean
from synthesis.llm.asker import Asker
from synthesis.llm.cost import CostMeter
from synthesis.llm.store import MemoryStore
from synthesis.prompts import hashes, prompt
from synthesis.runtime import Sandbox
from synthesis.scripted import ScriptedModel
from synthesis.seeded_faults.faulty_calls import faulty_calls
from synthesis.seeded_faults.measure import measure_checker
from synthesis.stages import Kit
from webapp.endpoints.connections import chat_with
from webapp.endpoints.models import Endpoint, LLMRole
from webapp.endpoints.queries import default_of, prices
from webapp.environments.models import CheckerMeasure

SCRIPTED = "scripted"
THREADS = 4
Tell = Callable[[int, int, str], None]
OpenModel = AbstractAsyncContextManager[Any]


@asynccontextmanager
async def scripted_checker() -> AsyncIterator[ScriptedModel]:
    yield ScriptedModel()


def checker_at(name: str, model: str = "") -> tuple[str, OpenModel]:
    """(the name that calls are counted under, a model to open) of a registered endpoint: the model that is named, else
    the one that plays the checker, else the endpoint's only one. Raises InputError."""
    row = Endpoint.objects.filter(name=name).first()
    if row is None:
        known = ", ".join(Endpoint.objects.order_by("name").values_list("name", flat=True)) or "none is registered"
        raise InputError(f"There is no endpoint {name[:60]!r} ({known}).")
    chosen = default_of(LLMRole.CHECKER)
    played = chosen[1] if chosen is not None and chosen[0].pk == row.pk else ""
    model = model or played or (row.model_names[0] if len(row.model_names) == 1 else "")
    if not model:
        raise InputError(f"{name} lists {len(row.model_names)} models. Name one with --model.")
    return f"{row.name}/{model}", chat_with(row, model, "checker")


def measure(
    sandbox: Sandbox, model: OpenModel, name: str, count: int, seed: int, tell: Tell = lambda done, total, note: None
) -> CheckerMeasure:
    """Measure a checker on so many seeded faults, and store it. Raises LLMError, SandboxUnavailable and SandboxLost."""
    began = time.monotonic()
    calls = []
    for call in faulty_calls(sandbox, count, seed):
        calls.append(call)
        tell(len(calls), count, "faults are seeded")
    meter = CostMeter(prices())

    async def judged() -> Any:
        with ThreadPoolExecutor(THREADS) as threads:
            async with model as checker:
                asker = Asker({"checker": checker}, MemoryStore(), meter)
                return await measure_checker(Kit(asker, sandbox, "checker", "checker", threads, seed=seed), calls)

    found = asyncio.run(judged())
    used = meter.total
    numbers = found.model_dump(mode="json", exclude={"faults", "by_kind"})
    return CheckerMeasure.objects.create(
        model=clean(name)[:300],
        scripted=name == SCRIPTED,
        seed=seed,
        by_kind={kind: count.model_dump() for kind, count in found.by_kind.items()},
        faults=[_cleaned(fault.model_dump(mode="json")) for fault in found.faults],
        prompts=hashes(prompt("assessment", "check_call")),
        prompt_tokens=used.usage.prompt_tokens,
        completion_tokens=used.usage.completion_tokens,
        cost=used.cost,
        unpriced=used.unpriced,
        seconds=time.monotonic() - began,
        **numbers,
    )


def _cleaned(fault: Mapping[str, Any]) -> dict[str, Any]:
    return {key: clean(value) if isinstance(value, str) else value for key, value in fault.items()}


def report(row: CheckerMeasure) -> dict[str, Any]:
    """A measure in numbers, as commands print it."""
    names = (
        *("model", "mutants", "found", "warned", "sound", "alarms", "unusable", "precision", "recall", "by_kind"),
        *("prompt_tokens", "completion_tokens", "cost", "unpriced", "seed"),
    )
    return {"measure": row.pk, **{name: getattr(row, name) for name in names}, "seconds": round(row.seconds, 1)}

"""The first prompt of an item, as it would be sent. Nothing is sent and nothing is stored."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from synthesis.errors import EnvariumError
from synthesis.llm.asker import Asker
from synthesis.llm.calls import StageCall
from synthesis.llm.chat import Reply
from synthesis.llm.cost import CostMeter
from synthesis.llm.store import MemoryStore
from synthesis.prompts.trial import use_trial_prompts
from synthesis.runtime import get_default_sandbox
from synthesis.stages import ItemSpec, Kit, Pipeline
from synthesis.themes.keys import get_theme_key
from webapp.batches.spec import BatchSettings

SHOWN = 20_000


class _EstimateDone(EnvariumError):
    """Raised with the first call, in place of sending it."""

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


def find_first_prompt(spec: ItemSpec, settings: BatchSettings, pipeline: Pipeline) -> tuple[dict[str, Any] | None, str]:
    """Return (the first call that an item would make, the reason if there is none). Nothing is sent and nothing is
    stored."""
    try:
        with use_trial_prompts(settings.prompts):
            asyncio.run(_run_until_first_call(spec, settings, pipeline))
    except _EstimateDone as seen:
        site = seen.call.site
        messages = [{"role": message.role, "content": message.content[:SHOWN]} for message in seen.call.messages]
        return {"item": site.item, "role": site.role, "stage": site.stage, "messages": messages}, ""
    except EnvariumError as error:
        return None, str(error)
    return None, "The first stages call no model."


async def _run_until_first_call(spec: ItemSpec, settings: BatchSettings, pipeline: Pipeline) -> None:
    models: Any = {role: _Nobody() for role in settings.models}
    drafts: dict[str, Any] = {}
    with ThreadPoolExecutor(1) as threads:
        asker = Asker(models, _Catcher(), CostMeter())
        kit = Kit(
            asker, get_default_sandbox(), spec.key, get_theme_key(spec.key), threads, settings.stages, settings.seed
        )
        for stage in pipeline.path("theme", settings.stages, spec):
            drafts[stage.name] = stage.given(spec)
            if drafts[stage.name] is None and stage.run is not None:
                drafts[stage.name] = await stage.run(kit, spec, *(drafts[name] for name in stage.takes))
        for part in pipeline.parts("theme", settings.stages)[:1]:
            below = pipeline.of(part.level)[0]
            assert below.run is not None
            await below.run(kit.at(part.name), part.spec, *(drafts[name] for name in below.takes))

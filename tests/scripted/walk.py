"""The pipeline over one bundled theme in one process, and what it left behind."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from synthesis.errors import LLMError, Rejected
from synthesis.llm.asker import Asker
from synthesis.llm.calls import Site, StageCall
from synthesis.llm.store import MemoryStore
from synthesis.pipeline import ENVSCALER
from synthesis.runtime import Sandbox
from synthesis.scripted import ItemEnding, ScriptedModel, list_bundled_themes
from synthesis.stages import ItemSpec, Kit, Level, Pipeline, StageSettings

ROLES = ("author", "tester", "checker", "teacher", "user", "judge")
BELOW: dict[str, Level] = {"theme": "scenario", "scenario": "task", "task": "trajectory"}


@dataclass
class Places(MemoryStore):
    """A store that also knows where its calls were made."""

    places: Counter[Site] = field(default_factory=Counter)

    async def begin(self, key: str, call: StageCall, model: str) -> None:
        await super().begin(key, call, model)
        self.places[call.site] += 1


@dataclass
class Walk:
    """Implements `synthesis.scripted.Traces`."""

    store: Places = field(default_factory=Places)
    ends: dict[str, ItemEnding] = field(default_factory=dict)
    drafts: dict[tuple[str, str], Any] = field(default_factory=dict)

    def calls(self, role: str, stage: str, item: str, sample: int) -> int:
        site = Site(role=role, stage=stage, item=item, theme=item.partition("/")[0], sample=sample)
        return self.store.places[site]

    def ending(self, item: str) -> ItemEnding | None:
        return self.ends.get(item)

    def output(self, item: str, stage: str) -> Mapping[str, Any] | None:
        draft = self.drafts.get((item, stage))
        return None if draft is None else draft.model_dump(mode="json")

    def of(self, stage: str) -> dict[str, Any]:
        """What a stage gave, by item."""
        return {item: draft for (item, name), draft in self.drafts.items() if name == stage}


@contextmanager
def kit_of(
    sandbox: Sandbox,
    theme: str,
    store: MemoryStore | None = None,
    seed: int = 0,
    settings: StageSettings | None = None,
) -> Iterator[Kit]:
    with ThreadPoolExecutor(4) as threads:
        asker = Asker(dict.fromkeys(ROLES, ScriptedModel()), store or MemoryStore())
        yield Kit(asker, sandbox, theme, theme, threads, settings or StageSettings(), seed)


async def walk(
    sandbox: Sandbox,
    theme: str,
    walked: Walk | None = None,
    seed: int = 0,
    settings: StageSettings | None = None,
    pipeline: Pipeline = ENVSCALER,
) -> Walk:
    """Every stage of every item of a theme."""
    walked = walked or Walk()
    spec = ItemSpec(theme=next(one for one in list_bundled_themes() if one.key == theme))
    with kit_of(sandbox, theme, walked.store, seed, settings) as kit:
        await _item(walked, kit, pipeline, "theme", spec, {})
    return walked


async def _item(
    walked: Walk, kit: Kit, pipeline: Pipeline, level: Level, spec: ItemSpec, above: dict[str, Any]
) -> None:
    drafts, name = dict(above), ""
    for stage in pipeline.of(level):
        name = stage.name
        if stage.run is None:
            continue
        try:
            made = await stage.run(kit, spec, *[drafts[taken] for taken in stage.takes])
        except Rejected as error:
            walked.ends[kit.path] = ItemEnding(stage=name, state="rejected", reason=error.reason)
            return
        except LLMError as error:
            walked.ends[kit.path] = ItemEnding(stage=name, state="failed", reason=error.reason)
            return
        drafts[name] = walked.drafts[kit.path, name] = made
        drafts |= stage.amendment(made)
    walked.ends[kit.path] = ItemEnding(stage=name, state="kept")
    made_of = pipeline.barren_parts if pipeline.barren(level, drafts) else pipeline.parts
    parts = made_of(level, kit.settings)
    await asyncio.gather(
        *(_item(walked, kit.at(part.name), pipeline, BELOW[level], part.spec, drafts) for part in parts)
    )

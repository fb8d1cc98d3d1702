"""Grouping at a barrier: the judge is asked in the name of each item, and what that used is counted with it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from django.db import transaction

from synthesis import prompts
from synthesis.drafts import StageUsage
from synthesis.errors import LLMError
from synthesis.prompts.trial import trying
from synthesis.stages import Barrier, Kit
from webapp.batches.engine import barriers
from webapp.batches.engine.barriers import StandingItems
from webapp.batches.engine.call_store import ItemStore
from webapp.batches.engine.item import EndpointAway, LaneContext, kit_of
from webapp.batches.engine.stage_runs import EndedStage, note_barrier_used
from webapp.batches.models import StageState


async def pass_due_barrier(shared: LaneContext) -> bool:
    """Whether a barrier was due and was passed. Raises BatchStopped, SpendCapReached and EndpointAway, with what was
    asked by then counted: it is found stored at the next look."""
    job = shared.claim.row
    standing = await shared.write(barriers.look, shared.batch, job, shared.pipeline)
    if standing is None:
        return False
    assert standing.stage.group is not None
    asked = AskedOfItems(shared, standing)
    barrier = Barrier(shared.settings.stages, asked.kit, standing.apart)
    try:
        with prompts.noting() as asked.prompts, trying(shared.settings.prompts):
            found = await standing.stage.group(barrier, standing.drafts)
        used = asked.used()
    except BaseException as error:
        for store in asked.stores.values():
            await store.give_up(standing.stage.name)
        await shared.write(_count_broken_off, shared.batch, asked.used())
        if isinstance(error, LLMError) and error.away:
            raise EndpointAway(error.away, str(error)) from error
        raise
    settings = shared.settings.stages
    return await shared.write(barriers.pass_barrier, shared.batch, shared.pipeline, settings, standing, found, used)


def _count_broken_off(batch: int, used: dict[int, EndedStage]) -> None:
    with transaction.atomic():
        note_barrier_used(batch, used)


@dataclass
class AskedOfItems:
    """The kits of items at a barrier, made when one is asked for, and what each of them used."""

    shared: LaneContext
    standing: StandingItems
    kits: dict[int, Kit] = field(default_factory=dict)
    stores: dict[int, ItemStore] = field(default_factory=dict)
    prompts: dict[str, str] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic)

    def kit(self, index: int) -> Kit:
        if index not in self.kits:
            item = self.standing.items[index]
            self.stores[index] = ItemStore(self.shared.writer, item.pk, self.shared.check_stop)
            self.kits[index] = kit_of(self.shared, item, self.stores[index])
            self.shared.spent[item.path] = StageUsage()
        return self.kits[index]

    def used(self) -> dict[int, EndedStage]:
        """By item, as a stage that is kept; the time is shared among them. Taken once."""
        share = (time.monotonic() - self.began) / max(1, len(self.kits))
        runs: dict[int, EndedStage] = {}
        for index, kit in self.kits.items():
            item = self.standing.items[index]
            spent = self.shared.spent.pop(item.path, StageUsage())
            noted: dict[str, Any] = {"roles": sorted(kit.noted.roles), "prompts": self.prompts, "seeds": {}}
            runs[item.pk] = EndedStage(
                stage=self.standing.stage.name,
                state=StageState.KEPT,
                calls=self.stores[index].used,
                seconds=share,
                usage=spent.usage,
                replayed=spent.replayed,
                cost=spent.cost,
                unpriced=spent.unpriced,
                used=noted,
            )
        self.kits.clear()
        return runs

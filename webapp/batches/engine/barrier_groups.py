"""Grouping at a barrier: judge calls are made in the name of each item, and their usage is counted with it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from django.db import transaction

from synthesis import prompts
from synthesis.drafts import StageUsage
from synthesis.errors import LLMError
from synthesis.prompts.trial import use_trial_prompts
from synthesis.stages import Barrier, Kit
from webapp.batches.engine import barriers
from webapp.batches.engine.barriers import StandingItems
from webapp.batches.engine.call_store import ItemStore
from webapp.batches.engine.item import build_kit
from webapp.batches.engine.lane_context import EndpointAway, LaneContext
from webapp.batches.engine.stage_runs import EndedStage, count_barrier_usage
from webapp.batches.models import StageState


async def pass_due_barrier(shared: LaneContext) -> bool:
    """Pass the barrier that is due, if any; return whether there was one.

    Raises BatchStopped, SpendCapReached and EndpointAway, with the usage so far counted: the replies are found stored
    at the next look.
    """
    job = shared.claim.row
    standing = await shared.write(barriers.find_standing_items, shared.batch, job, shared.pipeline)
    if standing is None:
        return False
    assert standing.stage.group is not None
    asked_items = AskedOfItems(shared, standing)
    barrier = Barrier(shared.settings.stages, asked_items.kit, standing.apart)
    try:
        with prompts.record_prompts() as asked_items.prompts, use_trial_prompts(shared.settings.prompts):
            groups = await standing.stage.group(barrier, standing.drafts)
        used = asked_items.take_usage()
    except BaseException as error:
        for store in asked_items.stores.values():
            await store.give_up(standing.stage.name)
        await shared.write(_count_interrupted_grouping, shared.batch, asked_items.take_usage())
        if isinstance(error, LLMError) and error.away:
            raise EndpointAway(error.away, str(error)) from error
        raise
    settings = shared.settings.stages
    return await shared.write(barriers.pass_barrier, shared.batch, shared.pipeline, settings, standing, groups, used)


def _count_interrupted_grouping(batch: int, used: dict[int, EndedStage]) -> None:
    with transaction.atomic():
        count_barrier_usage(batch, used)


@dataclass
class AskedOfItems:
    """The kits of items at a barrier, made on first use, and the usage of each item."""

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
            self.kits[index] = build_kit(self.shared, item, self.stores[index])
            self.shared.spent[item.path] = StageUsage()
        return self.kits[index]

    def take_usage(self) -> dict[int, EndedStage]:
        """Return the usage by item, as a kept stage; the time is shared among the items. Can be taken once."""
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

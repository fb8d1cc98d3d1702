"""Context that all items of a lane share, and the errors that interrupt them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from django.db import connection

from synthesis.drafts import StageUsage
from synthesis.errors import EnvariumError
from synthesis.llm.calls import Site
from synthesis.llm.cost import CostMeter
from synthesis.llm.turn_gate import TurnGate
from synthesis.runtime import Sandbox
from synthesis.stages import Pipeline, make_audit_gate
from webapp.batches.engine.call_store import CallWriter
from webapp.batches.engine.cast import Models
from webapp.batches.engine.item_state import StageEnding
from webapp.batches.engine.write_batcher import WriteBatcher
from webapp.batches.spec import BatchSettings
from webapp.jobs.claims import JobClaim

T = TypeVar("T")


class BatchStopped(EnvariumError):
    """The batch stops: interrupted stages of items begin again later, from stored replies."""


class EndpointAway(EnvariumError):
    """An endpoint cannot be reached: the batch waits for it, and no item ends because of it. `endpoint` is its name."""

    def __init__(self, endpoint: str, message: str) -> None:
        super().__init__(message)
        self.endpoint = endpoint


@dataclass
class LaneContext:
    """Context shared by all items of a lane. `spent` collects by path the usage of the stage that runs there."""

    batch: int
    claim: JobClaim
    pipeline: Pipeline
    settings: BatchSettings
    sandbox: Sandbox
    models: Models
    names: dict[str, str]
    writer: CallWriter
    meter: CostMeter
    threads: Executor
    """For stages: the sandbox."""
    database: Executor
    savers: Executor
    """For what kept items become: sandbox and database."""
    endings: WriteBatcher[StageEnding]
    stop: asyncio.Event
    audits: TurnGate = field(default_factory=make_audit_gate)
    spent: dict[str, StageUsage] = field(default_factory=dict)
    told: Callable[[], None] = lambda: None

    async def write(self, work: Callable[..., T], *given: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self.database, run_and_release, work, *given)

    def check_stop(self) -> None:
        if self.stop.is_set():
            raise BatchStopped("The batch was asked to pause.")

    def watch(self, site: Site, spent: StageUsage) -> None:
        """Add a counted call to the nearest item at or above its place."""
        path = site.item
        while path not in self.spent and "/" in path:
            path = path.rpartition("/")[0]
        if path in self.spent:
            self.spent[path] = self.spent[path] + spent

    @property
    def barriers(self) -> tuple[str, ...]:
        return tuple(stage.name for stage in self.pipeline.stages if stage.group is not None)


def run_and_release(work: Callable[..., T], *given: Any) -> T:
    """Call `work` in a thread and give its database connection back to the pool afterwards."""
    try:
        return work(*given)
    finally:
        connection.close()

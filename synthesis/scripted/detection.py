"""Whether the pipeline caught what was planted, told by what a run left behind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from synthesis.contracts import Frozen
from synthesis.scripted.planted import PlantedFault


class ItemEnding(Frozen):
    """Where an item stands: its last stage, whether that kept, rejected or failed it, and the reason as a slug."""

    stage: str
    state: str
    reason: str = ""


class Traces(Protocol):
    """What a run left behind, whoever keeps it."""

    def calls(self, role: str, stage: str, item: str, sample: int) -> int:
        """How many replies were asked for at this place."""
        ...

    def ending(self, item: str) -> ItemEnding | None:
        """How an item ended; None where it was never begun."""
        ...

    def output(self, item: str, stage: str) -> Mapping[str, Any] | None:
        """What a stage of the pipeline gave for an item, as JSON; None where it gave nothing."""
        ...


def caught(fault: PlantedFault, traces: Traces) -> bool:
    """Whether a planted fault was noticed by the stage that must notice it, and came to what it must come to."""
    if fault.outcome in ("rejected", "failed", "left_out"):
        end = traces.ending(fault.path)
        wanted = "failed" if fault.outcome == "failed" else "rejected"
        return end is not None and (end.stage, end.state, end.reason) == (fault.caught_by, wanted, fault.reason)
    given = traces.output(fault.path, fault.caught_by)
    if given is None:
        return False
    if fault.outcome == "asked_again":
        return traces.calls(fault.role, fault.stage, fault.path, fault.sample or 0) > 1
    if fault.outcome == "repaired":
        return int(given.get("repairs", 0)) > 0
    if fault.outcome == "tool_mended":
        mended = [repair for repair in given.get("repairs", ()) if repair["tool"] == fault.tool]
        return any(repair["before"]["failed"] and repair["outcome"] != "broken" for repair in mended)
    if fault.outcome == "left_to_people":
        return any(rate["warned"] and not rate["failed"] for rate in given["rates"] if rate["tool"] == fault.tool)
    return given.get("reference") is None


def seen(fault: PlantedFault, traces: Traces) -> bool:
    """Whether the run came to where the fault is planted at all: a batch may leave its theme out."""
    return traces.calls(fault.role, fault.stage, fault.path, fault.sample or 0) > 0

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
    """Whether a planted fault was noticed by the stage that must notice it, and came to what it must come to.

    In a batch that repairs nothing, what would be repaired is left out, and a tool that would be mended fails calls.
    """
    given = traces.output(fault.caught_path, fault.caught_by)
    if given is None or fault.outcome in ("rejected", "failed", "left_out"):
        return _is_ended(fault, traces)
    if fault.outcome == "asked_again":
        return traces.calls(fault.role, fault.stage, fault.path, fault.sample or 0) > 1
    if fault.outcome == "repaired":
        return int(given.get("repairs", 0)) > 0
    if fault.outcome == "tool_mended":
        return _is_mended(fault, given)
    if fault.outcome == "dropped":
        return any(merge["reason"] == "duplicate" for merge in given["dropped"])
    if fault.outcome == "left_to_people":
        return any(rate["warned"] and not rate["failed"] for rate in given["rates"] if rate["tool"] == fault.tool)
    return given.get("reference") is None


def _is_ended(fault: PlantedFault, traces: Traces) -> bool:
    """Whether the item ended in the stage that must notice the fault, as it must."""
    end = traces.ending(fault.caught_path)
    if end is None or end.stage != fault.caught_by:
        return False
    if fault.outcome in ("repaired", "tool_mended"):
        return end.state == "rejected"
    wanted = "failed" if fault.outcome == "failed" else "rejected"
    ends = fault.outcome in ("rejected", "failed", "left_out")
    return ends and (end.state, end.reason) == (wanted, fault.reason)


def _is_mended(fault: PlantedFault, given: Mapping[str, Any]) -> bool:
    """Whether the tool was mended; if nothing was, whether its calls failed."""
    repairs = given.get("repairs", ())
    if not repairs:
        return any(rate["failed"] for rate in given["rates"] if rate["tool"] == fault.tool)
    mended = [repair for repair in repairs if repair["tool"] == fault.tool]
    return any(repair["before"]["failed"] and repair["outcome"] != "broken" for repair in mended)


def seen(fault: PlantedFault, traces: Traces) -> bool:
    """Whether the run came to where the fault is planted at all: a batch may leave its theme out."""
    return traces.calls(fault.role, fault.stage, fault.path, fault.sample or 0) > 0

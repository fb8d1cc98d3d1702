"""Detection of planted faults by the pipeline, decided from the traces of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from synthesis.contracts import Frozen
from synthesis.scripted.planted import PlantedFault


class ItemEnding(Frozen):
    """Last state of an item: its last stage, whether that kept, rejected or failed it, and the reason as a slug."""

    stage: str
    state: str
    reason: str = ""


class Traces(Protocol):
    """Traces of a run, for any store of them."""

    def calls(self, role: str, stage: str, item: str, sample: int) -> int:
        """Return the number of replies requested at this place."""
        ...

    def ending(self, item: str) -> ItemEnding | None:
        """Return the end of an item; None if it was never begun."""
        ...

    def output(self, item: str, stage: str) -> Mapping[str, Any] | None:
        """Return the output of a stage of the pipeline for an item, as JSON; None if there is none."""
        ...


def is_caught(fault: PlantedFault, traces: Traces) -> bool:
    """Return whether a planted fault was noticed by the required stage, with the required outcome.

    In a batch without repairs, an item to be repaired is rejected, and a tool to be mended fails calls.
    """
    stage_output = traces.output(fault.caught_path, fault.caught_by)
    if stage_output is None or fault.outcome in ("rejected", "failed", "left_out"):
        return _is_ended(fault, traces)
    if fault.outcome == "asked_again":
        return traces.calls(fault.role, fault.stage, fault.path, fault.sample or 0) > 1
    if fault.outcome == "repaired":
        return int(stage_output.get("repairs", 0)) > 0
    if fault.outcome == "tool_mended":
        return _is_mended(fault, stage_output)
    if fault.outcome == "dropped":
        return any(merge["reason"] == "duplicate" for merge in stage_output["dropped"])
    if fault.outcome == "left_to_people":
        return any(
            rate["warned"] and not rate["failed"] for rate in stage_output["rates"] if rate["tool"] == fault.tool
        )
    return stage_output.get("reference") is None


def _is_ended(fault: PlantedFault, traces: Traces) -> bool:
    """Return whether the item ended in the stage that must notice the fault, with the required outcome."""
    end = traces.ending(fault.caught_path)
    if end is None or end.stage != fault.caught_by:
        return False
    if fault.outcome in ("repaired", "tool_mended"):
        return end.state == "rejected"
    required_state = "failed" if fault.outcome == "failed" else "rejected"
    ends = fault.outcome in ("rejected", "failed", "left_out")
    return ends and (end.state, end.reason) == (required_state, fault.reason)


def _is_mended(fault: PlantedFault, given: Mapping[str, Any]) -> bool:
    """Return whether the tool was mended; without any repairs, whether its calls failed."""
    repairs = given.get("repairs", ())
    if not repairs:
        return any(rate["failed"] for rate in given["rates"] if rate["tool"] == fault.tool)
    mended = [repair for repair in repairs if repair["tool"] == fault.tool]
    return any(repair["before"]["failed"] and repair["outcome"] != "broken" for repair in mended)


def is_reached(fault: PlantedFault, traces: Traces) -> bool:
    """Return whether the run reached the planted fault at all: a batch may omit its theme."""
    return traces.calls(fault.role, fault.stage, fault.path, fault.sample or 0) > 0

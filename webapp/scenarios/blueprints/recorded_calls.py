"""Results and changes of a blueprint's calls, from its reference as it is executed for every page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from synthesis.contracts import Blueprint
from webapp.scenarios.models import TaskReference, TaskRevision
from webapp.scenarios.reference_steps import ReferenceStep, execute_stored_reference
from webapp.scenarios.references import find_reference

NONE = "No reference is stored for this revision, so nothing can be said of what the calls returned."
CHANGED = (
    "The reference is no longer the calls of this blueprint: another one took its place. What its own calls returned "
    "stands with it."
)


@dataclass(frozen=True)
class RecordedCalls:
    """The executed steps by node, and why they are missing or incomplete (`missing`)."""

    steps: Mapping[str, ReferenceStep] = field(default_factory=dict)
    missing: str = ""


def read_recorded_calls(revision: TaskRevision, blueprint: Blueprint) -> RecordedCalls:
    """Return the steps of the revision's reference, if they are still the calls of the blueprint."""
    reference = find_reference(revision)
    if reference is None:
        return RecordedCalls(missing=NONE)
    if not _has_calls(reference, blueprint):
        return RecordedCalls(missing=CHANGED)
    scenario = revision.scenario
    executed = execute_stored_reference(scenario.version_id, scenario.initial_id, reference.pk)
    calls = [node.id for node in blueprint.nodes if node.kind == "tool"]
    missing = f"The reference cannot be carried out to its end: {executed.lost}" if executed.lost else ""
    return RecordedCalls(dict(zip(calls, executed.steps, strict=False)), missing)


def _has_calls(reference: TaskReference, blueprint: Blueprint) -> bool:
    blueprint_calls = [(node.tool, node.call_arguments) for node in blueprint.nodes if node.kind == "tool"]
    return blueprint_calls == [(call["tool"], call["arguments"]) for call in reference.calls]

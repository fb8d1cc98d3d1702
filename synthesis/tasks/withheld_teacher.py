"""A teacher attempts a task that withholds what it needs (ES 5.5): what earns is to submit that a tool is missing."""

from __future__ import annotations

from dataclasses import replace

from synthesis.contracts import Attempt, Reference
from synthesis.drafts import ScenarioDraft, TaskDraft
from synthesis.errors import InputError, ProgramError, Rejected
from synthesis.formats.records import EnvironmentRecord
from synthesis.runtime import Sandbox, offered
from synthesis.stages import Kit
from synthesis.tasks.task_context import World, world_of
from synthesis.tasks.teacher import attempted
from synthesis.tasks.withheld import Unsuitable, WithheldVariant, withheld_variants
from synthesis.verifiers.audit import audit_task
from synthesis.verifiers.call_sequences import AT_ONCE, Subject

NOTHING_TO_WITHHOLD = "nothing_to_withhold"
"""Why there is no attempt: nothing that the task needs can be taken away so that it is clear what is right."""
TOLD = 3
"""So many reasons are told."""


def first_variant(sandbox: Sandbox, subject: Subject) -> WithheldVariant | list[Unsuitable]:
    """The first variant that can be made of a task; where there is none, why. The same task gives the same one.

    Raises ProgramError and InfrastructureError."""
    refused: list[Unsuitable] = []
    for found in withheld_variants(sandbox, subject):
        if isinstance(found, WithheldVariant):
            return found
        refused.append(found)
    return refused


async def teach_withheld(
    kit: Kit, record: EnvironmentRecord, scenario: ScenarioDraft, task: TaskDraft, ordinal: int
) -> Attempt:
    """One attempt by the teacher at the task's variant, whose audit must be green as any task's.

    Raises Rejected (`nothing_to_withhold`, `red_audit`, `state_invalid`) and what `teach` raises.
    """
    world = await world_of(kit, record, scenario)
    found = await kit.run(first_variant, kit.sandbox, world.subject(task, task.reference))
    if isinstance(found, list):
        reasons = "; ".join(f"{one.name}: {one.reason}" if one.name else one.reason for one in found[:TOLD])
        raise Rejected(NOTHING_TO_WITHHOLD, f"Nothing of this task can be withheld: {reasons or 'it needs no tool'}.")
    narrow = replace(world, program=offered(world.program, found.withheld))
    variant = _draft(task, found)
    await _require_green(kit, narrow, variant, found)
    return await attempted(kit, narrow, variant, conversational=False, ordinal=ordinal)


def _draft(task: TaskDraft, found: WithheldVariant) -> TaskDraft:
    asked = {"answer_form": found.answer_form, "expected_answer": found.expected_answer, "checks": found.checks}
    return task.model_copy(update={**asked, "rule": "goals", "frame": found.frame, "reference": found.reference})


async def _require_green(kit: Kit, world: World, task: TaskDraft, found: WithheldVariant) -> None:
    reference: Reference = found.reference
    subject = world.subject(task, reference).model_copy(update={"withheld": found.withheld})
    try:
        report = await kit.run(audit_task, kit.sandbox, subject, kit.check_stop, AT_ONCE)
    except (InputError, ProgramError) as error:
        raise Rejected("cannot_be_audited", f"The variant cannot be audited: {error}") from error
    if report.state != "green":
        told = "; ".join(fault.message for fault in report.faults[:TOLD])
        raise Rejected("red_audit", f"Without {found.withheld.name} the audit is {report.state}: {told}"[:2_000])

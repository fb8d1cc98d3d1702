"""Attempts of a teacher at a task with a withheld part (ES 5.5): it earns by submitting that a tool is missing."""

from __future__ import annotations

from dataclasses import replace

from synthesis.contracts import Attempt, Reference
from synthesis.drafts import ScenarioDraft, TaskDraft
from synthesis.errors import InputError, ProgramError, Rejected
from synthesis.formats.records import EnvironmentRecord
from synthesis.runtime import Sandbox, restrict_program
from synthesis.stages import Kit
from synthesis.tasks.task_context import World, build_world
from synthesis.tasks.teacher import attempt_in_world
from synthesis.tasks.withheld import Unsuitable, WithheldVariant, iter_withheld_variants
from synthesis.verifiers.audit import audit_task
from synthesis.verifiers.call_sequences import AT_ONCE, Subject

NOTHING_TO_WITHHOLD = "nothing_to_withhold"
"""Why there is no attempt: nothing that the task needs can be taken away so that it is clear what is right."""
TOLD = 3
"""Most reasons that are reported."""


def find_first_variant(sandbox: Sandbox, subject: Subject) -> WithheldVariant | list[Unsuitable]:
    """Return the first variant that can be made of a task, else the reasons against each; deterministic.

    Raise ProgramError and InfrastructureError.
    """
    refused: list[Unsuitable] = []
    for variant in iter_withheld_variants(sandbox, subject):
        if isinstance(variant, WithheldVariant):
            return variant
        refused.append(variant)
    return refused


async def attempt_withheld_task(
    kit: Kit, record: EnvironmentRecord, scenario: ScenarioDraft, task: TaskDraft, ordinal: int
) -> Attempt:
    """Make one attempt by the teacher at the task's variant, whose audit must be green as any task's.

    Raise Rejected (`nothing_to_withhold`, `red_audit`, `state_invalid`) and the errors of `attempt_task`.
    """
    world = await build_world(kit, record, scenario)
    outcome = await kit.run(find_first_variant, kit.sandbox, world.subject(task, task.reference))
    if isinstance(outcome, list):
        reasons = "; ".join(f"{one.name}: {one.reason}" if one.name else one.reason for one in outcome[:TOLD])
        raise Rejected(NOTHING_TO_WITHHOLD, f"Nothing of this task can be withheld: {reasons or 'it needs no tool'}.")
    narrow = replace(world, program=restrict_program(world.program, outcome.withheld))
    variant = _build_draft(task, outcome)
    await _require_green_audit(kit, narrow, variant, outcome)
    return await attempt_in_world(kit, narrow, variant, conversational=False, ordinal=ordinal)


def _build_draft(task: TaskDraft, found: WithheldVariant) -> TaskDraft:
    answer_parts = {"answer_form": found.answer_form, "expected_answer": found.expected_answer, "checks": found.checks}
    return task.model_copy(update={**answer_parts, "rule": "goals", "frame": found.frame, "reference": found.reference})


async def _require_green_audit(kit: Kit, world: World, task: TaskDraft, found: WithheldVariant) -> None:
    reference: Reference = found.reference
    subject = world.subject(task, reference).model_copy(update={"withheld": found.withheld})
    try:
        ahead = len(reference.calls) + 1
        report = await kit.run_audit(ahead, audit_task, kit.sandbox, subject, kit.check_stop, AT_ONCE)
    except (InputError, ProgramError) as error:
        raise Rejected("cannot_be_audited", f"The variant cannot be audited: {error}") from error
    if report.state != "green":
        fault_texts = "; ".join(fault.message for fault in report.faults[:TOLD])
        raise Rejected("red_audit", f"Without {found.withheld.name} the audit is {report.state}: {fault_texts}"[:2_000])

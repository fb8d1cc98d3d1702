"""Prompt for the repair of a task's verifier: conditions, form and frame, a known way, and the faults."""

from __future__ import annotations

from collections.abc import Sequence

from synthesis.contracts import Attempt, ReferenceCall
from synthesis.drafts import TaskDraft
from synthesis.formats.answer_form import drop_field_checks
from synthesis.prompts import fence_text, get_prompt
from synthesis.scenarios import prompt_text
from synthesis.tasks.author_form import describe_form
from synthesis.tasks.checklist import MOST
from synthesis.tasks.known_ways import describe_call
from synthesis.tasks.reference_search import is_unsolved_note, list_executed_calls
from synthesis.tasks.task_context import World
from synthesis.verifiers.audit_report import NOTES, Fault, TaskAudit
from synthesis.verifiers.frame_words import format_allowed_values

TOLD = 20
"""Most faults that are reported to the author, and kept with a rejection."""
VALUES_TOLD = 4
FAULT_CHARS = 1_600
"""A fault names what was changed and what it was before, each in `SIDE_CHARS` at most."""
MET_WITHOUT = ("mutant_passes", "unneeded_call")
"""Faults of which either a condition or the known way is to blame."""


def build_repair_prompt(world: World, task: TaskDraft, report: TaskAudit) -> str:
    """Return the prompt for the author of a task whose audit has faults, or that is unsolved."""
    own_checks = drop_field_checks(task.checks, task.answer_form, task.expected_answer)
    way_prompt = "way_known" if task.reference is not None else "way_tried"
    return get_prompt("tasks", "repair").render(
        about=prompt_text.format_about(world.record),
        tools=prompt_text.format_tools(world.record),
        state=world.start_text,
        task=fence_text("task", task.instruction),
        frame=fence_text("frame", _describe_frame(task)),
        checks=fence_text(
            "checks", "\n\n".join(f"# {condition.label}\n{condition.source}" for condition in own_checks)
        ),
        form=fence_text("form", describe_form(task.answer_form, task.expected_answer)),
        way=get_prompt("tasks", way_prompt).render(),
        reference=fence_text("reference", _describe_way(task)),
        faults=fence_text("faults", "\n".join(f"- {line}" for line in _list_fault_lines(task, report))),
        whose=_build_advice(report),
        guards=get_prompt("tasks", f"guards_{task.rule}").render(),
        most=str(MOST),
    )


def list_serious_faults(report: TaskAudit) -> list[Fault]:
    """Return the faults that are more than a note, limited to the number shown."""
    return [fault for fault in report.faults if fault.kind not in NOTES][:TOLD]


def _list_fault_lines(task: TaskDraft, report: TaskAudit) -> list[str]:
    """Return the faults in words; for an unsolved task use the note of the reference search."""
    unsolved = [note for note in task.notes if is_unsolved_note(note)]
    fault_messages = [
        fault.message for fault in list_serious_faults(report) if fault.kind != "no_reference" or not unsolved
    ]
    return [line[:FAULT_CHARS] for line in (*unsolved, *fault_messages)]


def _build_advice(report: TaskAudit) -> str:
    """Return the prompt's part on faults that have more than one cause."""
    kinds = {fault.kind for fault in report.faults}
    parts = ["repair_passes"] * bool(kinds & set(MET_WITHOUT)) + ["repair_unsolved"] * ("no_reference" in kinds)
    return "\n\n".join(get_prompt("tasks", name).render() for name in parts)


def _describe_frame(task: TaskDraft) -> str:
    """Return the allowed changes, line by line, with a mark on those that the author declared."""
    if task.frame is None:
        return "there is none yet"
    declared = {item.path for item in task.free}
    lines = []
    for item in task.frame.allowances:
        notes = [f"at most {item.most}"] * bool(item.most) + ["in FREE"] * (item.path in declared)
        notes += [f"to {words}" for words in [" or ".join(format_allowed_values(item)[:VALUES_TOLD])] if words]
        lines.append(f"{item.path} ({', '.join(notes)})" if notes else item.path)
    return prompt_text.cut_text("\n".join(lines) or "nothing", prompt_text.ABOUT_CHARS)


def _describe_way(task: TaskDraft) -> str:
    """Return the calls of the reference, numbered, and its answer; without a reference those of the best run."""
    if task.reference is not None:
        return _format_numbered_calls(task.reference.calls, task.reference.answer)
    tries = [run.attempt for run in task.runs if run.attempt is not None and run.attempt.reward is not None]
    if not tries:
        return "there is none"
    best = max(tries, key=_get_reward)
    return _format_numbered_calls(list_executed_calls(best), best.answer)


def _get_reward(attempt: Attempt) -> float:
    return attempt.reward.reward if attempt.reward is not None else 0.0


def _format_numbered_calls(calls: Sequence[ReferenceCall], answer: str) -> str:
    listed = [f"{number}. {describe_call(call)}" for number, call in enumerate(calls, 1)]
    return prompt_text.cut_text("\n".join([*listed, f"Answer: {answer or 'none'}"]), prompt_text.ABOUT_CHARS)

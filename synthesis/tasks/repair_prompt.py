"""What an author is told who repairs how a task is judged: conditions, form and frame, a known way, and the faults."""

from __future__ import annotations

from collections.abc import Sequence

from synthesis.contracts import Attempt, ReferenceCall
from synthesis.drafts import TaskDraft
from synthesis.formats.answer_form import without_field_checks
from synthesis.prompts import fenced, prompt
from synthesis.scenarios import prompt_text
from synthesis.tasks.author_form import describe_form
from synthesis.tasks.checklist import MOST
from synthesis.tasks.known_ways import describe_call
from synthesis.tasks.reference_search import executed_calls, is_unsolved_note
from synthesis.tasks.task_context import World
from synthesis.verifiers.audit_report import NOTES, Fault, TaskAudit
from synthesis.verifiers.frame_words import value_words

TOLD = 20
"""So many faults are told to the author, and kept with a rejection."""
VALUES_TOLD = 4
FAULT_CHARS = 1_600
"""A fault names what was changed and what it was before, each in `SIDE_CHARS` at most."""
MET_WITHOUT = ("mutant_passes", "unneeded_call")
"""Faults of which either a condition or the known way is to blame."""


def repair_words(world: World, task: TaskDraft, report: TaskAudit) -> str:
    """The question to the author of a task whose audit has faults, or that nobody solved."""
    own = without_field_checks(task.checks, task.answer_form, task.expected_answer)
    way = "way_known" if task.reference is not None else "way_tried"
    return prompt("tasks", "repair").render(
        about=prompt_text.about(world.record),
        tools=prompt_text.tools(world.record),
        state=world.shown,
        task=fenced("task", task.instruction),
        frame=fenced("frame", _describe_frame(task)),
        checks=fenced("checks", "\n\n".join(f"# {condition.label}\n{condition.source}" for condition in own)),
        form=fenced("form", describe_form(task.answer_form, task.expected_answer)),
        way=prompt("tasks", way).render(),
        reference=fenced("reference", _describe_way(task)),
        faults=fenced("faults", "\n".join(f"- {line}" for line in _fault_lines(task, report))),
        whose=_advice(report),
        guards=prompt("tasks", f"guards_{task.rule}").render(),
        most=str(MOST),
    )


def serious_faults(report: TaskAudit) -> list[Fault]:
    """The faults that are more than a note, as far as they are told."""
    return [fault for fault in report.faults if fault.kind not in NOTES][:TOLD]


def _fault_lines(task: TaskDraft, report: TaskAudit) -> list[str]:
    """The faults in words; that nobody solved it is told as the search for a reference noted it."""
    unsolved = [note for note in task.notes if is_unsolved_note(note)]
    told = [fault.message for fault in serious_faults(report) if fault.kind != "no_reference" or not unsolved]
    return [line[:FAULT_CHARS] for line in (*unsolved, *told)]


def _advice(report: TaskAudit) -> str:
    """What is to be decided on the faults that have more than one cause."""
    kinds = {fault.kind for fault in report.faults}
    parts = ["repair_passes"] * bool(kinds & set(MET_WITHOUT)) + ["repair_unsolved"] * ("no_reference" in kinds)
    return "\n\n".join(prompt("tasks", name).render() for name in parts)


def _describe_frame(task: TaskDraft) -> str:
    """What may change as it is now, line by line, with a mark where the author declared it."""
    if task.frame is None:
        return "there is none yet"
    declared = {item.path for item in task.free}
    lines = []
    for item in task.frame.allowances:
        notes = [f"at most {item.most}"] * bool(item.most) + ["in FREE"] * (item.path in declared)
        notes += [f"to {words}" for words in [" or ".join(value_words(item)[:VALUES_TOLD])] if words]
        lines.append(f"{item.path} ({', '.join(notes)})" if notes else item.path)
    return prompt_text.cut("\n".join(lines) or "nothing", prompt_text.ABOUT_CHARS)


def _describe_way(task: TaskDraft) -> str:
    """The calls of the reference, numbered, and its answer; of a task without one, those of the best run."""
    if task.reference is not None:
        return _number_calls(task.reference.calls, task.reference.answer)
    tries = [run.attempt for run in task.runs if run.attempt is not None and run.attempt.reward is not None]
    if not tries:
        return "there is none"
    best = max(tries, key=_reward)
    return _number_calls(executed_calls(best), best.answer)


def _reward(attempt: Attempt) -> float:
    return attempt.reward.reward if attempt.reward is not None else 0.0


def _number_calls(calls: Sequence[ReferenceCall], answer: str) -> str:
    listed = [f"{number}. {describe_call(call)}" for number, call in enumerate(calls, 1)]
    return prompt_text.cut("\n".join([*listed, f"Answer: {answer or 'none'}"]), prompt_text.ABOUT_CHARS)

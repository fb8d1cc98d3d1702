"""Check functions (EnvScaler 4.3, Eq. 10): one per item of the checklist, tried on the state at the start.

Ours in addition to the paper: a check that cannot vary is refused; a check that is false at the start is a goal, one
that is true a guard; a task without a goal is refused. The answer is judged by checks that are made from the answer
form, so an author's check reads only fields that have no expected value.
"""

from __future__ import annotations

import ast
import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import TypeVar

from synthesis.assessment.cases import count_json_chars
from synthesis.assessment.state_view import collect_texts, fit_state
from synthesis.contracts import CheckRecord, Mark, State
from synthesis.drafts import ScenarioDraft, TaskDraft
from synthesis.errors import InputError, Rejected
from synthesis.formats.answer_form import add_field_checks
from synthesis.formats.records import EnvironmentRecord
from synthesis.prompts import fence_text, get_prompt
from synthesis.runtime import Sandbox
from synthesis.scenarios import prompt_text
from synthesis.stages import Kit
from synthesis.syntax import parse_module
from synthesis.tasks.author_form import describe_fields
from synthesis.tasks.check_source import (
    INVALID,
    NEVER_VARIES,
    list_read_fields,
    normalize_source,
    require_answer_reads,
    require_form,
)
from synthesis.tasks.checklist import list_named_fields
from synthesis.tasks.damaged_states import build_damaged_states
from synthesis.tasks.task_context import Unfit, World, build_world, reject_unfit_replies
from synthesis.verifiers.check_table import build_verdict_table
from synthesis.verifiers.checks import mark_checks as marks_of

STATE_CHARS = 1_800
"""A state of more is shown in part: the records that the condition names, and some others."""
EXAMPLES = 2
"""So many records of each collection are shown that the condition does not name."""


def select_state_part(start: State, condition: str) -> State:
    """Return the part of a state that one condition is about; omitted parts of collections are counted."""
    if count_json_chars(start) <= STATE_CHARS:
        return start
    named_texts = {text for text in collect_texts(start) if _is_distinctive(text) and _is_word_in(text, condition)}
    return fit_state(start, (), named_texts | _collect_linked_keys(start, named_texts), STATE_CHARS, EXAMPLES)


def _is_distinctive(text: str) -> bool:
    """Return whether a text is more than a word for a kind or a status, which many records share."""
    return len(text) > 1 and not (text.islower() and text.replace("_", "").isalpha())


def _is_word_in(text: str, condition: str) -> bool:
    at = condition.find(text)
    if at < 0:
        return False
    around = condition[max(0, at - 1) : at] + condition[at + len(text) : at + len(text) + 1]
    return not any(sign.isalnum() for sign in around)


def _collect_linked_keys(start: State, named: set[str]) -> set[str]:
    """Return the keys of the named records, and of those to which they refer."""
    keys = {key: value for part in start.values() if isinstance(part, dict) for key, value in part.items()}
    linked_keys: set[str] = set()
    for key, record in keys.items():
        values = set(record.values()) if _is_flat(record) else set()
        if key in named or values & named:
            linked_keys |= {key, *(value for value in values if value in keys)}
    return linked_keys


def _is_flat(record: object) -> bool:
    return isinstance(record, dict) and not any(isinstance(value, dict | list) for value in record.values())


ERROR_CHARS = 500
T = TypeVar("T")


async def write_checks(kit: Kit, record: EnvironmentRecord, scenario: ScenarioDraft, task: TaskDraft) -> TaskDraft:
    """Return the task with a check for each item of its checklist.

    Raise Rejected (`check_invalid`, `check_never_varies`, `no_goal_check`), InputError for a task without checklist,
    and the errors of `Kit.ask_code`.
    """
    if not task.checklist:
        raise InputError("The task has no checklist to make checks of.")
    world = await build_world(kit, record, scenario)
    written = await gather_in_order(_write_check(kit, world, task, index) for index in range(len(task.checklist)))
    checks = [CheckRecord(label=item, source=source) for item, (source, _) in zip(task.checklist, written, strict=True)]
    notes = [note for _, note in written if note]
    return await settle_checks(kit, world, task.model_copy(update={"notes": (*task.notes, *notes)}), checks)


async def settle_checks(kit: Kit, world: World, task: TaskDraft, own: list[CheckRecord]) -> TaskDraft:
    """Return the task with its author's checks and those of its answer form, without duplicates.

    By proportion, guards are dropped as well: they would pay for doing nothing. Raise Rejected("no_goal_check").
    """
    notes: list[str] = []
    first_indices: dict[str, int] = {}
    checks = add_field_checks(own, task.answer_form, task.expected_answer)
    for index, check in enumerate(checks):
        if index < len(own) and _repeats_form(check.source, task):
            notes.append(f"Check {index + 1} ({check.label}) repeats the answer form, and was left out.")
            continue
        first = first_indices.setdefault(normalize_source(check.source), index)
        if first != index:
            notes.append(f"Check {index + 1} ({check.label}) does the same as check {first + 1}, and was left out.")
    start_marks = await kit.run(
        marks_of, kit.sandbox, [checks[index].source for index in first_indices.values()], world.start
    )
    marks: dict[int, Mark] = dict(zip(first_indices.values(), start_marks, strict=True))
    for index in [index for index, mark in marks.items() if mark == "guard" and task.rule == "proportion"]:
        notes.append(f"Check {index + 1} ({checks[index].label}) holds at the start: by proportion it was left out.")
        del marks[index]
    if "goal" not in marks.values():
        message = "Every check holds before anything is done: nothing is there to reach."
        raise Rejected("no_goal_check", message, [check.model_dump() for check in checks])
    chosen = tuple(checks[index] for index in marks)
    return task.model_copy(update={"checks": chosen, "notes": (*task.notes, *notes)})


def _repeats_form(source: str, task: TaskDraft) -> bool:
    """Return whether a check only compares values that the answer form compares already."""
    read = list_read_fields(source)
    names = {node.id for node in ast.walk(parse_module(source)) if isinstance(node, ast.Name)}
    return bool(read) and read <= task.expected_answer.keys() and "final_state" not in names


def make_check_judge(
    kit: Kit, world: World, told: set[str], fields: Collection[str] = (), wanted: Collection[str] = ()
) -> Callable[[str], Awaitable[str]]:
    """Return a coroutine function that examines one check's source: it raises Unfit, or returns a note (mostly empty).

    A guard that holds on every damaged state is refused once, and noted if the author insists. The set passed in keeps
    the refusals from try to try, so it belongs to one check. `fields` are those of the task's answer, of which the
    check must read one of `wanted`.
    """

    def examine_source(source: str) -> str:
        require_form(source)
        require_answer_reads(source, fields, wanted)
        verdicts = []
        for answer in (None, ""):
            verdict = kit.sandbox.evaluate_checks([source], world.start, world.start, answer=answer)[0]
            if verdict.error:
                why = verdict.error[:ERROR_CHARS]
                message = f"on the state at the start, with answer={answer!r}, it does not say True or False: {why}"
                raise Unfit(INVALID, message)
            verdicts.append(verdict.passed)
        if verdicts[0] != verdicts[1]:
            raise Unfit(INVALID, "at the start it says one thing for answer=None and another for an empty answer")
        if not verdicts[0] or list_read_fields(source) or not _holds_when_damaged(kit.sandbox, world.start, source):
            return ""
        if NEVER_VARIES not in told:
            told.add(NEVER_VARIES)
            raise Unfit(NEVER_VARIES, get_prompt("tasks", "never_varies").render())
        return "may never fail: it held on every damaged state that was tried."

    async def run_examination(source: str) -> str:
        kit.check_stop()
        return await kit.run(examine_source, source)

    return run_examination


async def gather_in_order(work: Iterable[Awaitable[T]]) -> list[T]:
    """Return the results in order, once all are done; of several errors raise the first in order."""
    results = await asyncio.gather(*work, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return [result for result in results if not isinstance(result, BaseException)]


async def _write_check(kit: Kit, world: World, task: TaskDraft, index: int) -> tuple[str, str]:
    """Return (source, note) of one check."""
    kit.check_stop()
    item = task.checklist[index]
    answer_fields = list_named_fields(item, task)
    words = get_prompt("tasks", "check").render(
        about=prompt_text.format_introduction(world.record),
        state=world.format_part(select_state_part(world.start, item)),
        task=fence_text("task", task.instruction),
        item=fence_text("item", item),
        answer=build_answer_prompt(task, answer_fields),
    )
    note = ""
    examine = make_check_judge(kit, world, set(), [field.name for field in task.answer_form], answer_fields)

    async def note_check(source: str) -> None:
        nonlocal note
        note = await examine(source)

    with reject_unfit_replies():
        source = await kit.ask_code("author", "check_function", words, note_check, sample=index)
    return source, f"Check {index + 1} ({item}) {note}" if note else ""


def build_answer_prompt(task: TaskDraft, names: Collection[str]) -> str:
    """Return the prompt's part on these fields of the answer; empty if there are none."""
    fields = [field for field in task.answer_form if field.name in names]
    return get_prompt("tasks", "answer_form").render(fields=describe_fields(fields)) if fields else ""


def _holds_when_damaged(sandbox: Sandbox, start: State, source: str) -> bool:
    ends = [(state, "") for state in build_damaged_states(start)]
    return all(column[0].passed for column in build_verdict_table(sandbox, [source], start, ends))

"""Check functions (EnvScaler 4.3, Eq. 10): one an item of the checklist, tried on the state at the start.

Ours beside the paper: what cannot vary is refused; a check that is false at the start is a goal, one that is true a
guard; a task without a goal is none. What is asked to be told is judged by checks that are made from the answer form,
so an author's check reads only fields that have no expected value.
"""

from __future__ import annotations

import ast
import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import TypeVar

from synthesis.contracts import CheckRecord, Mark, State
from synthesis.drafts import ScenarioDraft, TaskDraft
from synthesis.errors import InputError, MalformedReply, Rejected
from synthesis.formats.answer_form import with_field_checks
from synthesis.formats.records import EnvironmentRecord
from synthesis.prompts import fenced, prompt
from synthesis.runtime import Sandbox
from synthesis.scenarios import prompt_text
from synthesis.stages import Kit
from synthesis.syntax import parse
from synthesis.tasks.author_form import describe_fields
from synthesis.tasks.check_source import (
    INVALID,
    NEVER_VARIES,
    fields_read,
    normal_form,
    require_answer_reads,
    require_form,
)
from synthesis.tasks.check_view import state_for
from synthesis.tasks.checklist import fields_named
from synthesis.tasks.damaged_states import damaged
from synthesis.tasks.task_context import Unfit, World, rejected, world_of
from synthesis.verifiers.check_table import verdict_table
from synthesis.verifiers.checks import marks as marks_of

ERROR_CHARS = 500
T = TypeVar("T")


async def write_checks(kit: Kit, record: EnvironmentRecord, scenario: ScenarioDraft, task: TaskDraft) -> TaskDraft:
    """The task with a check for each item of its checklist.

    Raises Rejected (`check_invalid`, `check_never_varies`, `no_goal_check`), InputError for a task without checklist,
    and what `Kit.ask_code` raises.
    """
    if not task.checklist:
        raise InputError("The task has no checklist to make checks of.")
    world = await world_of(kit, record, scenario)
    written = await all_of(_write(kit, world, task, index) for index in range(len(task.checklist)))
    checks = [CheckRecord(label=item, source=source) for item, (source, _) in zip(task.checklist, written, strict=True)]
    notes = [note for _, note in written if note]
    return await settle(kit, world, task.model_copy(update={"notes": (*task.notes, *notes)}), checks)


async def settle(kit: Kit, world: World, task: TaskDraft, own: list[CheckRecord]) -> TaskDraft:
    """The task with its author's checks and those of its answer form, without those that say the same as another.

    By proportion, guards are left out as well: they would pay for doing nothing. Raises Rejected("no_goal_check").
    """
    notes: list[str] = []
    kept: dict[str, int] = {}
    checks = with_field_checks(own, task.answer_form, task.expected_answer)
    for index, check in enumerate(checks):
        if index < len(own) and _repeats_form(check.source, task):
            notes.append(f"Check {index + 1} ({check.label}) repeats the answer form, and was left out.")
            continue
        first = kept.setdefault(normal_form(check.source), index)
        if first != index:
            notes.append(f"Check {index + 1} ({check.label}) does the same as check {first + 1}, and was left out.")
    start_marks = await kit.run(marks_of, kit.sandbox, [checks[index].source for index in kept.values()], world.start)
    marks: dict[int, Mark] = dict(zip(kept.values(), start_marks, strict=True))
    for index in [index for index, mark in marks.items() if mark == "guard" and task.rule == "proportion"]:
        notes.append(f"Check {index + 1} ({checks[index].label}) holds at the start: by proportion it was left out.")
        del marks[index]
    if "goal" not in marks.values():
        message = "Every check holds before anything is done: nothing is there to reach."
        raise Rejected("no_goal_check", message, [check.model_dump() for check in checks])
    chosen = tuple(checks[index] for index in marks)
    return task.model_copy(update={"checks": chosen, "notes": (*task.notes, *notes)})


def _repeats_form(source: str, task: TaskDraft) -> bool:
    """Whether a check compares only what the answer form compares already."""
    read = fields_read(source)
    names = {node.id for node in ast.walk(parse(source)) if isinstance(node, ast.Name)}
    return bool(read) and read <= task.expected_answer.keys() and "final_state" not in names


def judge(
    kit: Kit, world: World, told: set[str], fields: Collection[str] = (), wanted: Collection[str] = ()
) -> Callable[[str], Awaitable[str]]:
    """What looks at one check's source: raises Unfit, or gives a note on it (mostly empty).

    A guard that holds on every damaged state is refused once, and noted when it is insisted on. `told` remembers the
    refusals from try to try, so it belongs to one check. `fields` are those of the task's answer, of which the check
    must read one of `wanted`.
    """

    def look(source: str) -> str:
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
        if not verdicts[0] or fields_read(source) or not _holds_anyway(kit.sandbox, world.start, source):
            return ""
        if NEVER_VARIES not in told:
            told.add(NEVER_VARIES)
            raise Unfit(NEVER_VARIES, prompt("tasks", "never_varies").render())
        return "may never fail: it held on every damaged state that was tried."

    async def run(source: str) -> str:
        kit.check_stop()
        return await kit.run(look, source)

    return run


async def all_of(work: Iterable[Awaitable[T]]) -> list[T]:
    """The results in order, once all are done; of several errors the first in order is raised."""
    results = await asyncio.gather(*work, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return [result for result in results if not isinstance(result, BaseException)]


async def _write(kit: Kit, world: World, task: TaskDraft, index: int) -> tuple[str, str]:
    """(source, note) of one check."""
    kit.check_stop()
    item = task.checklist[index]
    wanted = fields_named(item, task)
    words = prompt("tasks", "check").render(
        about=prompt_text.introduction(world.record),
        state=world.shown_part(state_for(world.start, item)),
        task=fenced("task", task.instruction),
        item=fenced("item", item),
        answer=answer_words(task, wanted),
    )
    note = ""
    look = judge(kit, world, set(), [field.name for field in task.answer_form], wanted)

    async def check(source: str) -> None:
        nonlocal note
        note = await look(source)

    try:
        source = await kit.ask_code("author", "check_function", words, check, sample=index)
    except MalformedReply as error:
        raise rejected(error) from error
    return source, f"Check {index + 1} ({item}) {note}" if note else ""


def answer_words(task: TaskDraft, names: Collection[str]) -> str:
    """What an author of checks is told of these fields of the answer; empty if there are none."""
    fields = [field for field in task.answer_form if field.name in names]
    return prompt("tasks", "answer_form").render(fields=describe_fields(fields)) if fields else ""


def _holds_anyway(sandbox: Sandbox, start: State, source: str) -> bool:
    ends = [(state, "") for state in damaged(start)]
    return all(column[0].passed for column in verdict_table(sandbox, [source], start, ends))

"""Checklists (EnvScaler 4.3): a task divided into conditions that can be checked at the end."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from synthesis.drafts import ScenarioDraft, TaskDraft
from synthesis.formats.records import EnvironmentRecord
from synthesis.prompts import fence_text, get_prompt
from synthesis.scenarios import prompt_text
from synthesis.scenarios.states import AuthorReply
from synthesis.stages import Kit
from synthesis.tasks.author_form import describe_fields, list_open_fields
from synthesis.tasks.task_context import Unfit, build_world, reject_unfit_replies
from synthesis.tasks.task_frame import MOST_FREE, FreePlace, build_allowances

MOST = 20
Item = Annotated[str, StringConstraints(strip_whitespace=True, min_length=5, max_length=400)]


class ChecklistReply(AuthorReply):
    """Reply of the author: one condition per item, and allowed changes besides those of the reference."""

    items: tuple[Item, ...] = Field(min_length=1, max_length=MOST)
    free: tuple[FreePlace, ...] = Field(default=(), max_length=MOST_FREE)
    other_ways: bool = False


async def write_checklist(kit: Kit, record: EnvironmentRecord, scenario: ScenarioDraft, task: TaskDraft) -> TaskDraft:
    """Return the task with its checklist and the places that its author declares free.

    Raise Rejected (`checklist_repeats`, `answer_unjudged`, `frame_invalid`) and the errors of `Kit.ask`.
    """
    world = await build_world(kit, record, scenario)
    words = get_prompt("tasks", "checklist").render(
        about=prompt_text.format_about(record),
        tools=prompt_text.format_tools(record),
        state=world.start_text,
        task=fence_text("task", task.instruction),
        guards=get_prompt("tasks", f"guards_{task.rule}").render(),
        most=str(MOST),
        answer=_build_answer_prompt(task),
    )

    def check_reply(reply: ChecklistReply) -> None:
        _require_distinct_items(reply)
        _require_judged_fields(reply, task)
        build_allowances(reply.free, world.start)

    with reject_unfit_replies():
        reply = await kit.ask("author", "checklist", words, ChecklistReply, check_reply)
    free = build_allowances(reply.free, world.start)
    return task.model_copy(update={"checklist": reply.items, "free": free, "other_ways": reply.other_ways})


def list_named_fields(condition: str, task: TaskDraft) -> list[str]:
    """Return the fields without an expected value that a condition names in code quotes."""
    names = [field.name for field in list_open_fields(task.answer_form, task.expected_answer)]
    return [name for name in names if f"`{name}`" in condition]


def _build_answer_prompt(task: TaskDraft) -> str:
    """Return the prompt's part on the fields of the answer that conditions must judge; empty if there are none."""
    fields = list_open_fields(task.answer_form, task.expected_answer)
    return get_prompt("tasks", "checklist_answer").render(fields=describe_fields(fields)) if fields else ""


def _require_judged_fields(reply: ChecklistReply, task: TaskDraft) -> None:
    named_fields = {name for item in reply.items for name in list_named_fields(item, task)}
    unjudged_fields = [
        field.name
        for field in list_open_fields(task.answer_form, task.expected_answer)
        if field.name not in named_fields
    ]
    if unjudged_fields:
        raise Unfit(
            "answer_unjudged",
            f"no condition names `{unjudged_fields[0]}`, a value of the answer without an expected one",
        )


def _require_distinct_items(reply: ChecklistReply) -> None:
    first_numbers: dict[str, int] = {}
    for number, item in enumerate(reply.items, 1):
        first = first_numbers.setdefault(" ".join(item.split()).casefold().rstrip(".?!"), number)
        if first != number:
            raise Unfit("checklist_repeats", f"the items {first} and {number} are the same; each must say one thing")

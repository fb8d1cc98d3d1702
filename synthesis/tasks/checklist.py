"""Checklists (EnvScaler 4.3): a task taken apart into conditions that the end can be asked for."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from synthesis.drafts import ScenarioDraft, TaskDraft
from synthesis.errors import MalformedReply
from synthesis.formats.records import EnvironmentRecord
from synthesis.prompts import fenced, prompt
from synthesis.scenarios import prompt_text
from synthesis.scenarios.states import AuthorReply
from synthesis.stages import Kit
from synthesis.tasks.author_form import describe_fields, open_fields
from synthesis.tasks.task_context import Unfit, rejected, world_of
from synthesis.tasks.task_frame import MOST_FREE, FreePlace, allowances

MOST = 20
Item = Annotated[str, StringConstraints(strip_whitespace=True, min_length=5, max_length=400)]


class ChecklistReply(AuthorReply):
    """What the author replies: one condition an item, and what may change besides what the reference will change."""

    items: tuple[Item, ...] = Field(min_length=1, max_length=MOST)
    free: tuple[FreePlace, ...] = Field(default=(), max_length=MOST_FREE)
    other_ways: bool = False


async def write_checklist(kit: Kit, record: EnvironmentRecord, scenario: ScenarioDraft, task: TaskDraft) -> TaskDraft:
    """The task with its checklist and what its author declares free.

    Raises Rejected (`checklist_repeats`, `answer_unjudged`, `frame_invalid`) and what `Kit.ask` raises.
    """
    world = await world_of(kit, record, scenario)
    words = prompt("tasks", "checklist").render(
        about=prompt_text.about(record),
        tools=prompt_text.tools(record),
        state=world.shown,
        task=fenced("task", task.instruction),
        guards=prompt("tasks", f"guards_{task.rule}").render(),
        most=str(MOST),
        answer=_answer_words(task),
    )

    def check(reply: ChecklistReply) -> None:
        _require_distinct(reply)
        _require_judged(reply, task)
        allowances(reply.free, world.start)

    try:
        reply = await kit.ask("author", "checklist", words, ChecklistReply, check)
    except MalformedReply as error:
        raise rejected(error) from error
    free = allowances(reply.free, world.start)
    return task.model_copy(update={"checklist": reply.items, "free": free, "other_ways": reply.other_ways})


def fields_named(condition: str, task: TaskDraft) -> list[str]:
    """Return the fields without an expected value that a condition names in code quotes."""
    names = [field.name for field in open_fields(task.answer_form, task.expected_answer)]
    return [name for name in names if f"`{name}`" in condition]


def _answer_words(task: TaskDraft) -> str:
    """What is said of the fields of the answer that conditions must judge; empty if there are none."""
    fields = open_fields(task.answer_form, task.expected_answer)
    return prompt("tasks", "checklist_answer").render(fields=describe_fields(fields)) if fields else ""


def _require_judged(reply: ChecklistReply, task: TaskDraft) -> None:
    named = {name for item in reply.items for name in fields_named(item, task)}
    left = [field.name for field in open_fields(task.answer_form, task.expected_answer) if field.name not in named]
    if left:
        raise Unfit("answer_unjudged", f"no condition names `{left[0]}`, a value of the answer without an expected one")


def _require_distinct(reply: ChecklistReply) -> None:
    seen: dict[str, int] = {}
    for number, item in enumerate(reply.items, 1):
        first = seen.setdefault(" ".join(item.split()).casefold().rstrip(".?!"), number)
        if first != number:
            raise Unfit("checklist_repeats", f"the items {first} and {number} are the same; each must say one thing")

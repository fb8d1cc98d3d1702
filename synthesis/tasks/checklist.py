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
from synthesis.tasks.task_context import Unfit, rejected, world_of

MOST = 20
Item = Annotated[str, StringConstraints(strip_whitespace=True, min_length=5, max_length=400)]


class ChecklistReply(AuthorReply):
    """What the author replies: one condition an item."""

    items: tuple[Item, ...] = Field(min_length=1, max_length=MOST)


async def write_checklist(kit: Kit, record: EnvironmentRecord, scenario: ScenarioDraft, task: TaskDraft) -> TaskDraft:
    """The task with its checklist. Raises Rejected("checklist_repeats") and what `Kit.ask` raises."""
    world = await world_of(kit, record, scenario)
    words = prompt("tasks", "checklist").render(
        about=prompt_text.about(record),
        tools=prompt_text.tools(record),
        state=world.shown,
        task=fenced("task", task.instruction),
        guards=prompt("tasks", f"guards_{task.rule}").render(),
        most=str(MOST),
    )
    try:
        reply = await kit.ask("author", "checklist", words, ChecklistReply, _require_distinct)
    except MalformedReply as error:
        raise rejected(error) from error
    return task.model_copy(update={"checklist": reply.items})


def _require_distinct(reply: ChecklistReply) -> None:
    seen: dict[str, int] = {}
    for number, item in enumerate(reply.items, 1):
        first = seen.setdefault(" ".join(item.split()).casefold().rstrip(".?!"), number)
        if first != number:
            raise Unfit("checklist_repeats", f"the items {first} and {number} are the same; each must say one thing")

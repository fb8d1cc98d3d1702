"""Tasks (EnvScaler 4.2): a hard one, asked of the author from state, tools and rules, in the words of a user.

What it asks to be told is an answer form (ours): typed fields with expected values, of which the words say nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pydantic import Field

from synthesis.contracts import AnswerField
from synthesis.drafts import ScenarioDraft, TaskDraft
from synthesis.errors import InputError, MalformedReply
from synthesis.formats.records import EnvironmentRecord
from synthesis.prompts import prompt
from synthesis.scenarios import prompt_text
from synthesis.scenarios.states import AuthorReply
from synthesis.stages import Kit
from synthesis.tasks.author_form import INVALID, find_told_values, require_form
from synthesis.tasks.leak import names_of, require_no_leak
from synthesis.tasks.task_context import Unfit, rejected, world_of

AROUND = 3
"""So many tools that change something are suggested as the heart of a task."""


class InstructionReply(AuthorReply):
    """What the author replies: a title for lists, what the user says, and what it asks to be told, field by field.

    A field without an expected value is one that only the end can tell."""

    title: str = Field(min_length=3, max_length=120)
    instruction: str = Field(min_length=40, max_length=6_000)
    answer_form: tuple[AnswerField, ...] = ()
    expected_answer: dict[str, Any] = Field(default_factory=dict)


async def write_task(kit: Kit, record: EnvironmentRecord, scenario: ScenarioDraft, ordinal: int) -> TaskDraft:
    """Task number `ordinal` (from 0) of a scenario. Raises Rejected("names_a_tool") and what `Kit.ask` raises."""
    world = await world_of(kit, record, scenario)
    names = await kit.run(names_of, record, scenario.state)
    words = prompt("tasks", "instruction").render(
        about=prompt_text.about(record),
        tools=prompt_text.tools(record),
        state=world.shown,
        around=", ".join(_around(kit, record, ordinal)) or "whatever there is",
        number=str(ordinal + 1),
        count=str(max(kit.settings.tasks, ordinal + 1)),
    )
    warned = False

    def check(reply: InstructionReply) -> None:
        nonlocal warned
        require_form(reply.answer_form, reply.expected_answer, "the reply")
        words = [reply.title, reply.instruction, *(field.description for field in reply.answer_form)]
        try:
            require_no_leak("\n".join(words), names)
        except InputError as error:
            raise Unfit("names_a_tool", str(error)) from error
        told = find_told_values(reply.instruction, reply.answer_form, reply.expected_answer)
        if told and not warned:
            warned = True
            raise Unfit(INVALID, prompt("tasks", "told_values").render(told=", ".join(told)))

    try:
        reply = await kit.ask("author", "instruction", words, InstructionReply, check)
    except MalformedReply as error:
        raise rejected(error) from error
    return TaskDraft(
        title=reply.title,
        instruction=reply.instruction,
        answer_form=reply.answer_form,
        expected_answer=reply.expected_answer,
        rule=kit.settings.rule,
    )


def _around(kit: Kit, record: EnvironmentRecord, ordinal: int) -> list[str]:
    """The tools that a task is built around: others for each task of a scenario, as far as there are enough."""
    names = [tool.name for tool in record.tools if tool.kind == "change" and tool.name.isidentifier()]
    first = replace(kit, path=kit.path.rpartition("/")[0]).luck("instruction") + ordinal * AROUND
    return [names[(first + step) % len(names)] for step in range(min(AROUND, len(names)))]

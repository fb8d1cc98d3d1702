"""Tasks (EnvScaler 4.2): a hard one, requested of the author from state, tools and rules, in the words of a user.

The requested answer is an answer form (ours): typed fields with expected values, which the instruction does not
mention.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pydantic import Field

from synthesis.contracts import AnswerField
from synthesis.drafts import ScenarioDraft, TaskDraft
from synthesis.formats.records import EnvironmentRecord
from synthesis.prompts import get_prompt
from synthesis.scenarios import prompt_text
from synthesis.scenarios.states import AuthorReply
from synthesis.stages import Kit
from synthesis.tasks.author_form import INVALID, find_leaked_values, require_form
from synthesis.tasks.leak import collect_names
from synthesis.tasks.task_context import Unfit, build_world, refuse_leaks, reject_unfit_replies

AROUND = 3
"""So many tools that change something are suggested as the heart of a task."""


class InstructionReply(AuthorReply):
    """Reply of the author: a title for lists, the user's instruction, and the requested answer, field by field.

    A field without an expected value is one that only the end of an attempt determines.
    """

    title: str = Field(min_length=3, max_length=120)
    instruction: str = Field(min_length=40, max_length=6_000)
    answer_form: tuple[AnswerField, ...] = ()
    expected_answer: dict[str, Any] = Field(default_factory=dict)


async def write_task(kit: Kit, record: EnvironmentRecord, scenario: ScenarioDraft, ordinal: int) -> TaskDraft:
    """Return task number `ordinal` (from 0) of a scenario. Raise Rejected("names_a_tool") and the errors of
    `Kit.ask`."""
    world = await build_world(kit, record, scenario)
    names = await kit.run(collect_names, record, scenario.state)
    words = get_prompt("tasks", "instruction").render(
        about=prompt_text.format_about(record),
        tools=prompt_text.format_tools(record),
        state=world.start_text,
        around=", ".join(_choose_tools(kit, record, ordinal)) or "whatever there is",
        number=str(ordinal + 1),
        count=str(max(kit.settings.tasks, ordinal + 1)),
    )
    warned = False

    def check_reply(reply: InstructionReply) -> None:
        nonlocal warned
        require_form(reply.answer_form, reply.expected_answer, "the reply")
        words = [reply.title, reply.instruction, *(field.description for field in reply.answer_form)]
        refuse_leaks("\n".join(words), names)
        leaked_values = find_leaked_values(reply.instruction, reply.answer_form, reply.expected_answer)
        if leaked_values and not warned:
            warned = True
            raise Unfit(INVALID, get_prompt("tasks", "told_values").render(told=", ".join(leaked_values)))

    with reject_unfit_replies():
        reply = await kit.ask("author", "instruction", words, InstructionReply, check_reply)
    return TaskDraft(
        title=reply.title,
        instruction=reply.instruction,
        answer_form=reply.answer_form,
        expected_answer=reply.expected_answer,
        rule=kit.settings.rule,
    )


def _choose_tools(kit: Kit, record: EnvironmentRecord, ordinal: int) -> list[str]:
    """Return the tools that a task is built around: different for each task of a scenario, if there are enough."""
    names = [tool.name for tool in record.tools if tool.kind == "change" and tool.name.isidentifier()]
    first = replace(kit, path=kit.path.rpartition("/")[0]).draw_seed("instruction") + ordinal * AROUND
    return [names[(first + step) % len(names)] for step in range(min(AROUND, len(names)))]

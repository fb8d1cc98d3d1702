"""The query of a programmatic task (AW 3.1.1): what a user wants, in words that name no tool and no table.

What it asks to be told is an answer form (ours). Its values are not asked for: the solution works them out.
"""

from __future__ import annotations

from pydantic import Field

from synthesis.contracts import AnswerField
from synthesis.drafts import ScenarioDraft, TaskDraft
from synthesis.errors import InputError, MalformedReply
from synthesis.formats.records import EnvironmentRecord
from synthesis.prompts import prompt
from synthesis.scenarios import prompt_text
from synthesis.scenarios.states import AuthorReply
from synthesis.stages import Kit
from synthesis.tasks.author_form import require_form
from synthesis.tasks.leak import leaks, names_of, require_no_leak
from synthesis.tasks.task_context import Unfit, rejected, world_of

LEAKS = "names_a_tool"


class QueryReply(AuthorReply):
    """What the author replies: a title for lists, what the user says, and what it asks to be told, field by field."""

    title: str = Field(min_length=3, max_length=120)
    instruction: str = Field(min_length=40, max_length=6_000)
    answer_form: tuple[AnswerField, ...] = ()


async def write_query(kit: Kit, record: EnvironmentRecord, scenario: ScenarioDraft, ordinal: int) -> TaskDraft:
    """Query number `ordinal` (from 0) of a scenario. Raises Rejected (`names_a_tool`, `answer_form`) and what
    `Kit.ask` raises."""
    world = await world_of(kit, record, scenario)
    names = await kit.run(names_of, record, scenario.state)
    words = prompt("programmatic", "query").render(
        about=prompt_text.about(record),
        tools=prompt_text.whole_tools(record),
        schema=prompt_text.schema(record),
        state=world.shown,
        calls=str(kit.settings.programmatic.least_calls),
        most=str(kit.settings.programmatic.most_calls),
        number=str(ordinal + 1),
        count=str(max(kit.settings.tasks, ordinal + 1)),
    )

    leaked: dict[str, None] = {}

    def check(reply: QueryReply) -> None:
        require_form(reply.answer_form, {}, "the reply")
        said = "\n".join([reply.title, reply.instruction, *(field.description for field in reply.answer_form)])
        leaked.update(dict.fromkeys(leak.word for leak in leaks(said, names)))
        try:
            require_no_leak(said, names)
        except InputError as error:
            raise Unfit(LEAKS, str(error)) from error

    try:
        reply = await kit.ask("author", "query", words, QueryReply, check)
    except MalformedReply as error:
        raise rejected(error) from error
    return TaskDraft(
        title=reply.title,
        instruction=reply.instruction,
        answer_form=reply.answer_form,
        rule="all",
        leaked=tuple(leaked),
    )

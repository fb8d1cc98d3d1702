"""Query of a programmatic task (AW 3.1.1): a user's request, in words that name no tool and no table.

The requested information is an answer form (ours). Its values are not requested here: the solution computes them.
"""

from __future__ import annotations

from pydantic import Field

from synthesis.contracts import AnswerField
from synthesis.drafts import ScenarioDraft, TaskDraft
from synthesis.formats.records import EnvironmentRecord
from synthesis.prompts import get_prompt
from synthesis.scenarios import prompt_text
from synthesis.scenarios.states import AuthorReply
from synthesis.stages import Kit
from synthesis.tasks.author_form import require_form
from synthesis.tasks.leak import collect_names
from synthesis.tasks.task_context import build_world, refuse_leaks, reject_unfit_replies


class QueryReply(AuthorReply):
    """The author's reply: a title for lists, the words of the user, and the requested information, field by field."""

    title: str = Field(min_length=3, max_length=120)
    instruction: str = Field(min_length=40, max_length=6_000)
    answer_form: tuple[AnswerField, ...] = ()


async def write_query(kit: Kit, record: EnvironmentRecord, scenario: ScenarioDraft, ordinal: int) -> TaskDraft:
    """Return query number `ordinal` (from 0) of a scenario. Raises Rejected (`names_a_tool`, `answer_form`) and as
    `Kit.ask`.
    """
    world = await build_world(kit, record, scenario)
    names = await kit.run(collect_names, record, scenario.state)
    words = get_prompt("programmatic", "query").render(
        about=prompt_text.format_about(record),
        tools=prompt_text.format_whole_tools(record),
        schema=prompt_text.format_schema(record),
        state=world.start_text,
        least=str(kit.settings.programmatic.least_calls),
        most=str(kit.settings.programmatic.most_calls),
        number=str(ordinal + 1),
        count=str(max(kit.settings.tasks, ordinal + 1)),
    )

    leaked: dict[str, None] = {}

    def check_reply(reply: QueryReply) -> None:
        require_form(reply.answer_form, {}, "the reply")
        said = "\n".join([reply.title, reply.instruction, *(field.description for field in reply.answer_form)])
        refuse_leaks(said, names, leaked)

    with reject_unfit_replies():
        reply = await kit.ask("author", "query", words, QueryReply, check_reply)
    return TaskDraft(
        title=reply.title,
        instruction=reply.instruction,
        answer_form=reply.answer_form,
        rule="all",
        leaked=tuple(leaked),
    )

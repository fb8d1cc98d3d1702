"""First words of a task of a walk (AW 3.1.1): the request of a user whom the chain serves, without technical
details.
"""

from __future__ import annotations

from synthesis.contracts import Blueprint, Difficulty
from synthesis.drafts import ScenarioDraft, TaskDraft
from synthesis.formats.records import EnvironmentRecord
from synthesis.prompts import get_prompt
from synthesis.scenarios import prompt_text
from synthesis.stages import Kit
from synthesis.tasks.leak import collect_names
from synthesis.tasks.task_context import build_world, refuse_leaks, reject_unfit_replies
from synthesis.tool_graph.task_stages import IntentReply
from synthesis.tool_walk.chain_words import describe_calls


async def draft_words(kit: Kit, record: EnvironmentRecord, scenario: ScenarioDraft, chain: Blueprint) -> TaskDraft:
    """Return the draft of a task, written from its chain before that is executed. Raises Rejected (`names_a_tool`) and
    as `Kit.ask`.
    """
    world = await build_world(kit, record, scenario)
    names = await kit.run(collect_names, record, scenario.state)
    words = get_prompt("tool_walk", "draft").render(
        about=prompt_text.format_about(record),
        tools=prompt_text.format_whole_tools(record, tuple(dict.fromkeys(chain.tools))),
        state=world.start_text,
        chain=describe_calls(chain),
    )
    leaked: dict[str, None] = {}

    def check_reply(reply: IntentReply) -> None:
        refuse_leaks(f"{reply.title}\n{reply.instruction}", names, leaked)

    with reject_unfit_replies():
        reply = await kit.ask("author", "draft", words, IntentReply, check_reply)
    return TaskDraft(
        title=reply.title,
        instruction=reply.instruction,
        intent=reply.instruction,
        rule="all",
        blueprint=chain,
        difficulty=Difficulty.from_blueprint(chain),
        leaked=tuple(leaked),
    )

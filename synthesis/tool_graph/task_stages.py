"""A state made for a blueprint, and words of a user that require the blueprint's steps (AF 3.3)."""

from __future__ import annotations

from pydantic import Field

from synthesis.contracts import Blueprint
from synthesis.drafts import ScenarioDraft, TaskDraft
from synthesis.errors import InputError, Rejected
from synthesis.formats.records import EnvironmentRecord
from synthesis.prompts import get_prompt
from synthesis.scenarios import prompt_text
from synthesis.scenarios.states import AuthorReply, ask_state
from synthesis.stages import Kit
from synthesis.tasks.leak import collect_names, require_no_leak
from synthesis.tasks.task_context import build_world
from synthesis.tool_graph.blueprint_stage import BlueprintSet
from synthesis.tool_graph.words import format_chain, format_edges


class IntentReply(AuthorReply):
    """The author's reply: a title for lists, and the words of the user."""

    title: str = Field(min_length=3, max_length=120)
    instruction: str = Field(min_length=20, max_length=6_000)


async def write_blueprint_state(kit: Kit, record: EnvironmentRecord, made: BlueprintSet, ordinal: int) -> ScenarioDraft:
    """Return a state in which the blueprint number `ordinal` can be executed: one scenario per blueprint.

    Raises Rejected (`state_invalid`, `no_blueprint` if there are fewer) and as `Kit.ask`.
    """
    if ordinal >= len(made.blueprints):
        message = f"Only {len(made.blueprints)} different blueprints came of the walks of this environment."
        raise Rejected("no_blueprint", message, [drop.model_dump() for drop in made.dropped])
    blueprint = made.blueprints[ordinal]
    words = get_prompt("tool_graph", "state").render(
        about=prompt_text.format_about(record),
        schema=prompt_text.format_schema(record),
        program=prompt_text.format_source(record),
        bytes=f"{kit.settings.state_bytes:,}",
        chain=format_chain(blueprint, has_code=True),
        known=format_edges(blueprint),
    )
    draft = await ask_state(kit, record, "blueprint_state", words)
    return draft.model_copy(update={"blueprint": blueprint})


async def write_intent(kit: Kit, record: EnvironmentRecord, scenario: ScenarioDraft) -> TaskDraft:
    """Return the draft of a task, in words written from the initial state and the blueprint. Raises as `Kit.ask`.

    It contains no name that only the system knows: the refined words may not contain any, and must keep values that
    only the draft contains.
    """
    blueprint = require_blueprint(scenario.blueprint)
    world = await build_world(kit, record, scenario)
    words = get_prompt("tool_graph", "intent").render(
        about=prompt_text.format_about(record),
        tools=prompt_text.format_whole_tools(record, blueprint.tools),
        state=world.start_text,
        chain=format_chain(blueprint, has_code=True),
        known=format_edges(blueprint),
    )
    names = await kit.run(collect_names, record, scenario.state)

    def check_reply(reply: IntentReply) -> None:
        require_no_leak(f"{reply.title}\n{reply.instruction}", names)

    reply = await kit.ask("author", "intent", words, IntentReply, check_reply)
    return TaskDraft(
        title=reply.title,
        instruction=reply.instruction,
        intent=reply.instruction,
        rule="golden",
        blueprint=blueprint,
    )


def require_blueprint(blueprint: Blueprint | None) -> Blueprint:
    """Return the blueprint. Raises InputError: the scenario or task is of another variant."""
    if blueprint is None:
        raise InputError("There is no blueprint: this was not made by the variant autoforge.")
    return blueprint

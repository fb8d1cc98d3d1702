"""A state made for a blueprint, and what a user says so that the blueprint's steps are needed (AF 3.3)."""

from __future__ import annotations

from pydantic import Field

from synthesis.contracts import Blueprint
from synthesis.drafts import ScenarioDraft, TaskDraft
from synthesis.errors import InputError, Rejected
from synthesis.formats.records import EnvironmentRecord
from synthesis.prompts import prompt
from synthesis.scenarios import prompt_text
from synthesis.scenarios.states import AuthorReply, ask_state
from synthesis.stages import Kit
from synthesis.tasks.task_context import world_of
from synthesis.tool_graph.blueprint_stage import BlueprintSet
from synthesis.tool_graph.words import chain_text, edges_text


class IntentReply(AuthorReply):
    """What the author replies: a title for lists, and what the user says."""

    title: str = Field(min_length=3, max_length=120)
    instruction: str = Field(min_length=20, max_length=6_000)


async def make_state_for(kit: Kit, record: EnvironmentRecord, made: BlueprintSet, ordinal: int) -> ScenarioDraft:
    """A state in which the blueprint number `ordinal` can be carried out: one scenario a blueprint.

    Raises Rejected (`state_invalid`, `no_blueprint` if there are fewer) and what `Kit.ask` raises.
    """
    if ordinal >= len(made.blueprints):
        message = f"Only {len(made.blueprints)} different blueprints came of the walks of this environment."
        raise Rejected("no_blueprint", message, [drop.model_dump() for drop in made.dropped])
    blueprint = made.blueprints[ordinal]
    words = prompt("tool_graph", "state").render(
        about=prompt_text.about(record),
        schema=prompt_text.schema(record),
        program=prompt_text.source(record),
        bytes=f"{kit.settings.state_bytes:,}",
        chain=chain_text(blueprint),
        known=edges_text(blueprint),
    )
    draft = await ask_state(kit, record, "blueprint_state", words)
    return draft.model_copy(update={"blueprint": blueprint})


async def write_intent(kit: Kit, record: EnvironmentRecord, scenario: ScenarioDraft) -> TaskDraft:
    """The draft of a task, in words from the state at the start and the blueprint. Raises what `Kit.ask` raises."""
    blueprint = require_blueprint(scenario.blueprint)
    world = await world_of(kit, record, scenario)
    words = prompt("tool_graph", "intent").render(
        about=prompt_text.about(record),
        tools=prompt_text.whole_tools(record, blueprint.tools),
        state=world.shown,
        chain=chain_text(blueprint),
        known=edges_text(blueprint),
    )
    reply = await kit.ask("author", "intent", words, IntentReply)
    return TaskDraft(
        title=reply.title,
        instruction=reply.instruction,
        intent=reply.instruction,
        rule="golden",
        blueprint=blueprint,
    )


def require_blueprint(blueprint: Blueprint | None) -> Blueprint:
    """Raises InputError: a scenario or task of another variant."""
    if blueprint is None:
        raise InputError("There is no blueprint: this was not made by the variant autoforge.")
    return blueprint

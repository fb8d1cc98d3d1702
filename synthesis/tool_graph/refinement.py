"""Refines a task's words from the states before and after to the least that is needed (AF 3.3).

Code looks for names of the system (`synthesis/tasks/leak.py`) and for values that only the words can tell. What is left
is tried by deletion (ours): a sentence without which the teacher still reaches the golden state is left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from synthesis.assessment.prompt_values import cut
from synthesis.contracts import Blueprint
from synthesis.drafts import ScenarioDraft, TaskDraft
from synthesis.errors import InputError, MalformedReply
from synthesis.formats.records import EnvironmentRecord
from synthesis.prompts import fenced, prompt
from synthesis.runtime import make_patch
from synthesis.scenarios import prompt_text
from synthesis.stages import Kit
from synthesis.tasks.leak import leaks, names_of, require_no_leak
from synthesis.tasks.reference_search import run_solvers
from synthesis.tasks.task_context import Unfit, World, rejected, world_of
from synthesis.tool_graph.argument_sources import is_said
from synthesis.tool_graph.task_stages import IntentReply, require_blueprint

CHANGES_CHARS = 30_000
LEAKS, UNSAID = "names_a_tool", "unsaid_value"
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z\"“])")


async def refine(kit: Kit, record: EnvironmentRecord, scenario: ScenarioDraft, task: TaskDraft) -> TaskDraft:
    """The task in the least words. Raises Rejected (`names_a_tool`, `unsaid_value`) and what `Kit.ask` raises."""
    world = await world_of(kit, record, scenario)
    blueprint = require_blueprint(task.blueprint)
    names = await kit.run(names_of, record, scenario.state)
    assert task.golden is not None
    changes = json.dumps(make_patch(world.start, task.golden.state), ensure_ascii=False)
    words = prompt("tool_graph", "refine").render(
        about=prompt_text.introduction(record),
        state=world.shown,
        changes=fenced("changes", cut(changes, CHANGES_CHARS)),
        intent=fenced("draft", task.intent),
    )
    leaked: dict[str, None] = {}

    def check(reply: IntentReply) -> None:
        said = f"{reply.title}\n{reply.instruction}"
        leaked.update(dict.fromkeys(leak.word for leak in leaks(said, names)))
        try:
            require_no_leak(said, names)
        except InputError as error:
            raise Unfit(LEAKS, str(error)) from error
        if missing := find_unsaid(blueprint, reply.instruction):
            raise Unfit(UNSAID, f"nobody could know this any more, since the words leave it out: {', '.join(missing)}")

    try:
        reply = await kit.ask("author", "refine", words, IntentReply, check)
    except MalformedReply as error:
        raise rejected(error) from error
    refined = task.model_copy(update={"title": reply.title, "instruction": reply.instruction, "leaked": tuple(leaked)})
    return await _without_idle_sentences(kit, world, refined)


def find_unsaid(blueprint: Blueprint, words: str) -> list[str]:
    """The values of a blueprint that come from the words of the task alone, and do not stand in these words."""
    told = [argument for node in blueprint.nodes for argument in node.arguments if argument.source == "intent"]
    missing = [argument for argument in told if not is_said(words, argument.value)]
    return [f"{argument.name} = {json.dumps(argument.value, ensure_ascii=False)[:120]}" for argument in missing]


def split_sentences(words: str) -> list[str]:
    """The sentences of an instruction, in order."""
    return [sentence for sentence in _SENTENCE.split(words.strip()) if sentence]


async def _without_idle_sentences(kit: Kit, world: World, task: TaskDraft) -> TaskDraft:
    """The task without sentences that the teacher can do without. One that alone tells a value is needed, and so is the
    last one that is left."""
    blueprint = require_blueprint(task.blueprint)
    sentences = split_sentences(task.instruction)
    tried = 0
    for place in reversed(range(len(sentences))):
        fewer = [*sentences[:place], *sentences[place + 1 :]]
        if tried >= kit.settings.graph.deletions or not fewer or find_unsaid(blueprint, " ".join(fewer)):
            continue
        kit.check_stop()
        shorter = task.model_copy(update={"instruction": " ".join(fewer)})
        runs = await run_solvers(kit, world, shorter, [tried], stage="shorten")
        tried += 1
        if all(run.outcome == "solved" for run in runs):
            sentences = fewer
    return task.model_copy(update=_shortened(task, sentences))


def _shortened(task: TaskDraft, sentences: Sequence[str]) -> dict[str, object]:
    words = " ".join(sentences)
    if words == " ".join(split_sentences(task.instruction)):
        return {}
    return {"instruction": words}

"""Refinement of a task's words, from the states before and after, to the necessary minimum (AF 3.3).

Code looks for names of the system (`synthesis/tasks/leak.py`) and for values that only the words contain. The rest is
tried by deletion (ours): a sentence without which the teacher still reaches the golden state is left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from synthesis.assessment.prompt_values import cut_text
from synthesis.contracts import Blueprint
from synthesis.drafts import ScenarioDraft, TaskDraft
from synthesis.formats.records import EnvironmentRecord
from synthesis.prompts import fence_text, get_prompt
from synthesis.runtime import make_patch
from synthesis.scenarios import prompt_text
from synthesis.stages import Kit
from synthesis.tasks.leak import collect_names
from synthesis.tasks.reference_search import run_solvers
from synthesis.tasks.task_context import Unfit, World, build_world, refuse_leaks, reject_unfit_replies
from synthesis.tool_graph.argument_sources import is_said
from synthesis.tool_graph.task_stages import IntentReply, require_blueprint

CHANGES_CHARS = 30_000
UNSAID = "unsaid_value"
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z\"“])")


async def refine_words(kit: Kit, record: EnvironmentRecord, scenario: ScenarioDraft, task: TaskDraft) -> TaskDraft:
    """Return the task in the fewest words. Raises Rejected (`names_a_tool`, `unsaid_value`) and as `Kit.ask`."""
    world = await build_world(kit, record, scenario)
    blueprint = require_blueprint(task.blueprint)
    names = await kit.run(collect_names, record, scenario.state)
    assert task.golden is not None
    changes = json.dumps(make_patch(world.start, task.golden.state), ensure_ascii=False)
    words = get_prompt("tool_graph", "refine").render(
        about=prompt_text.format_introduction(record),
        state=world.start_text,
        changes=fence_text("changes", cut_text(changes, CHANGES_CHARS)),
        intent=fence_text("draft", task.intent),
        kept=fence_text("values", ", ".join(list_intent_values(blueprint)) or "none"),
    )
    leaked: dict[str, None] = {}

    def check_reply(reply: IntentReply) -> None:
        refuse_leaks(f"{reply.title}\n{reply.instruction}", names, leaked)
        if missing := find_unsaid(blueprint, reply.instruction):
            raise Unfit(UNSAID, f"nobody could know this any more, since the words leave it out: {', '.join(missing)}")

    with reject_unfit_replies():
        reply = await kit.ask("author", "refine", words, IntentReply, check_reply)
    refined = task.model_copy(update={"title": reply.title, "instruction": reply.instruction, "leaked": tuple(leaked)})
    return await _drop_idle_sentences(kit, world, refined)


def find_unsaid(blueprint: Blueprint, words: str) -> list[str]:
    """Return the values of a blueprint that come from the words of the task only, and do not occur in these words."""
    told = [argument for node in blueprint.nodes for argument in node.arguments if argument.source == "intent"]
    missing = [argument for argument in told if not is_said(words, argument.value)]
    return [f"{argument.name} = {json.dumps(argument.value, ensure_ascii=False)[:120]}" for argument in missing]


def list_intent_values(blueprint: Blueprint) -> list[str]:
    """Return the distinct values that come from the words of the task only, as JSON, in the order of the calls."""
    told = [argument for node in blueprint.nodes for argument in node.arguments if argument.source == "intent"]
    return list(dict.fromkeys(json.dumps(argument.value, ensure_ascii=False) for argument in told))


def split_sentences(words: str) -> list[str]:
    """Return the sentences of an instruction, in order."""
    return [sentence for sentence in _SENTENCE.split(words.strip()) if sentence]


async def _drop_idle_sentences(kit: Kit, world: World, task: TaskDraft) -> TaskDraft:
    """Return the task without sentences that the teacher does not need. A sentence that alone contains a value is
    needed, and so is the last one that is left.
    """
    blueprint = require_blueprint(task.blueprint)
    sentences = split_sentences(task.instruction)
    tried_count = 0
    for place in reversed(range(len(sentences))):
        fewer = [*sentences[:place], *sentences[place + 1 :]]
        if tried_count >= kit.settings.graph.deletions or not fewer or find_unsaid(blueprint, " ".join(fewer)):
            continue
        kit.check_stop()
        shorter = task.model_copy(update={"instruction": " ".join(fewer)})
        runs = await run_solvers(kit, world, shorter, [tried_count], stage="shorten")
        tried_count += 1
        if all(run.outcome == "solved" for run in runs):
            sentences = fewer
    return task.model_copy(update=_build_shortened(task, sentences))


def _build_shortened(task: TaskDraft, sentences: Sequence[str]) -> dict[str, object]:
    words = " ".join(sentences)
    if words == " ".join(split_sentences(task.instruction)):
        return {}
    return {"instruction": words}

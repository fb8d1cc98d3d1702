"""Model for every role without any LLM: author replies come from files, the others from programs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from synthesis.contracts import Message, Tool, Usage
from synthesis.errors import LLMError
from synthesis.formats.answer_form import SUBMIT_ANSWER
from synthesis.llm.calls import StageCall
from synthesis.llm.chat import Reply
from synthesis.prompts import get_prompt
from synthesis.scripted import author
from synthesis.scripted.errands import ERRANDS
from synthesis.scripted.errands.errand import make_errand_recipe
from synthesis.scripted.errors import MissingReply
from synthesis.scripted.library import load_theme
from synthesis.scripted.planted import list_planted_faults
from synthesis.scripted.programs import checker, judge, solver, tester, user
from synthesis.scripted.programs.prompt_reader import parse_rendered
from synthesis.scripted.programs.recipes import RECIPES
from synthesis.scripted.programs.solver import Recipe
from synthesis.scripted.programs.written_programs import make_program_recipe
from synthesis.scripted.requests import REQUESTS
from synthesis.scripted.requests.request import make_request_recipe

OBSERVATION = "Observation: "
_SUBMIT = Tool(name=SUBMIT_ANSWER, kind="change", parameters={"type": "object", "properties": {}, "required": []})


def is_react_call(call: StageCall) -> bool:
    """Return whether an agent is instructed to write its calls in this style."""
    return not call.tools and get_prompt("agent", "react").text.partition("\n")[0] in call.messages[0].content


def take_turn(call: StageCall, recipes: tuple[Recipe, ...]) -> Message:
    """Return the next turn, in words."""
    native = call.model_copy(update={"messages": tuple(_spell_natively(call)), "tools": (_SUBMIT,)})
    native_turn = solver.take_turn(native, recipes)
    if not native_turn.tool_calls:
        return Message(role="assistant", content=f"Thought: nothing is left to call\nAnswer: {native_turn.content}")
    tool_call = native_turn.tool_calls[0]
    arguments_text = json.dumps(tool_call.arguments, ensure_ascii=False)
    if tool_call.name == SUBMIT_ANSWER:
        words = (
            f"Thought: {native_turn.content}\nAnswer: {arguments_text if tool_call.arguments else native_turn.content}"
        )
    else:
        words = f"Thought: {native_turn.reasoning}\nAction: {tool_call.name}\nAction Input: {arguments_text}"
    return Message(role="assistant", content=words)


def _spell_natively(call: StageCall) -> Iterator[Message]:
    for message in call.messages:
        if message.role == "user" and message.content.startswith(OBSERVATION):
            yield Message(role="tool", content=message.content.removeprefix(OBSERVATION))
        else:
            yield message


CHARACTERS_A_TOKEN = 4
ESTIMATED = "scripted (tokens estimated)"
"""What replies name as their model: no tokenizer counted them."""


@dataclass(frozen=True)
class ScriptedModel:
    """Scripted provider, as one model for all roles. The same call always gets the same reply.

    It waits `latency_s` before each reply. Usage is estimated at four characters per token.
    """

    latency_s: float = 0.0
    name: str = "scripted"

    async def answer(self, call: StageCall) -> Reply:
        """Return the reply. Raise LLMError (`refused`) if none is written: for an unknown theme, role or stage."""
        await asyncio.sleep(self.latency_s)
        message = _find_planted_reply(call) or _build_message(call)
        return Reply(
            message=message,
            finish_reason="tool_calls" if message.tool_calls else "stop",
            usage=_estimate_usage(call, message),
            model=ESTIMATED,
        )


def _find_planted_reply(call: StageCall) -> Message | None:
    """Return the planted reply that replaces this one."""
    site, part = call.site, author.get_item_path(call.site.item)
    for fault in list_planted_faults():
        # Only variants that test the consistency of a task have it solved in ReAct style.
        if fault.role == "teacher" and fault.variant and not is_react_call(call):
            continue
        if fault.theme == site.theme and fault.is_planted_at(
            site.role, site.stage, part, site.sample, _count_attempts(call)
        ):
            return Message(role="assistant", content=fault.spoil(lambda: _build_message(call).content))
    return None


def _count_attempts(call: StageCall) -> int:
    """Return the number of this reply, from 0: of a question that is asked again, or of a role in a conversation."""
    again = parse_rendered(get_prompt("reply", "again"), call.messages[-1].content)
    if again is not None:
        return int(again["number"])
    return sum(message.role == "assistant" for message in call.messages)


def _build_message(call: StageCall) -> Message:
    role = call.site.role
    try:
        if role == "teacher":
            key = load_theme(call.site.theme).key
            programs = make_program_recipe(load_theme(key).programs.values())
            errands = make_errand_recipe(ERRANDS.get(key, ()))
            recipes = (programs, *RECIPES[key], make_request_recipe(REQUESTS.get(key, ())), errands)
            return take_turn(call, recipes) if is_react_call(call) else solver.take_turn(call, recipes)
        if role == "author":
            return Message(role="assistant", content=author.write_reply(load_theme(call.site.theme), call))
        if role not in PROGRAMS:
            raise MissingReply(f"nothing plays the role {role!r}")
    except MissingReply as missing:
        text = f"The scripted provider cannot answer: {missing}. Choose a live model, or one of the bundled themes."
        raise LLMError("refused", text) from None
    return Message(role="assistant", content=PROGRAMS[role](call))


def _estimate_usage(call: StageCall, message: Message) -> Usage:
    sent = sum(len(turn.content) for turn in call.messages) + sum(len(tool.model_dump_json()) for tool in call.tools)
    replied = len(message.content) + sum(len(tool_call.model_dump_json()) for tool_call in message.tool_calls)
    return Usage(prompt_tokens=_count_tokens(sent), completion_tokens=_count_tokens(replied), requests=1)


def _count_tokens(characters: int) -> int:
    return -(-characters // CHARACTERS_A_TOKEN)


PROGRAMS: dict[str, Callable[[StageCall], str]] = {
    "tester": tester.write_reply,
    "checker": checker.write_reply,
    "user": user.write_reply,
    "judge": judge.write_reply,
}

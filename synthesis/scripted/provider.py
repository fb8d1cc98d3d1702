"""A model for every role that asks nobody: author replies out of files, the others by programs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from synthesis.contracts import Message, Usage
from synthesis.errors import LLMError
from synthesis.llm.calls import StageCall
from synthesis.llm.chat import Reply
from synthesis.prompts import prompt
from synthesis.scripted import author
from synthesis.scripted.library import MissingReply, shelf
from synthesis.scripted.planted import planted
from synthesis.scripted.programs import checker, judge, react, solver, tester, user
from synthesis.scripted.programs.prompt_reader import unrendered
from synthesis.scripted.programs.recipes import RECIPES
from synthesis.scripted.programs.written_programs import recipe_for_programs
from synthesis.scripted.requests import REQUESTS
from synthesis.scripted.requests.request import recipe_for

CHARACTERS_A_TOKEN = 4
ESTIMATED = "scripted (tokens estimated)"
"""What replies name as their model: no tokenizer counted them."""


@dataclass(frozen=True)
class ScriptedModel:
    """The scripted provider, as one model for all roles. The same call always gets the same reply.

    `latency_s` is waited for before each reply. Usage is estimated at four characters a token.
    """

    latency_s: float = 0.0
    name: str = "scripted"

    async def answer(self, call: StageCall) -> Reply:
        """Raises LLMError (`refused`) for what nothing is written for: an unknown theme, role or stage."""
        await asyncio.sleep(self.latency_s)
        message = _planted(call) or _message(call)
        return Reply(
            message=message,
            finish_reason="tool_calls" if message.tool_calls else "stop",
            usage=_usage(call, message),
            model=ESTIMATED,
        )


def _planted(call: StageCall) -> Message | None:
    """The planted reply that takes this one's place."""
    site, part = call.site, author.below(call.site.item)
    for fault in planted():
        if fault.theme == site.theme and fault.stands_at(site.role, site.stage, part, site.sample, _attempt(call)):
            return Message(role="assistant", content=fault.text)
    return None


def _attempt(call: StageCall) -> int:
    """Which reply this is, from 0: of a question that is asked again, or of a role in a conversation."""
    again = unrendered(prompt("reply", "again"), call.messages[-1].content)
    if again is not None:
        return int(again["number"])
    return sum(message.role == "assistant" for message in call.messages)


def _message(call: StageCall) -> Message:
    role = call.site.role
    try:
        if role == "teacher":
            key = shelf(call.site.theme).key
            programs = recipe_for_programs(shelf(key).programs.values())
            recipes = (programs, *RECIPES[key], recipe_for(REQUESTS.get(key, ())))
            return react.act(call, recipes) if react.is_asked(call) else solver.act(call, recipes)
        if role == "author":
            return Message(role="assistant", content=author.reply(shelf(call.site.theme), call))
        if role not in PROGRAMS:
            raise MissingReply(f"nothing plays the role {role!r}")
    except MissingReply as missing:
        text = f"The scripted provider cannot answer: {missing}. Choose a live model, or one of the bundled themes."
        raise LLMError("refused", text) from None
    return Message(role="assistant", content=PROGRAMS[role](call))


def _usage(call: StageCall, message: Message) -> Usage:
    sent = sum(len(turn.content) for turn in call.messages) + sum(len(tool.model_dump_json()) for tool in call.tools)
    replied = len(message.content) + sum(len(tool_call.model_dump_json()) for tool_call in message.tool_calls)
    return Usage(prompt_tokens=_tokens(sent), completion_tokens=_tokens(replied), requests=1)


def _tokens(characters: int) -> int:
    return -(-characters // CHARACTERS_A_TOKEN)


PROGRAMS: dict[str, Callable[[StageCall], str]] = {
    "tester": tester.answer,
    "checker": checker.answer,
    "user": user.answer,
    "judge": judge.answer,
}

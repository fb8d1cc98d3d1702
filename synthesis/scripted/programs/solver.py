"""The teacher: acts by recipes, one a kind of request, that read the words and what the tools returned.

A recipe is a generator: it yields calls, is sent what they returned, and gives what it tells a user and the answer to
submit. What was returned so far stands in the messages, so a recipe is run again from its beginning at every turn and
nothing is remembered.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any

from synthesis.contracts import Message, Tool, ToolCall
from synthesis.formats.answer_form import SUBMIT_ANSWER
from synthesis.llm.calls import StageCall
from synthesis.prompts import prompt
from synthesis.scripted.programs.user import NOTHING_MORE
from synthesis.syntax import UNREADABLE, literal

Made = tuple[str, dict[str, Any]]
Steps = Generator[Made, dict[str, Any], tuple[str, dict[str, Any]]]
"""Yields calls, and gives what is said in the end and the answer."""
Recipe = Callable[[str], Steps | None]
"""The steps for a request in words; None where the recipe is for another one."""
ASK = "Gladly. What else should I know before I begin?"
ASK_ON = "I see. Is there anything more to it?"
LOST = "I do not know how to do this. What exactly should be done?"
GAVE_UP = "I looked into it, but I could not finish it."


@dataclass(frozen=True)
class Finished:
    """What is said in the end, and the values that were found."""

    words: str
    answer: dict[str, Any] = field(default_factory=dict)


def act(call: StageCall, recipes: tuple[Recipe, ...]) -> Message:
    """The next turn: a call, a question to the user, what the user is told in the end, or the answer."""
    heard = [message.content for message in call.messages if message.role == "user"]
    talking = call.messages[0].content.startswith(_opening())
    over = not talking or prompt("agent", "talk_ended_by_call").text in heard
    words = " ".join(heard)
    if not over and NOTHING_MORE not in words:
        return _said(ASK if len(heard) == 1 else ASK_ON)
    steps = next((steps for recipe in recipes if (steps := recipe(words)) is not None), None)
    if steps is None:
        made: Made | Finished = Finished(LOST)
    else:
        made = _next_step(_varied(steps, call), [turn.content for turn in call.messages if turn.role == "tool"])
    if isinstance(made, Finished):
        form = next((tool for tool in call.tools if tool.name == SUBMIT_ANSWER), None)
        return _submitted(made, form) if over and form is not None else _said(made.words)
    name, arguments = made
    number = sum(turn.role == "tool" for turn in call.messages)
    asked = ToolCall(id=f"call_{number + 1}", name=name, arguments=arguments)
    return Message(role="assistant", reasoning=f"{number} results are in; {name} comes next.", tool_calls=(asked,))


def _opening() -> str:
    """How the system message of a conversation begins."""
    return prompt("agent", "conversation").text.partition("\n")[0]


def _said(words: str) -> Message:
    return Message(role="assistant", content=words)


def _submitted(made: Finished, form: Tool) -> Message:
    """The answer, with a guess for each field that must be filled and was not found."""
    fields = form.parameters["properties"]
    given = {name: _guess(fields[name]) for name in form.parameters["required"]} | made.answer
    asked = ToolCall(id="answer", name=SUBMIT_ANSWER, arguments=given)
    return Message(role="assistant", content=made.words, tool_calls=(asked,))


def _guess(schema: dict[str, Any]) -> Any:
    if schema["type"] == "string":
        return schema.get("enum", ["2000-01-01" if schema.get("format") == "date" else "unknown"])[0]
    return 0


def _varied(steps: Steps, call: StageCall) -> Steps:
    """Runs of one task differ by sample: of `solve` the first looks around before it begins, the third gives up; of
    `rollout` every other one looks around."""
    if call.site.stage != "solve":
        return _with_detour(steps, call.tools) if call.site.sample % 2 else steps
    way = call.site.sample % 3
    if way == 0:
        return _with_detour(steps, call.tools)
    return steps if way == 1 else _given_up(steps)


def _with_detour(steps: Steps, tools: tuple[Tool, ...]) -> Steps:
    """Every query that needs no argument comes first."""
    for tool in tools:
        if tool.kind == "query" and tool.name != SUBMIT_ANSWER and not tool.parameters.get("required"):
            yield tool.name, {}
    return (yield from steps)


def _given_up(steps: Steps) -> Steps:
    """One look, and no more."""
    yield next(steps)
    return GAVE_UP, {}


def _next_step(steps: Steps, returned: list[str]) -> Made | Finished:
    """What the steps come to after everything that was returned."""
    try:
        made = next(steps)
        for text in returned:
            made = steps.send(_read(text))
    except StopIteration as end:
        return Finished(*end.value)
    except (KeyError, IndexError, TypeError, ValueError):
        return Finished(GAVE_UP)
    return made


def _read(text: str) -> dict[str, Any]:
    """What a tool returned, as the observation spells it."""
    try:
        returned = literal(text)
    except (TypeError, *UNREADABLE):
        return {}
    return returned if isinstance(returned, dict) else {"result": returned}

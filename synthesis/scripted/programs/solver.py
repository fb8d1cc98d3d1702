"""The teacher: acts by recipes, one a kind of request, that read the words and what the tools returned.

A recipe is a generator: it yields calls, is sent what they returned, and gives the answer. What was returned so far
stands in the messages, so a recipe is run again from its beginning at every turn and nothing is remembered.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from synthesis.contracts import Message, Tool, ToolCall
from synthesis.llm.calls import StageCall
from synthesis.prompts import prompt
from synthesis.scripted.programs.user import NOTHING_MORE
from synthesis.syntax import UNREADABLE, literal

Made = tuple[str, dict[str, Any]]
Steps = Generator[Made, dict[str, Any], str]
Recipe = Callable[[str], Steps | None]
"""The steps for a request in words; None where the recipe is for another one."""
ASK = "Gladly. What else should I know before I begin?"
ASK_ON = "I see. Is there anything more to it?"
LOST = "I do not know how to do this. What exactly should be done?"
GAVE_UP = "I looked into it, but I could not finish it."


def act(call: StageCall, recipes: tuple[Recipe, ...]) -> Message:
    """The next turn: a call, a question to the user, or the answer."""
    talking = call.messages[0].content.startswith(_opening())
    heard = [message.content for message in call.messages if message.role == "user"]
    words = " ".join(heard)
    if talking and NOTHING_MORE not in words:
        return _said(ASK if len(heard) == 1 else ASK_ON)
    recipe_steps = next((steps for recipe in recipes if (steps := recipe(words)) is not None), None)
    if recipe_steps is None:
        return _said(LOST)
    steps = _varied(recipe_steps, call)
    return _turn(steps, [message.content for message in call.messages if message.role == "tool"])


def _opening() -> str:
    """How the system message of a conversation begins."""
    return prompt("agent", "conversation").text.partition("\n")[0]


def _said(words: str) -> Message:
    return Message(role="assistant", content=words)


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
        if tool.kind == "query" and not tool.parameters.get("required"):
            yield tool.name, {}
    return (yield from steps)


def _given_up(steps: Steps) -> Steps:
    """One look, and no more."""
    yield next(steps)
    return GAVE_UP


def _turn(steps: Steps, returned: list[str]) -> Message:
    """What the steps come to after everything that was returned."""
    try:
        made = next(steps)
        for text in returned:
            made = steps.send(_read(text))
    except StopIteration as end:
        return _said(end.value)
    except (KeyError, IndexError, TypeError, ValueError):
        return _said(GAVE_UP)
    name, arguments = made
    thought = f"{len(returned)} results are in; {name} comes next."
    asked = ToolCall(id=f"call_{len(returned) + 1}", name=name, arguments=arguments)
    return Message(role="assistant", reasoning=thought, tool_calls=(asked,))


def _read(text: str) -> dict[str, Any]:
    """What a tool returned, as the observation spells it."""
    try:
        returned = literal(text)
    except (TypeError, *UNREADABLE):
        return {}
    return returned if isinstance(returned, dict) else {"result": returned}

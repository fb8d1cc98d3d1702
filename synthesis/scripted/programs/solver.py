"""Teacher that acts by recipes, one per kind of request, that read the words and the results of the tools.

A recipe is a generator: it yields calls, is sent their results, and returns the final message and the answer to submit.
The results so far are in the messages, so a recipe is run again from its beginning at every turn and keeps no state.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any

from synthesis.contracts import Message, Tool, ToolCall
from synthesis.formats.answer_form import SUBMIT_ANSWER
from synthesis.llm.calls import StageCall
from synthesis.prompts import get_prompt
from synthesis.scripted.programs.user import NOTHING_MORE
from synthesis.syntax import UNREADABLE, read_literal

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
    """Final message, and the values that were found."""

    words: str
    answer: dict[str, Any] = field(default_factory=dict)


def take_turn(call: StageCall, recipes: tuple[Recipe, ...]) -> Message:
    """Return the next turn: a call, a question to the user, the final message, or the answer."""
    heard = [message.content for message in call.messages if message.role == "user"]
    talking = call.messages[0].content.startswith(_get_opening())
    over = not talking or get_prompt("agent", "talk_ended_by_call").text in heard
    words = " ".join(heard)
    if not over and NOTHING_MORE not in words:
        return _build_message(ASK if len(heard) == 1 else ASK_ON)
    steps = next((steps for recipe in recipes if (steps := recipe(words)) is not None), None)
    if steps is None:
        step: Made | Finished = Finished(LOST)
    else:
        step = _run_to_next_step(
            _vary_steps(steps, call), [turn.content for turn in call.messages if turn.role == "tool"]
        )
    if isinstance(step, Finished):
        form = next((tool for tool in call.tools if tool.name == SUBMIT_ANSWER), None)
        return _build_submission(step, form) if over and form is not None else _build_message(step.words)
    name, arguments = step
    number = sum(turn.role == "tool" for turn in call.messages)
    tool_call = ToolCall(id=f"call_{number + 1}", name=name, arguments=arguments)
    return Message(role="assistant", reasoning=f"{number} results are in; {name} comes next.", tool_calls=(tool_call,))


def _get_opening() -> str:
    """Return the beginning of the system message of a conversation."""
    return get_prompt("agent", "conversation").text.partition("\n")[0]


def _build_message(words: str) -> Message:
    return Message(role="assistant", content=words)


def _build_submission(made: Finished, form: Tool) -> Message:
    """Return the answer, with a guess for each required field that was not found."""
    fields = form.parameters["properties"]
    answer_values = {name: _guess_value(fields[name]) for name in form.parameters["required"]} | made.answer
    tool_call = ToolCall(id="answer", name=SUBMIT_ANSWER, arguments=answer_values)
    return Message(role="assistant", content=made.words, tool_calls=(tool_call,))


def _guess_value(schema: dict[str, Any]) -> Any:
    if schema["type"] == "string":
        return schema.get("enum", ["2000-01-01" if schema.get("format") == "date" else "unknown"])[0]
    return 0


def _vary_steps(steps: Steps, call: StageCall) -> Steps:
    """Vary the runs of one task by sample.

    The first run of `solve` looks around before it begins, the third gives up; every other run of `rollout` looks
    around.
    """
    if call.site.stage != "solve":
        return _add_detour(steps, call.tools) if call.site.sample % 2 else steps
    variation = call.site.sample % 3
    if variation == 0:
        return _add_detour(steps, call.tools)
    return steps if variation == 1 else _give_up(steps)


def _add_detour(steps: Steps, tools: tuple[Tool, ...]) -> Steps:
    """Make every query that needs no argument first."""
    for tool in tools:
        if tool.kind == "query" and tool.name != SUBMIT_ANSWER and not tool.parameters.get("required"):
            yield tool.name, {}
    return (yield from steps)


def _give_up(steps: Steps) -> Steps:
    """Make one call and give up."""
    yield next(steps)
    return GAVE_UP, {}


def _run_to_next_step(steps: Steps, returned: list[str]) -> Made | Finished:
    """Return the next step after all results so far."""
    try:
        next_call = next(steps)
        for text in returned:
            next_call = steps.send(_parse_result(text))
    except StopIteration as end:
        return Finished(*end.value)
    except (KeyError, IndexError, TypeError, ValueError):
        return Finished(GAVE_UP)
    return next_call


def _parse_result(text: str) -> dict[str, Any]:
    """Return the result of a tool, parsed from the observation."""
    try:
        returned = read_literal(text)
    except (TypeError, *UNREADABLE):
        return {}
    return returned if isinstance(returned, dict) else {"result": returned}

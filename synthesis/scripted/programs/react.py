"""Teacher in ReAct style: the native calls of the solver, spelled as Thought, Action and Answer."""

from __future__ import annotations

import json
from collections.abc import Iterator

from synthesis.contracts import Message, Tool
from synthesis.formats.answer_form import SUBMIT_ANSWER
from synthesis.llm.calls import StageCall
from synthesis.prompts import get_prompt
from synthesis.scripted.programs import solver
from synthesis.scripted.programs.solver import Recipe

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

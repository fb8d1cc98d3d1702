"""The teacher in ReAct style: what the solver would call natively, spelled as Thought, Action and Answer."""

from __future__ import annotations

import json
from collections.abc import Iterator

from synthesis.contracts import Message, Tool
from synthesis.formats.answer_form import SUBMIT_ANSWER
from synthesis.llm.calls import StageCall
from synthesis.prompts import prompt
from synthesis.scripted.programs import solver
from synthesis.scripted.programs.solver import Recipe

OBSERVATION = "Observation: "
_SUBMIT = Tool(name=SUBMIT_ANSWER, kind="change", parameters={"type": "object", "properties": {}, "required": []})


def is_asked(call: StageCall) -> bool:
    """Whether an agent is told to write its calls in this style."""
    return not call.tools and prompt("agent", "react").text.partition("\n")[0] in call.messages[0].content


def act(call: StageCall, recipes: tuple[Recipe, ...]) -> Message:
    """The next turn, in words."""
    native = call.model_copy(update={"messages": tuple(_spell_natively(call)), "tools": (_SUBMIT,)})
    made = solver.act(native, recipes)
    if not made.tool_calls:
        return Message(role="assistant", content=f"Thought: nothing is left to call\nAnswer: {made.content}")
    asked = made.tool_calls[0]
    given = json.dumps(asked.arguments, ensure_ascii=False)
    if asked.name == SUBMIT_ANSWER:
        words = f"Thought: {made.content}\nAnswer: {given if asked.arguments else made.content}"
    else:
        words = f"Thought: {made.reasoning}\nAction: {asked.name}\nAction Input: {given}"
    return Message(role="assistant", content=words)


def _spell_natively(call: StageCall) -> Iterator[Message]:
    for message in call.messages:
        if message.role == "user" and message.content.startswith(OBSERVATION):
            yield Message(role="tool", content=message.content.removeprefix(OBSERVATION))
        else:
            yield message

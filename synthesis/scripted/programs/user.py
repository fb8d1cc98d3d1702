"""The user of a conversation: tells its intent sentence by sentence, and ends the talk once all of it is said and done.

It adds nothing to its intent. What the assistant asks for and the intent does not hold, it does not remember.
"""

from __future__ import annotations

import re

from synthesis.llm.calls import StageCall
from synthesis.prompts import prompt
from synthesis.scripted.programs.prompt_reader import unrendered

_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
NOTHING_MORE = "That is everything."
THANKS = "Thank you, that is all I wanted."
"""Begins with no fact: a user who ends the talk says only this."""


def answer(call: StageCall) -> str:
    """The user's next line."""
    intent, stop = _role(call.messages[0].content)
    told = [message.content for message in call.messages if message.role == "assistant"]
    heard = [message.content for message in call.messages if message.role == "user"]
    left = [part for part in sentences(intent) if part not in told]
    asked = heard[-1].rstrip().endswith("?") if heard else True
    if left:
        return left[0]
    return NOTHING_MORE if asked and NOTHING_MORE not in told else f"{THANKS}\n{stop}"


def sentences(intent: str) -> list[str]:
    return [part.strip() for part in _END.split(" ".join(intent.split())) if part.strip()]


def _role(text: str) -> tuple[str, str]:
    text = text.removeprefix(f"{prompt('user', 'tools').render()}\n\n")  # it has tools, and needs none
    for kind in ("optimised", "base"):
        shown = unrendered(prompt("user", kind), text)
        if shown is not None:
            return shown["intent"], shown["stop"]
    return text, "###STOP###"

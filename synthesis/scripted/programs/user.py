"""User of a conversation: states its intent sentence by sentence, and ends the talk once all of it is said and done.

It adds nothing to its intent. It does not remember answers that are not in the intent.
"""

from __future__ import annotations

import re

from synthesis.llm.calls import StageCall
from synthesis.prompts import get_prompt
from synthesis.scripted.programs.prompt_reader import parse_rendered

_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
NOTHING_MORE = "That is everything."
THANKS = "Thank you, that is all I wanted."
"""Begins with no fact: a user who ends the talk says only this."""


def write_reply(call: StageCall) -> str:
    """Return the user's next line."""
    intent, stop = _read_role(call.messages[0].content)
    own_lines = [message.content for message in call.messages if message.role == "assistant"]
    heard = [message.content for message in call.messages if message.role == "user"]
    unsaid = [part for part in split_sentences(intent) if part not in own_lines]
    is_asked = heard[-1].rstrip().endswith("?") if heard else True
    if unsaid:
        return unsaid[0]
    return NOTHING_MORE if is_asked and NOTHING_MORE not in own_lines else f"{THANKS}\n{stop}"


def split_sentences(intent: str) -> list[str]:
    return [part.strip() for part in _END.split(" ".join(intent.split())) if part.strip()]


def _read_role(text: str) -> tuple[str, str]:
    text = text.removeprefix(f"{get_prompt('user', 'tools').render()}\n\n")  # it has tools, and needs none
    for kind in ("optimised", "base"):
        prompt_values = parse_rendered(get_prompt("user", kind), text)
        if prompt_values is not None:
            return prompt_values["intent"], prompt_values["stop"]
    return text, "###STOP###"

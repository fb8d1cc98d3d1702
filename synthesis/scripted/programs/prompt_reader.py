"""Values in a prompt, parsed by the prompt file that it was rendered from, so that wording may change."""

from __future__ import annotations

import json
import re
from typing import Any

from synthesis.assessment.prompt_values import parse_tables
from synthesis.llm.calls import StageCall
from synthesis.prompts import FORM_PLACE, SEPARATOR, Prompt, get_prompt
from synthesis.scripted.errors import MissingReply

_PLACE = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_OPENING = re.compile(r"\s*(=== .{1,200} ===)\n")
_FENCE = re.compile(r"\A\s*(=== .{1,200} ===)\n(.*)\n\1\s*\Z", re.DOTALL)


def parse_rendered(prompt: Prompt, text: str) -> dict[str, str] | None:
    """Return the values of a prompt's variables in a rendered text, which may go on after it; None for another text.

    Values are as short as the next words of the prompt allow, and without their fence.
    """
    text = text.replace(FORM_PLACE, SEPARATOR.lstrip(), 1)
    fixed, line, rest = prompt.text.partition(SEPARATOR)
    start = text.find(SEPARATOR, len(fixed)) + len(SEPARATOR) if line else 0
    if line and (not text.startswith(fixed) or start < len(SEPARATOR)):
        return None
    pieces = _PLACE.split(rest if line else prompt.text)
    words, names = pieces[::2], pieces[1::2]
    values: dict[str, str] = {}
    position = start + len(words[0])
    if not text.startswith(words[0], start):
        return None
    for number, name in enumerate(names):
        if name in values:
            end = position + len(values[name])
        else:
            after = _get_following_text(words, names, number, values)
            end = _find_end(text, position, after) if after.strip() else _find_last_end(text, position)
        if end < position:
            return None
        values.setdefault(name, text[position:end])
        position = end + len(words[number + 1])
    return {name: strip_fence(value) for name, value in values.items()}


def read_prompt(part: str, name: str, call: StageCall) -> dict[str, str]:
    """Return the values in the prompt `part`/`name` that a call was rendered from. Raise MissingReply for another."""
    values = parse_rendered(get_prompt(part, name), call.messages[0].content)
    if values is None:
        raise MissingReply(f"the prompt {part}/{name} could not be read back")
    return values


def _get_following_text(words: list[str], names: list[str], number: int, values: dict[str, str]) -> str:
    """Return the text after a place: the prompt's words up to the next value that is not known yet."""
    after = words[number + 1]
    for later in range(number + 1, len(names)):
        if names[later] not in values:
            break
        after += values[names[later]] + words[later + 1]
    return after


def _find_end(text: str, position: int, after: str) -> int:
    """Return the end of a value: at the next words of the prompt, and not inside a fence that it opens."""
    opening = _OPENING.match(text, position)
    start = text.find("\n" + opening[1], opening.end()) if opening else position
    return text.find(after, max(start, position))


def _find_last_end(text: str, position: int) -> int:
    """Return the end of the last value: with the fence that it opens, or with the text."""
    opening = _OPENING.match(text, position)
    close = text.find("\n" + opening[1], opening.end() - 1) if opening else -1
    return close + 1 + len(opening[1]) if opening and close >= 0 else len(text)


def strip_fence(value: str) -> str:
    """Return a value without the fence around it."""
    fenced = _FENCE.match(value)
    return fenced[2] if fenced else value


def parse_json(value: str) -> Any:
    """Return the JSON content of a value, tables read back, or None if it was cut short."""
    try:
        return parse_tables(json.loads(value))
    except (ValueError, RecursionError):
        return None


def list_changed_places(changes: Any) -> list[str]:
    """Return the changes of a JSON Patch, each once: a record by its key, or a field of it; the state's own fields by
    name.
    """
    operations = changes if isinstance(changes, list) else []
    places = [str(one.get("path", "")).split("/")[1:] for one in operations if isinstance(one, dict)]
    return list(dict.fromkeys(" ".join(place[1:] or place) for place in places))

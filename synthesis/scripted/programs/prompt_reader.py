"""What stands in a prompt: read back by the prompt file that it was rendered from, so that wording may change."""

from __future__ import annotations

import json
import re
from typing import Any

from synthesis.assessment.prompt_values import untabled
from synthesis.prompts import FORM_PLACE, SEPARATOR, Prompt

_PLACE = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_OPENING = re.compile(r"\s*(=== .{1,200} ===)\n")
_FENCE = re.compile(r"\A\s*(=== .{1,200} ===)\n(.*)\n\1\s*\Z", re.DOTALL)


def unrendered(prompt: Prompt, text: str) -> dict[str, str] | None:
    """The values of a prompt's variables in a rendered text, which may go on after it; None for another text.

    Values are taken as short as the next words of the prompt allow, and out of their fence.
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
            after = _following(words, names, number, values)
            end = _end(text, position, after) if after.strip() else _last_end(text, position)
        if end < position:
            return None
        values.setdefault(name, text[position:end])
        position = end + len(words[number + 1])
    return {name: bare(value) for name, value in values.items()}


def _following(words: list[str], names: list[str], number: int, values: dict[str, str]) -> str:
    """What stands behind a place: the prompt's words up to the next value that is not known yet."""
    after = words[number + 1]
    for later in range(number + 1, len(names)):
        if names[later] not in values:
            break
        after += values[names[later]] + words[later + 1]
    return after


def _end(text: str, position: int, after: str) -> int:
    """Where a value ends: at the next words of the prompt, and not inside a fence that it opens."""
    opening = _OPENING.match(text, position)
    start = text.find("\n" + opening[1], opening.end()) if opening else position
    return text.find(after, max(start, position))


def _last_end(text: str, position: int) -> int:
    """Where the last value ends: with the fence that it opens, or with the text."""
    opening = _OPENING.match(text, position)
    close = text.find("\n" + opening[1], opening.end() - 1) if opening else -1
    return close + 1 + len(opening[1]) if opening and close >= 0 else len(text)


def bare(value: str) -> str:
    """A value without the fence around it."""
    fenced = _FENCE.match(value)
    return fenced[2] if fenced else value


def as_json(value: str) -> Any:
    """What JSON a value holds, tables read back, or None where it was cut short."""
    try:
        return untabled(json.loads(value))
    except (ValueError, RecursionError):
        return None

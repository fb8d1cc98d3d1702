"""Sources of a call's values: each stands in the words of the task, in an executed result or in the tool's own
documentation, or is worked out by code. A value that stands nowhere is dangling, and refused."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Mapping
from typing import Any

from synthesis.contracts import NodeArgument, Tool
from synthesis.errors import InputError

_NUMBER = re.compile(r"(?<![\w.])(?<!\w-)\d[\d,]*(?:\.\d+)?(?![\w])")
_WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
SHOWN = 120


def is_said(words: str, value: Any) -> bool:
    """Whether a value stands in the words of a task: texts as whole words in any case, numbers as digits or small ones
    in words, dates also as a day and the name of its month, each item of a list, each value of an object. True, false
    and nothing are how words are meant, and count as said."""
    if value is None or isinstance(value, bool):
        return True
    if isinstance(value, list):
        return all(is_said(words, item) for item in value)
    if isinstance(value, dict):
        return all(is_said(words, item) for item in value.values())
    if isinstance(value, int | float):
        return value in _numbers(words)
    text = _plain(str(value))
    stands = re.search(rf"(?<!\w){re.escape(text)}(?!\w)", _plain(words)) is not None
    return not text or stands or _is_dated(words, str(value))


def is_held(result: Any, value: Any) -> bool:
    """Whether a value stands anywhere in a result, as a value or a key; of a list, each of its items."""
    if result == value and isinstance(result, bool) == isinstance(value, bool):
        return True
    if isinstance(result, dict):
        if any(key == value or is_held(item, value) for key, item in result.items()):
            return True
    elif isinstance(result, list) and any(is_held(item, value) for item in result):
        return True
    return isinstance(value, list) and bool(value) and all(is_held(result, item) for item in value)


def is_documented(tool: Tool, value: Any) -> bool:
    """Whether a value is one that the tool's description or schema names, or is true, false or nothing."""
    if value is None or isinstance(value, bool):
        return True
    told = f"{tool.description} {json.dumps(tool.parameters, ensure_ascii=False)}"
    return isinstance(value, str | int | float) and bool(str(value)) and str(value).casefold() in told.casefold()


def require_source(argument: NodeArgument, words: str, results: Mapping[str, Any], tool: Tool) -> None:
    """Raises InputError: the value of an argument does not stand where it is said to come from. Derived ones are worked
    out, so they are not looked at."""
    told = f"{argument.name} = {json.dumps(argument.value, ensure_ascii=False)[:SHOWN]}"
    if argument.source == "intent" and not is_said(words, argument.value):
        raise InputError(f"{told} is said to come from the intent, which does not say it: it dangles")
    if argument.source == "tool" and not is_documented(tool, argument.value):
        raise InputError(f"{told} is said to be a documented choice of {tool.name}, whose documentation lacks it")
    if argument.source != "result":
        return
    unknown = [name for name in argument.nodes if name not in results]
    if unknown or not argument.nodes:
        which = unknown[0] if unknown else "no node"
        raise InputError(f"{told} is said to be a result of {which}; executed are {', '.join(results) or 'none'}")
    if not any(is_held(results[name], argument.value) for name in argument.nodes):
        raise InputError(f"{told} does not stand in the result of {', '.join(argument.nodes)}: it dangles")


def _numbers(words: str) -> set[float]:
    found = {float(match[0].replace(",", "").rstrip(".")) for match in _NUMBER.finditer(words)}
    spoken = set(re.findall(r"[a-z]+", words.casefold()))
    return found | {float(number) for number, word in enumerate(_WORDS) if word in spoken}


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


def _is_dated(words: str, value: str) -> bool:
    try:
        day = datetime.date.fromisoformat(value[:10])
    except ValueError:
        return False
    plain = _plain(words)
    return day.strftime("%B").casefold() in plain and re.search(rf"\b{day.day}(?:st|nd|rd|th)?\b", plain) is not None

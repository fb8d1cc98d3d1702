"""Sources of a call's values: each value occurs in the words of the task, in an executed result or in the tool's own
documentation, or is derived by code. A value without a source is dangling, and refused.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from synthesis.contracts import NodeArgument, Tool
from synthesis.errors import InputError

_NUMBER = re.compile(r"(?<![\w.])(?<!\w-)\d[\d,]*(?:\.\d+)?(?![\w])")
_WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
_EXAMPLE = re.compile(r"\b(?:such as|for example|e\.g\.),? ?(?:\"[^\"\n]*\"|'[^'\n]*'|`[^`\n]*`|\S+)", re.IGNORECASE)
SHOWN = 120
MOST_DEPTH = 6
"""Levels of a schema in which choices are looked for."""


def is_said(words: str, value: Any) -> bool:
    """Return whether a value occurs in the words of a task: texts as whole words in any case, numbers as digits or
    small ones in words, dates also as a day and the name of its month, each item of a list, each value of an object.
    True, false and null depend on the meaning of the words, and count as said.
    """
    if value is None or isinstance(value, bool):
        return True
    if isinstance(value, list):
        return all(is_said(words, item) for item in value)
    if isinstance(value, dict):
        return all(is_said(words, item) for item in value.values())
    if isinstance(value, int | float):
        return value in _find_numbers(words)
    text = _normalize_text(str(value))
    stands = re.search(rf"(?<!\w){re.escape(text)}(?!\w)", _normalize_text(words)) is not None
    return not text or stands or _has_date(words, str(value))


def is_held(result: Any, value: Any) -> bool:
    """Return whether a value occurs anywhere in a result, as a value or a key; of a list, each of its items."""
    if result == value and isinstance(result, bool) == isinstance(value, bool):
        return True
    if isinstance(result, dict):
        if any(key == value or is_held(item, value) for key, item in result.items()):
            return True
    elif isinstance(result, list) and any(is_held(item, value) for item in result):
        return True
    return isinstance(value, list) and bool(value) and all(is_held(result, item) for item in value)


def is_choice(tool: Tool, parameter: str, value: Any) -> bool:
    """Return whether the schema of a parameter lists a text or number among its allowed values, at any depth."""
    is_plain = isinstance(value, str | int | float) and not isinstance(value, bool)
    rule = (tool.parameters.get("properties") or {}).get(parameter)
    return is_plain and any(value == choice and not isinstance(choice, bool) for choice in _list_choices(rule))


def is_documented(tool: Tool, parameter: str, value: Any) -> bool:
    """Return whether a value is a choice of the parameter, occurs as a whole word in the tool's documentation (of a
    parameter without choices, and not as an example), or is true, false or null.
    """
    if value is None or isinstance(value, bool) or is_choice(tool, parameter, value):
        return True
    rule = (tool.parameters.get("properties") or {}).get(parameter)
    if any(True for _ in _list_choices(rule)) or not isinstance(value, str | int | float) or not str(value).strip():
        return False
    described = rule.get("description", "") if isinstance(rule, dict) else ""
    documented_words = _normalize_text(_EXAMPLE.sub(" ", f"{tool.description}\n{described}"))
    return re.search(rf"(?<!\w){re.escape(_normalize_text(str(value)))}(?!\w)", documented_words) is not None


def mark_documented_choice(argument: NodeArgument, words: str, tool: Tool) -> NodeArgument:
    """Return the argument with its source changed from the intent to the documentation if its value is a choice of the
    schema that the words express otherwise, or that is spelled as in code, which refined words may not repeat.
    """
    if argument.source != "intent" or not is_choice(tool, argument.name, argument.value):
        return argument
    if is_said(words, argument.value) and "_" not in str(argument.value):
        return argument
    return argument.model_copy(update={"source": "tool"})


def require_source(argument: NodeArgument, words: str, results: Mapping[str, Any], tool: Tool) -> None:
    """Raise InputError if the value of an argument does not occur in its stated source. Derived values are computed, so
    they are not checked.
    """
    argument_text = f"{argument.name} = {json.dumps(argument.value, ensure_ascii=False)[:SHOWN]}"
    if argument.source == "intent" and not is_said(words, argument.value):
        raise InputError(f"{argument_text} is said to come from the intent, which does not say it in these words")
    if argument.source == "tool" and not is_documented(tool, argument.name, argument.value):
        raise InputError(f"{argument_text} is said to be a choice that {tool.name} names, and it names no such one")
    if argument.source != "result":
        return
    unknown = [name for name in argument.nodes if name not in results]
    if unknown or not argument.nodes:
        which = unknown[0] if unknown else "no node"
        raise InputError(
            f"{argument_text} is said to be a result of {which}; executed are {', '.join(results) or 'none'}"
        )
    if not any(is_held(results[name], argument.value) for name in argument.nodes):
        raise InputError(f"{argument_text} does not stand in the result of {', '.join(argument.nodes)} as it is")


def _list_choices(rule: Any, depth: int = 0) -> Iterator[Any]:
    if not isinstance(rule, dict) or depth > MOST_DEPTH:
        return
    listed_values = rule.get("enum")
    yield from (choice for choice in listed_values if choice is not None) if isinstance(listed_values, list) else ()
    if "const" in rule:
        yield rule["const"]
    joined = [part for join in ("anyOf", "oneOf", "allOf") for part in rule.get(join) or () if isinstance(part, dict)]
    for part in [*joined, rule.get("items")]:
        yield from _list_choices(part, depth + 1)


def _find_numbers(words: str) -> set[float]:
    found = {float(match[0].replace(",", "").rstrip(".")) for match in _NUMBER.finditer(words)}
    spoken = set(re.findall(r"[a-z]+", words.casefold()))
    return found | {float(number) for number, word in enumerate(_WORDS) if word in spoken}


def _normalize_text(text: str) -> str:
    return " ".join(text.casefold().split())


def _has_date(words: str, value: str) -> bool:
    try:
        day = datetime.date.fromisoformat(value[:10])
    except ValueError:
        return False
    plain = _normalize_text(words)
    return day.strftime("%B").casefold() in plain and re.search(rf"\b{day.day}(?:st|nd|rd|th)?\b", plain) is not None

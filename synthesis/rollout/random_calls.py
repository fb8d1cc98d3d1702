"""Random valid calls: the behavior of an agent that follows the schemas and nothing else."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from typing import Any

from synthesis.contracts import DEFAULT_NOW, AnswerField, Message, Tool, ToolCall, Turn
from synthesis.formats.answer_form import SUBMIT_ANSWER
from synthesis.rollout.known_turns import submit_answer
from synthesis.rollout.policy import Conversation
from synthesis.runtime import validate_arguments
from synthesis.syntax import UNREADABLE, read_literal

TRIES = 20
READ_CHARS = 200_000
_IDENTIFIER = re.compile(r"\b(?=\w{0,40}[-_]?\w{0,40}\d)[A-Za-z][\w-]{0,40}\d[\w-]{0,40}\b")
"""Bounded: what an observation holds may be one word of a hundred thousand letters."""
_DATE = re.compile(r"\b\d{4}-\d{2}-\d{2}\b")
_WORD = re.compile(r"\b[A-Z][a-z]{2,}\b")


class RandomPolicy:
    """A policy that makes `calls` random calls, one in each turn, and then says so, or submits an answer that fits the
    form.

    Arguments fit the tools' schemas; ids, dates and names are drawn from what it has seen. The same seed and
    conversation give the same call.
    """

    def __init__(self, *, seed: int, calls: int = 10) -> None:
        self.seed = seed
        self.calls = calls
        self.name = "random calls"

    async def act(self, observation: Conversation) -> Turn:
        chance = random.Random(f"random {self.seed} {observation.turn}")
        form, seen = observation.answer_form, SeenValues(observation.messages)
        tools = tuple(tool for tool in observation.tools if not form or tool.name != SUBMIT_ANSWER)
        ends = observation.turn > self.calls or not tools
        if ends and form:
            return Turn(message=submit_answer(observation.style, _draw_answer(form, seen, chance)))
        if ends:
            return Turn(message=Message(role="assistant", content="Nothing more to try."))
        call = _draw_call(tools, seen, chance)
        if call is None:
            return Turn(message=Message(role="assistant", content="No call fits any tool's schema."))
        return Turn(message=Message(role="assistant", tool_calls=(call,)))


def _draw_call(tools: tuple[Tool, ...], seen: SeenValues, chance: random.Random) -> ToolCall | None:
    for _ in range(TRIES):
        tool = chance.choice(tools)
        arguments = _draw_object(tool.parameters, seen, chance, "", 4)
        if validate_arguments(arguments, tool.parameters) is None:
            return ToolCall(name=tool.name, arguments=arguments)
    return None


def _draw_answer(form: Sequence[AnswerField], seen: SeenValues, chance: random.Random) -> dict[str, Any]:
    return {field.name: _draw_field_value(field, seen, chance) for field in form if field.required}


def _draw_field_value(field: AnswerField, seen: SeenValues, chance: random.Random) -> Any:
    """Return a value of the field's type."""
    if field.items is not None:
        return [_draw_field_value(field.items, seen, chance) for _ in range(chance.randint(0, 3))]
    if field.fields:
        return _draw_answer(field.fields, seen, chance)
    if field.type in ("number", "money", "duration"):
        return _draw_number({}, "integer", seen, chance, field.name)
    if field.type == "date":
        return chance.choice(seen.dates or [DEFAULT_NOW[:10]])
    if field.type == "time":
        return f"{chance.randrange(24):02}:{chance.randrange(60):02}"
    if field.type == "boolean":
        return chance.random() < 0.5
    return chance.choice(field.choices) if field.choices else _draw_text({}, seen, chance, field.name)


class SeenValues:
    """Values in a conversation: by the name they had there, and by their form."""

    def __init__(self, messages: tuple[Message, ...]) -> None:
        self.named: dict[str, list[Any]] = {}
        identifiers: dict[str, None] = {}
        dates: dict[str, None] = {}
        words: dict[str, None] = {}
        left = READ_CHARS
        for message in messages[1:]:
            text = message.content[:left]
            left -= len(text)
            if message.role != "assistant":
                self._read(text)
            identifiers |= dict.fromkeys(_IDENTIFIER.findall(text))
            dates |= dict.fromkeys(_DATE.findall(text))
            words |= dict.fromkeys(_WORD.findall(text))
        self.identifiers, self.dates, self.words = list(identifiers), list(dates), list(words)

    def _read(self, text: str) -> None:
        try:
            observed = read_literal(text.removeprefix("Observation: "))
        except (TypeError, *UNREADABLE):
            return
        for name, value in _iterate_leaves(observed):
            values = self.named.setdefault(name, [])
            if value not in values and len(values) < 200:
                values.append(value)

    def texts(self, name: str) -> list[str]:
        """Return texts for an argument of this name, the most fitting group first."""
        same = [value for value in self.named.get(name, ()) if isinstance(value, str)]
        if same:
            return same
        lowered = name.lower()
        if lowered.endswith(("_id", "id", "_ref", "code", "number")):
            return self.identifiers or self.words
        if any(part in lowered for part in ("date", "day", "start", "end", "from", "until")):
            return self.dates or self.words
        return self.words or self.identifiers


def _iterate_leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _iterate_leaves(item, key if isinstance(key, str) else name)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _iterate_leaves(item, name.removesuffix("s"))
    elif isinstance(value, str | int | float):
        yield name, value


def _draw_value(schema: Any, seen: SeenValues, chance: random.Random, name: str, depth: int) -> Any:
    if not isinstance(schema, dict) or depth <= 0:
        return _draw_text({}, seen, chance, name)
    if schema.get("enum"):
        return chance.choice(schema["enum"])
    if "const" in schema:
        return schema["const"]
    for word in ("anyOf", "oneOf"):
        if schema.get(word):
            return _draw_value(chance.choice(schema[word]), seen, chance, name, depth - 1)
    kind = schema.get("type", "string")
    kind = chance.choice(kind) if isinstance(kind, list) and kind else kind
    if kind == "object":
        return _draw_object(schema, seen, chance, name, depth)
    if kind == "array":
        least = min(int(schema.get("minItems", 0)), 20)
        count = chance.randint(least, max(least, min(int(schema.get("maxItems", 3)), 3)))
        return [_draw_value(schema.get("items"), seen, chance, name.removesuffix("s"), depth - 1) for _ in range(count)]
    if kind in ("integer", "number"):
        return _draw_number(schema, kind, seen, chance, name)
    if kind == "boolean":
        return chance.random() < 0.5
    return None if kind == "null" else _draw_text(schema, seen, chance, name)


def _draw_object(
    schema: dict[str, Any], seen: SeenValues, chance: random.Random, name: str, depth: int
) -> dict[str, Any]:
    properties = schema.get("properties") or {}
    required = set(schema.get("required") or ())
    return {
        key: _draw_value(inner, seen, chance, key, depth - 1)
        for key, inner in properties.items()
        if key in required or chance.random() < 0.3
    }


def _draw_number(schema: dict[str, Any], kind: str, seen: SeenValues, chance: random.Random, name: str) -> int | float:
    least, most = schema.get("minimum", schema.get("exclusiveMinimum", 0)), schema.get("maximum")
    same = [value for value in seen.named.get(name, ()) if isinstance(value, int | float)]
    same = [value for value in same if kind == "number" or isinstance(value, int)]
    if same and chance.random() < 0.7:
        return chance.choice(same)
    top = most if most is not None else least + 20
    return chance.randint(int(least), max(int(least), int(top)))


def _draw_text(schema: dict[str, Any], seen: SeenValues, chance: random.Random, name: str) -> str:
    choices = seen.texts(name)
    text = chance.choice(choices) if choices else "a"
    least, most = min(int(schema.get("minLength", 0)), 2_000), schema.get("maxLength")
    return text.ljust(least, "a")[: int(most) if most is not None else None]

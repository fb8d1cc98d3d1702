"""Encoded values, calls and observations as readable text, and differences between texts."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from synthesis.errors import StateError
from synthesis.runtime.encoding import decode_state, format_decoded
from synthesis.syntax import count_tokens
from webapp.environments.text_difference import BoundedMatcher, DiffBudget
from webapp.trajectories.comparison import UNPARSED, parse_recorded_value

SHORT = 3_000
LONG = 200_000
MOST_TOKENS = 4_000
MOST_LINES = 2_000
READ_TOKENS = 60_000
"""Words and signs of a recorded text that a page still reads as a value: reading takes half a kilobyte for each.
"""
WORDS_STEPS = 500_000
"""Budget of the search for the common parts of two texts, if the page has none of its own."""
TOKENS = re.compile(r"\s+|\w+|[^\w\s]")


@dataclass(frozen=True)
class Text:
    """A text, cut to a size; `total` is its full length."""

    text: str
    total: int
    is_json: bool = False

    @property
    def cut(self) -> int:
        return self.total - len(self.text)


@dataclass(frozen=True)
class Piece:
    """A run of text that is equal, deleted or inserted."""

    kind: str
    text: str

    @property
    def tag(self) -> str:
        """The HTML element for the piece."""
        return self.kind if self.kind in ("ins", "del") else "span"


@dataclass
class TextLine:
    sign: str
    kind: str
    text: str = ""
    pieces: list[Piece] = field(default_factory=list)

    @property
    def shown(self) -> list[Piece]:
        return self.pieces or [Piece("same", self.text)]


def cut_text(text: str, full: bool, is_json: bool = False) -> Text:
    return Text(text[: LONG if full else SHORT], len(text), is_json)


def format_compact(value: Any) -> str:
    """Return a value on one line. Encoded values are shown in their encoding: nothing is hidden."""
    return json.dumps(value, ensure_ascii=False)


def format_pretty(value: Any, full: bool = True) -> Text:
    """Return text as it is, anything else as JSON, with line breaks if one line would be long."""
    if isinstance(value, str):
        return cut_text(value, full)
    line = format_compact(value)
    return cut_text(line if len(line) <= 90 else json.dumps(value, indent=2, ensure_ascii=False), full, True)


def format_call(tool: str, arguments: Any, full: bool) -> Text:
    """Return `tool(name = value, …)`, one argument on each line, the names aligned."""
    if not isinstance(arguments, dict) or not arguments:
        return Text(f"{tool}()", len(tool) + 2)
    wide = min(max(len(str(name)) for name in arguments), 32)
    rows = []
    for name, value in arguments.items():
        text = format_compact(value)
        if len(text) > 90 and isinstance(value, dict | list):
            text = json.dumps(value, indent=2, ensure_ascii=False).replace("\n", "\n  ")
        rows.append(f"  {name!s:<{wide}} = {text}")
    return cut_text(f"{tool}(\n" + ",\n".join(rows) + "\n)", full)


def compare_words(old: str, new: str, budget: DiffBudget | None = None) -> list[Piece]:
    """Return the differences between two texts, word by word; empty if they are too long or have little in common."""
    before, after = TOKENS.findall(old), TOKENS.findall(new)
    if len(before) + len(after) > MOST_TOKENS:
        return []
    matcher = BoundedMatcher(before, after, budget or DiffBudget(WORDS_STEPS), autojunk=False)
    if matcher.quick_ratio() < 0.4:
        return []
    pieces = []
    for kind, a, b, c, d in matcher.get_opcodes():
        if kind == "equal":
            pieces.append(Piece("same", "".join(before[a:b])))
            continue
        if b > a:
            pieces.append(Piece("del", "".join(before[a:b])))
        if d > c:
            pieces.append(Piece("ins", "".join(after[c:d])))
    return pieces


def split_lines(value: Any) -> list[str]:
    text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False, default=str)
    return text[:LONG].splitlines()[:MOST_LINES]


def read_recorded_value(recorded: str) -> Any:
    """Return the value that a recorded text holds; `UNPARSED` for prose, and for values too long to show."""
    return (
        parse_recorded_value(recorded) if len(recorded) <= LONG and count_tokens(recorded) <= READ_TOKENS else UNPARSED
    )


def decode_observation(result: Any) -> Any:
    """Return a stored result as the plain value that an agent saw; as it is stored if Python has no text for it."""
    try:
        format_decoded(result)
        return decode_state(result)
    except StateError:
        return result


def list_departures(recorded: str, result: Any) -> list[TextLine]:
    """Return the recorded observation against the reproduced one, line by line; equal stretches shortened."""
    value = decode_observation(result)
    recorded_value_read = read_recorded_value(recorded)
    try:
        old, new = (
            split_lines(recorded if recorded_value_read is UNPARSED else recorded_value_read),
            split_lines(str(value) if recorded_value_read is UNPARSED else value),
        )
    except (TypeError, ValueError):  # a value of Python that JSON cannot spell
        old, new = split_lines(recorded), split_lines(str(value))
    lines: list[TextLine] = []
    budget = DiffBudget()
    for tag, a, b, c, d in BoundedMatcher(old, new, budget, autojunk=False).get_opcodes():
        if tag == "equal":
            lines += _fold_equal_lines(old[a:b])
            continue
        both = min(b - a, d - c)
        for left, right in zip(old[a : a + both], new[c : c + both], strict=True):
            pieces = compare_words(left, right, budget)
            lines.append(TextLine("-", "del", left, [piece for piece in pieces if piece.kind != "ins"]))
            lines.append(TextLine("+", "add", right, [piece for piece in pieces if piece.kind != "del"]))
        lines += [TextLine("-", "del", text) for text in old[a + both : b]]
        lines += [TextLine("+", "add", text) for text in new[c + both : d]]
    return lines


def _fold_equal_lines(rows: list[str], near: int = 3) -> list[TextLine]:
    if len(rows) <= 2 * near + 1:
        return [TextLine("", "same", text) for text in rows]
    between = len(rows) - 2 * near
    return [
        *(TextLine("", "same", text) for text in rows[:near]),
        TextLine("", "hunk", f"{between} equal lines"),
        *(TextLine("", "same", text) for text in rows[-near:]),
    ]

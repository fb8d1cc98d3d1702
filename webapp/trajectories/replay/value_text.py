"""Encoded values, calls and observations as text that a person reads, and differences between texts."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from synthesis.errors import StateError
from synthesis.runtime.encoding import decode_state, plain_text
from synthesis.syntax import token_count
from webapp.environments.text_difference import BoundedMatcher, DiffBudget
from webapp.trajectories.comparison import UNPARSED, parse

SHORT = 3_000
LONG = 200_000
MOST_TOKENS = 4_000
MOST_LINES = 2_000
READ_TOKENS = 60_000
"""Words and signs of a recorded text that a page still reads as a value: reading takes half a kilobyte for each.
"""
WORDS_STEPS = 500_000
"""Of the search for what two texts have in common, where a page has no budget of its own for it."""
TOKENS = re.compile(r"\s+|\w+|[^\w\s]")


@dataclass(frozen=True)
class Text:
    """Some text, cut to a size; `total` is how long it is in full."""

    text: str
    total: int
    is_json: bool = False

    @property
    def cut(self) -> int:
        return self.total - len(self.text)


@dataclass(frozen=True)
class Piece:
    """A run of text that is the same, was deleted or was inserted."""

    kind: str
    text: str

    @property
    def tag(self) -> str:
        """The element that shows it."""
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


def cut(text: str, full: bool, is_json: bool = False) -> Text:
    return Text(text[: LONG if full else SHORT], len(text), is_json)


def compact(value: Any) -> str:
    """A value on one line. What is shown of an encoded value is the encoding itself: nothing is hidden."""
    return json.dumps(value, ensure_ascii=False)


def pretty(value: Any, full: bool = True) -> Text:
    """Text as it is, anything else as JSON with line ends where one line would be long."""
    if isinstance(value, str):
        return cut(value, full)
    line = compact(value)
    return cut(line if len(line) <= 90 else json.dumps(value, indent=2, ensure_ascii=False), full, True)


def call(tool: str, arguments: Any, full: bool) -> Text:
    """`tool(name = value, …)`, one argument a line, the names aligned."""
    if not isinstance(arguments, dict) or not arguments:
        return Text(f"{tool}()", len(tool) + 2)
    wide = min(max(len(str(name)) for name in arguments), 32)
    rows = []
    for name, value in arguments.items():
        text = compact(value)
        if len(text) > 90 and isinstance(value, dict | list):
            text = json.dumps(value, indent=2, ensure_ascii=False).replace("\n", "\n  ")
        rows.append(f"  {name!s:<{wide}} = {text}")
    return cut(f"{tool}(\n" + ",\n".join(rows) + "\n)", full)


def words(old: str, new: str, budget: DiffBudget | None = None) -> list[Piece]:
    """What changed between two texts, word by word; empty when they are too long or have little in common."""
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


def spread(value: Any) -> list[str]:
    text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False, default=str)
    return text[:LONG].splitlines()[:MOST_LINES]


def recorded_value(recorded: str) -> Any:
    """The value that a recorded text writes down; `UNPARSED` for prose, and for what is too long to be shown whole."""
    return parse(recorded) if len(recorded) <= LONG and token_count(recorded) <= READ_TOKENS else UNPARSED


def observed(result: Any) -> Any:
    """A stored result as the plain value that an agent saw; as it is stored where Python writes none of it."""
    try:
        plain_text(result)
        return decode_state(result)
    except StateError:
        return result


def departures(recorded: str, result: Any) -> list[TextLine]:
    """The recorded observation against the reproduced one, line by line; equal stretches shortened."""
    value = observed(result)
    was = recorded_value(recorded)
    try:
        old, new = spread(recorded if was is UNPARSED else was), spread(str(value) if was is UNPARSED else value)
    except (TypeError, ValueError):  # a value of Python that JSON cannot spell
        old, new = spread(recorded), spread(str(value))
    lines: list[TextLine] = []
    budget = DiffBudget()
    for tag, a, b, c, d in BoundedMatcher(old, new, budget, autojunk=False).get_opcodes():
        if tag == "equal":
            lines += _same(old[a:b])
            continue
        both = min(b - a, d - c)
        for left, right in zip(old[a : a + both], new[c : c + both], strict=True):
            pieces = words(left, right, budget)
            lines.append(TextLine("-", "del", left, [piece for piece in pieces if piece.kind != "ins"]))
            lines.append(TextLine("+", "add", right, [piece for piece in pieces if piece.kind != "del"]))
        lines += [TextLine("-", "del", text) for text in old[a + both : b]]
        lines += [TextLine("+", "add", text) for text in new[c + both : d]]
    return lines


def _same(rows: list[str], near: int = 3) -> list[TextLine]:
    if len(rows) <= 2 * near + 1:
        return [TextLine("", "same", text) for text in rows]
    between = len(rows) - 2 * near
    return [
        *(TextLine("", "same", text) for text in rows[:near]),
        TextLine("", "hunk", f"{between} equal lines"),
        *(TextLine("", "same", text) for text in rows[-near:]),
    ]

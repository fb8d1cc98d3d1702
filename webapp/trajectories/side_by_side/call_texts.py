"""Calls on one line, as pieces of which those that differ between attempts are marked."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from webapp.trajectories.replay.value_text import compact

MOST_VALUE = 60
MOST_TEXT = 220
MOST_ARGUMENTS = 8


@dataclass(frozen=True)
class CallPiece:
    """Part of a call's text; `differs` where another attempt's call has something else there."""

    text: str
    differs: bool = False

    @property
    def tag(self) -> str:
        """The element that shows it."""
        return "mark" if self.differs else "span"


def short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def said_arguments(stored: str) -> Any:
    """The arguments out of their stored text; the text itself where it was too long to be read whole."""
    try:
        return json.loads(stored) if stored else {}
    except (ValueError, RecursionError):
        return stored


def call_text(tool: str, arguments: Any) -> str:
    """`tool(name="value", …)`, cut."""
    return short("".join(piece.text for piece in call_pieces(tool, arguments, ())), MOST_TEXT)


def call_pieces(tool: str, arguments: Any, others: Sequence[Any]) -> list[CallPiece]:
    """A call as pieces, those arguments marked that one of `others` (the arguments of other calls) has otherwise."""
    if not isinstance(arguments, dict):
        text = short(str(arguments or ""), MOST_TEXT)
        return [CallPiece(f"{tool}("), CallPiece(text, any(other != arguments for other in others)), CallPiece(")")]
    pieces = [CallPiece(f"{tool}(")]
    names = sorted(arguments, key=lambda name: not _differs(arguments, name, others))[:MOST_ARGUMENTS]
    shown = [name for name in arguments if name in names]
    for place, name in enumerate(shown):
        joint = ", " if place else ""
        text = f"{short(str(name), MOST_VALUE)}={short(compact(arguments[name]), MOST_VALUE)}"
        differs = _differs(arguments, name, others)
        pieces += [CallPiece(joint), CallPiece(text, True)] if differs else [CallPiece(joint + text)]
    rest = len(arguments) - len(shown)
    return [*pieces, CallPiece(f", … {rest} more)" if rest else ")")]


def _differs(arguments: dict[str, Any], name: str, others: Sequence[Any]) -> bool:
    return any(not isinstance(other, dict) or other.get(name) != arguments[name] for other in others)

"""Calls on one line, as pieces; those that differ between attempts are marked."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from webapp.trajectories.replay.value_text import format_compact

MOST_VALUE = 60
MOST_TEXT = 220
MOST_ARGUMENTS = 8


@dataclass(frozen=True)
class CallPiece:
    """Part of a call's text; `differs` is true if another attempt's call has something else there."""

    text: str
    differs: bool = False

    @property
    def tag(self) -> str:
        """The HTML element for the piece."""
        return "mark" if self.differs else "span"


def shorten_text(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def parse_stored_arguments(stored: str) -> Any:
    """Return the arguments from their stored text; the text itself if it was too long to be read as a whole."""
    try:
        return json.loads(stored) if stored else {}
    except (ValueError, RecursionError):
        return stored


def format_call(tool: str, arguments: Any) -> str:
    """Return `tool(name="value", …)`, cut."""
    return shorten_text("".join(piece.text for piece in build_call_pieces(tool, arguments, ())), MOST_TEXT)


def build_call_pieces(tool: str, arguments: Any, others: Sequence[Any]) -> list[CallPiece]:
    """Return a call as pieces, with those arguments marked that differ in any of `others` (the arguments of other
    calls)."""
    if not isinstance(arguments, dict):
        text = shorten_text(str(arguments or ""), MOST_TEXT)
        return [CallPiece(f"{tool}("), CallPiece(text, any(other != arguments for other in others)), CallPiece(")")]
    pieces = [CallPiece(f"{tool}(")]
    names = sorted(arguments, key=lambda name: not _has_different_value(arguments, name, others))[:MOST_ARGUMENTS]
    shown_names = [name for name in arguments if name in names]
    for place, name in enumerate(shown_names):
        joint = ", " if place else ""
        text = f"{shorten_text(str(name), MOST_VALUE)}={shorten_text(format_compact(arguments[name]), MOST_VALUE)}"
        differs = _has_different_value(arguments, name, others)
        pieces += [CallPiece(joint), CallPiece(text, True)] if differs else [CallPiece(joint + text)]
    rest = len(arguments) - len(shown_names)
    return [*pieces, CallPiece(f", … {rest} more)" if rest else ")")]


def _has_different_value(arguments: dict[str, Any], name: str, others: Sequence[Any]) -> bool:
    return any(not isinstance(other, dict) or other.get(name) != arguments[name] for other in others)

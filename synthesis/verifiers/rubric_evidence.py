"""The evidence for a judge: the calls with their results, what changed, and the answer, all bounded.

Equal attempts make equal evidence, to the letter. Invisible characters are escaped.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from synthesis.contracts import Actor, CallResult, Frozen, State
from synthesis.errors import FormatError
from synthesis.json_reader import read_json
from synthesis.runtime import make_patch

CALL_CHARS = 2_000
CALLS_CHARS = 20_000
CHANGES_CHARS = 20_000
ANSWER_CHARS = 20_000
FEWEST_QUOTED = 3
NO_CALLS = "(no call was made)"
NO_CHANGES = "(nothing changed)"
NO_ANSWER = "(no answer was given)"


class Evidence(Frozen):
    """The course of an attempt in the form for a judge."""

    calls: str = NO_CALLS
    changes: str = NO_CHANGES
    answer: str = NO_ANSWER


def gather_evidence(calls: Sequence[str], start: State, final: State, answer: str, *, is_data: bool) -> Evidence:
    """Return the evidence of an end. `calls` are as `spell_call` spells them, `is_data`: the answer is a form's."""
    changes = make_patch(start, final)
    return Evidence(
        calls=_join_calls(calls) or NO_CALLS,
        changes=_shorten_text(_format_json(changes), CHANGES_CHARS) if changes else NO_CHANGES,
        answer=_shorten_text(_show_answer(answer, is_data), ANSWER_CHARS) if answer else NO_ANSWER,
    )


def spell_call(tool: str, arguments: dict[str, Any], result: CallResult, by: Actor = "agent") -> str:
    """Return an executed call with its result on one bounded line; a call of the simulated user is marked as such."""
    came = {"result": result.result} if result.ok else {"error": result.error.message if result.error else ""}
    whose = {"made_by": "the user, not the agent"} if by == "user" else {}
    return _shorten_text(_format_json({**whose, "call": tool, "arguments": arguments, **came}), CALL_CHARS)


def is_quoted(quote: str, evidence: Evidence) -> bool:
    """Return whether a quote occurs in the evidence, regardless of white space and of JSON escapes."""
    shown = " ".join(" ".join((evidence.calls, evidence.changes, evidence.answer)).split())
    spellings = (" ".join(spelling.split()) for spelling in (quote, _format_json(quote)[1:-1]))
    return any(len(spelling) >= FEWEST_QUOTED and spelling in shown for spelling in spellings)


def _join_calls(calls: Sequence[str]) -> str:
    """Return the calls, one a line; of too many the first and the last ones."""
    lines = [f"{number}. {call}" for number, call in enumerate(calls, 1)]
    if sum(map(len, lines)) <= CALLS_CHARS:
        return "\n".join(lines)
    first, last = _fit_lines(lines), _fit_lines(lines[::-1])
    cut = f"({len(lines) - first - last:,} more calls are not shown)"
    return "\n".join([*lines[:first], cut, *lines[len(lines) - last :]])


def _fit_lines(lines: Sequence[str]) -> int:
    """Return how many of the first lines fit into half of the room."""
    room = CALLS_CHARS // 2
    for number, line in enumerate(lines):
        room -= len(line)
        if room < 0:
            return number
    return len(lines)


def _show_answer(answer: str, is_data: bool) -> str:
    if is_data:
        try:
            return _format_json(read_json(answer, broken_text=True))
        except FormatError:
            pass
    return _format_json(answer)


def _format_json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in text)


def _shorten_text(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]} … ({len(text) - most:,} more characters are not shown)"

"""The request to a check's process: its source, one initial state, one final state and an answer; nothing else.

An audit, a matrix and a score send the same bytes for the same question, so that no check can distinguish them. Source
outside of the language of checks is never sent.
"""

from __future__ import annotations

import functools
import json
import marshal
from typing import Any

from synthesis.contracts import DEFAULT_NOW
from synthesis.errors import StateError
from synthesis.runtime.check_language import compile_check, find_breaches
from synthesis.runtime.child import codec
from synthesis.syntax import UNREADABLE, parse_module

SOURCE_CHARS = 100_000
MOST_TOLD = 3
"""So many places outside of the language are named."""
_encode = json.JSONEncoder(separators=(",", ":")).encode


@functools.lru_cache(maxsize=512)
def _compile_or_refuse(source: str) -> tuple[str, bytes]:
    """Return (reason why a check cannot run, its code as it is sent); one of them is empty."""
    if len(source) > SOURCE_CHARS:
        return f"the check has {len(source):,} characters; at most {SOURCE_CHARS:,} are read", b""
    try:
        tree = parse_module(source)
        places = find_breaches(tree)
        if not places:
            return "", marshal.dumps(compile_check(tree))
    except UNREADABLE as error:
        return f"{type(error).__name__}: {error}"[:500], b""
    more = f" (and {len(places) - MOST_TOLD} more)" if len(places) > MOST_TOLD else ""
    return "; ".join(map(str, places[:MOST_TOLD])) + more, b""


def find_language_problem(source: str) -> str:
    """Return the reason why a check cannot run, empty if it can.

    The reason names the places outside of the language of checks and their replacements, or the syntax error.
    """
    return _compile_or_refuse(source)[0]


def serialize_state(state: Any) -> str:
    """Serialize an encoded state, or a part of one, as it is sent. Raise StateError if it is not JSON."""
    try:
        return _encode(state)
    except (TypeError, ValueError, RecursionError) as error:
        raise StateError(f"the states are not JSON: {error}") from None


def build_world_text(initial: str, final: str, answer: str | None) -> str:
    """Build the JSON text that a check inspects, of states that `serialize_state` wrote."""
    return f'{{"initial":{initial},"final":{final},"answer":{_encode(answer)}}}'


def build_check_request(source: str, world: str) -> bytes:
    """Build the frame that asks for one verdict of a check without a `find_language_problem`."""
    head = f'{{"id":0,"op":"check","now":{_encode(DEFAULT_NOW)},"size":{len(world)}}}'
    return f"{head}\0{world}".encode("ascii") + _compile_or_refuse(source)[1]


def require_readable(world: str) -> None:
    """Raise StateError if the states of a world have no decoded form. The report of a check's process is not trusted
    for this."""
    asked = json.loads(world)
    for name in ("initial", "final"):
        try:
            codec.decode_value(asked[name])
        except codec.EncodingError as error:
            raise StateError(f"the {name} state of a check: {error}") from None

"""What the process of a check is sent: its source, one initial state, one final state and an answer; nothing else.

An audit, a matrix and a score send the same bytes for the same question, so that no check can tell them apart. Source
outside of the language of checks is sent nowhere.
"""

from __future__ import annotations

import functools
import json
import marshal
from typing import Any

from synthesis.contracts import DEFAULT_NOW
from synthesis.errors import StateError
from synthesis.runtime.check_language import breaches, compile_check
from synthesis.runtime.child import codec
from synthesis.syntax import UNREADABLE, parse

SOURCE_CHARS = 100_000
MOST_TOLD = 3
"""So many places outside of the language are named."""
_encode = json.JSONEncoder(separators=(",", ":")).encode


@functools.lru_cache(maxsize=512)
def _read(source: str) -> tuple[str, bytes]:
    """(why a check cannot run, its code as it is sent); one of them is empty."""
    if len(source) > SOURCE_CHARS:
        return f"the check has {len(source):,} characters; at most {SOURCE_CHARS:,} are read", b""
    try:
        tree = parse(source)
        found = breaches(tree)
        if not found:
            return "", marshal.dumps(compile_check(tree))
    except UNREADABLE as error:
        return f"{type(error).__name__}: {error}"[:500], b""
    more = f" (and {len(found) - MOST_TOLD} more)" if len(found) > MOST_TOLD else ""
    return "; ".join(map(str, found[:MOST_TOLD])) + more, b""


def language_problem(source: str) -> str:
    """Why a check cannot run: where it leaves the language of checks and what to write instead, or that it is no
    Python; empty if it can."""
    return _read(source)[0]


def state_text(state: Any) -> str:
    """An encoded state, or a part of one, as it is sent. Raises StateError when it is no JSON."""
    try:
        return _encode(state)
    except (TypeError, ValueError, RecursionError) as error:
        raise StateError(f"the states are not JSON: {error}") from None


def world_text(initial: str, final: str, answer: str | None) -> str:
    """What a check looks at, of states that `state_text` wrote."""
    return f'{{"initial":{initial},"final":{final},"answer":{_encode(answer)}}}'


def check_request(source: str, world: str) -> bytes:
    """The frame that asks for one verdict of a check without a `language_problem`."""
    head = f'{{"id":0,"op":"check","now":{_encode(DEFAULT_NOW)},"size":{len(world)}}}'
    return f"{head}\0{world}".encode("ascii") + _read(source)[1]


def require_readable(world: str) -> None:
    """Raises StateError when the states of a world have no decoded form. A check's process is not believed in this."""
    asked = json.loads(world)
    for name in ("initial", "final"):
        try:
            codec.decode(asked[name])
        except codec.EncodingError as error:
            raise StateError(f"the {name} state of a check: {error}") from None

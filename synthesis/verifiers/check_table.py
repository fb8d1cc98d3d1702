"""Checks on many end states: each check is evaluated once for all ends that look the same to it.

Every evaluation is like that of a score (`Sandbox.verdicts`): a process of its own, one whole final state, one answer.
The reads of a check (`check_reads.py`) decide only which evaluations are the same.
"""

from __future__ import annotations

import collections
import hashlib
from collections.abc import Callable, Iterator, Sequence

from synthesis.contracts import State, Verdict
from synthesis.runtime import Sandbox
from synthesis.runtime.check_request import build_world_text, serialize_state
from synthesis.runtime.sandbox import STOPPED
from synthesis.verifiers.check_reads import Place, find_check_reads

End = tuple[State, str | None]
"""An end state, encoded, and the answer given with it."""
Bound = Callable[[Verdict], str]
"""Called with each verdict, once for a check that is stopped; returns the reason to evaluate no more, or nothing."""
MOST_STOPPED = 2
"""A check that lost its process so often is not evaluated on the end states that are left."""
TEXT_CHARS = 64_000_000
"""So much encoded text is kept between two questions."""
NOT_RUN = "not run"
"""How the error of a verdict begins that was not asked for."""
_ABSENT = b"absent"


def never_stop(verdict: Verdict) -> str:
    """Return no reason to stop."""
    return ""


def build_verdict_table(
    sandbox: Sandbox, checks: Sequence[str], start: State, ends: Sequence[End], over: Bound = never_stop
) -> list[list[Verdict]]:
    """Return the verdicts by end, in the order of the checks.

    Once `over` returns a reason, the remaining checks have failed, with an error that begins with `NOT_RUN`. Raise
    StateError and InfrastructureError.
    """
    table = _Table(checks, start, ends)
    for verdict in sandbox.verdicts(table.list_questions()):
        if table.take(verdict):
            table.reason = table.reason or over(verdict)
    return table.columns()


class _Table:
    """The pairs (check, end) to evaluate, and their verdicts."""

    def __init__(self, checks: Sequence[str], start: State, ends: Sequence[End]) -> None:
        self.checks, self.ends = checks, ends
        self.reason = ""
        self._texts = _Texts()
        self._initial = serialize_state(start)
        seen = _Seen(self._texts)
        self._same = [_find_representatives(source, ends, seen) for source in checks]
        self._pending: collections.deque[tuple[int, int]] = collections.deque()
        self._said: dict[tuple[int, int], Verdict] = {}
        self._stopped = [0] * len(checks)

    def list_questions(self) -> Iterator[tuple[str, str]]:
        """Yield the questions, check by check, until there is a reason to stop."""
        for row, source in enumerate(self.checks):
            for place in dict.fromkeys(self._same[row]):
                if self.reason:
                    return
                if self._stopped[row] >= MOST_STOPPED:
                    break
                state, answer = self.ends[place]
                self._pending.append((row, place))
                yield source, build_world_text(self._initial, self._texts.whole(state), answer)

    def take(self, verdict: Verdict) -> bool:
        """Store the verdict on the oldest pending question; return False if that check was stopped before."""
        row, place = self._pending.popleft()
        self._said[row, place] = verdict
        stopped = verdict.error.startswith(STOPPED)
        self._stopped[row] += stopped
        return not stopped or self._stopped[row] == 1

    def columns(self) -> list[list[Verdict]]:
        """Return by end the verdicts of all checks."""
        return [[self._verdict(row, end) for row in range(len(self.checks))] for end in range(len(self.ends))]

    def _verdict(self, row: int, end: int) -> Verdict:
        stored = self._said.get((row, self._same[row][end]))
        if stored is not None:
            return stored
        why = self.reason if self._stopped[row] < MOST_STOPPED else f"it was stopped {self._stopped[row]} times before"
        return Verdict(passed=False, error=f"{NOT_RUN}: {why}")


def _find_representatives(source: str, ends: Sequence[End], seen: _Seen) -> list[int]:
    """Return by end the first end that looks the same to the check."""
    reads = find_check_reads(source)
    first: dict[tuple[bytes | str | None, ...], int] = {}
    places = []
    for index, (state, answer) in enumerate(ends):
        visible_parts: list[bytes | str | None] = [answer] if reads.answer else []
        if reads.places is None:
            visible_parts.append(seen.digest(state))
        else:
            visible_parts += [seen.at(state, place) for place in reads.places]
            if reads.all_but is not None:
                for key in sorted(state.keys() - reads.all_but):
                    visible_parts += [key, seen.at(state, (key,))]
        places.append(first.setdefault(tuple(visible_parts), index))
    return places


class _Texts:
    """Encoded text of states whose parts are shared; the states must outlive it."""

    def __init__(self) -> None:
        self._by_id: dict[int, str] = {}
        self._size = 0

    def part(self, value: object) -> str:
        text = self._by_id.get(id(value))
        if text is None:
            text = serialize_state(value)
            if self._size + len(text) > TEXT_CHARS:
                self._by_id.clear()
                self._size = 0
            self._by_id[id(value)] = text
            self._size += len(text)
        return text

    def whole(self, state: State) -> str:
        """Return the text that `state_text` writes, joined from cached parts."""
        return "{" + ",".join(f"{serialize_state(key)}:{self.part(value)}" for key, value in state.items()) + "}"


class _Seen:
    """Digests of the parts of states that checks see; the states must outlive it."""

    def __init__(self, texts: _Texts) -> None:
        self._texts = texts
        self._digests: dict[int, bytes] = {}

    def digest(self, value: object) -> bytes:
        stored_digest = self._digests.get(id(value))
        if stored_digest is None:
            text = self._texts.whole(value) if type(value) is dict else self._texts.part(value)
            stored_digest = self._digests[id(value)] = hashlib.blake2b(text.encode("ascii"), digest_size=16).digest()
        return stored_digest

    def at(self, state: State, place: Place) -> bytes:
        """Return the digest of the value at a place; a value on the way to it that is not a plain object stops the
        walk."""
        value: object = state
        for depth, key in enumerate(place):
            if type(value) is not dict or key[:1] == "$" or (len(value) == 1 and next(iter(value))[:1] == "$"):
                break
            if key not in value:
                return _ABSENT + bytes([min(depth, 255)])
            value = value[key]
        return self.digest(value)

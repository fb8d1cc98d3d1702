"""Checks on many end states: asked about once for all those that show a check the same.

Every question is put as a score puts it (`Sandbox.verdicts`): a process of its own, one whole final state, one answer.
What a check reads (`check_reads.py`) decides only which questions are the same one.
"""

from __future__ import annotations

import collections
import hashlib
from collections.abc import Callable, Iterator, Sequence

from synthesis.contracts import State, Verdict
from synthesis.runtime import Sandbox
from synthesis.runtime.check_request import state_text, world_text
from synthesis.runtime.sandbox import STOPPED
from synthesis.verifiers.check_reads import Place, check_reads

End = tuple[State, str | None]
"""An end state, encoded, and the answer given with it."""
Bound = Callable[[Verdict], str]
"""Told of each verdict, of a check that is stopped once; gives the reason to evaluate no more, or nothing."""
MOST_STOPPED = 2
"""A check that lost its process so often is not evaluated on the end states that are left."""
TEXT_CHARS = 64_000_000
"""So much encoded text is kept between two questions."""
NOT_RUN = "not run"
"""How the error of a verdict begins that was not asked for."""
_ABSENT = b"absent"


def unbounded(verdict: Verdict) -> str:
    """No reason to stop."""
    return ""


def verdict_table(
    sandbox: Sandbox, checks: Sequence[str], start: State, ends: Sequence[End], over: Bound = unbounded
) -> list[list[Verdict]]:
    """For each end its verdicts, in the order of the checks.

    Once `over` gives a reason, what is left has failed, with an error that begins with `NOT_RUN`. Raises StateError and
    InfrastructureError.
    """
    table = _Table(checks, start, ends)
    for verdict in sandbox.verdicts(table.asked()):
        if table.take(verdict):
            table.reason = table.reason or over(verdict)
    return table.columns()


class _Table:
    """Which (check, end) are asked about, and what was said."""

    def __init__(self, checks: Sequence[str], start: State, ends: Sequence[End]) -> None:
        self.checks, self.ends = checks, ends
        self.reason = ""
        self._texts = _Texts()
        self._initial = state_text(start)
        seen = _Seen(self._texts)
        self._same = [_representatives(source, ends, seen) for source in checks]
        self._pending: collections.deque[tuple[int, int]] = collections.deque()
        self._said: dict[tuple[int, int], Verdict] = {}
        self._stopped = [0] * len(checks)

    def asked(self) -> Iterator[tuple[str, str]]:
        """The questions, check by check, until there is a reason to stop."""
        for row, source in enumerate(self.checks):
            for place in dict.fromkeys(self._same[row]):
                if self.reason:
                    return
                if self._stopped[row] >= MOST_STOPPED:
                    break
                state, answer = self.ends[place]
                self._pending.append((row, place))
                yield source, world_text(self._initial, self._texts.whole(state), answer)

    def take(self, verdict: Verdict) -> bool:
        """Keep the verdict on the question that waits longest; False if that check was stopped before."""
        row, place = self._pending.popleft()
        self._said[row, place] = verdict
        stopped = verdict.error.startswith(STOPPED)
        self._stopped[row] += stopped
        return not stopped or self._stopped[row] == 1

    def columns(self) -> list[list[Verdict]]:
        """By end, the verdicts of all checks."""
        return [[self._verdict(row, end) for row in range(len(self.checks))] for end in range(len(self.ends))]

    def _verdict(self, row: int, end: int) -> Verdict:
        said = self._said.get((row, self._same[row][end]))
        if said is not None:
            return said
        why = self.reason if self._stopped[row] < MOST_STOPPED else f"it was stopped {self._stopped[row]} times before"
        return Verdict(passed=False, error=f"{NOT_RUN}: {why}")


def _representatives(source: str, ends: Sequence[End], seen: _Seen) -> list[int]:
    """By end, the first one that shows the check the same."""
    reads = check_reads(source)
    first: dict[tuple[bytes | str | None, ...], int] = {}
    places = []
    for index, (state, answer) in enumerate(ends):
        shown: list[bytes | str | None] = [answer] if reads.answer else []
        if reads.places is None:
            shown.append(seen.digest(state))
        else:
            shown += [seen.at(state, place) for place in reads.places]
            if reads.all_but is not None:
                for key in sorted(state.keys() - reads.all_but):
                    shown += [key, seen.at(state, (key,))]
        places.append(first.setdefault(tuple(shown), index))
    return places


class _Texts:
    """Encoded text of states whose parts are shared; the states must outlive it."""

    def __init__(self) -> None:
        self._by_id: dict[int, str] = {}
        self._size = 0

    def part(self, value: object) -> str:
        text = self._by_id.get(id(value))
        if text is None:
            text = state_text(value)
            if self._size + len(text) > TEXT_CHARS:
                self._by_id.clear()
                self._size = 0
            self._by_id[id(value)] = text
            self._size += len(text)
        return text

    def whole(self, state: State) -> str:
        """What `state_text` writes, of parts that are kept."""
        return "{" + ",".join(f"{state_text(key)}:{self.part(value)}" for key, value in state.items()) + "}"


class _Seen:
    """Digests of what checks see of states; the states must outlive it."""

    def __init__(self, texts: _Texts) -> None:
        self._texts = texts
        self._digests: dict[int, bytes] = {}

    def digest(self, value: object) -> bytes:
        found = self._digests.get(id(value))
        if found is None:
            text = self._texts.whole(value) if type(value) is dict else self._texts.part(value)
            found = self._digests[id(value)] = hashlib.blake2b(text.encode("ascii"), digest_size=16).digest()
        return found

    def at(self, state: State, place: Place) -> bytes:
        """What stands at a place; on the way to it, whatever is no plain object stands for itself."""
        value: object = state
        for depth, key in enumerate(place):
            if type(value) is not dict or key[:1] == "$" or (len(value) == 1 and next(iter(value))[:1] == "$"):
                break
            if key not in value:
                return _ABSENT + bytes([min(depth, 255)])
            value = value[key]
        return self.digest(value)

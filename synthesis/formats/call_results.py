"""Which call a result belongs to: one of the turn before it, by its id among those still open, else the first of them.

Ids say nothing across turns: servers give every call of a conversation the same one, or none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar


class Spoken(Protocol):
    """What messages have in common, here and in rows of datasets. Of a call only the `id` is read."""

    @property
    def role(self) -> str: ...
    @property
    def tool_calls(self) -> Sequence[Any]: ...
    @property
    def tool_call_id(self) -> str: ...


M = TypeVar("M", bound=Spoken)


class OpenCalls:
    """Calls of the newest turn that have no result yet, by their index in it."""

    def __init__(self, ids: Sequence[str] = ()) -> None:
        self.open = list(enumerate(ids))

    def take(self, identity: str) -> int | None:
        """The index of the call that the next result answers; None if no call is open."""
        named = next((at for at, (_, own) in enumerate(self.open) if identity and own == identity), 0)
        return self.open.pop(named)[0] if self.open else None


@dataclass(frozen=True)
class Answered(Generic[M]):
    """A message, and of a result the index of its call in the turn before; None if it answers none."""

    message: M
    call: int | None = None


def match_results(messages: Sequence[M]) -> list[Answered[M]]:
    """The messages with each result's call, the results behind a turn in the order of its calls.

    Templates and formats without ids tell results apart by their order alone. Results that answer no call come last.
    """
    matched: list[Answered[M]] = []
    results: list[Answered[M]] = []
    calls = OpenCalls()

    def close() -> None:
        matched.extend(sorted(results, key=lambda one: len(messages) if one.call is None else one.call))
        results.clear()

    for message in messages:
        if message.role == "tool":
            results.append(Answered(message, calls.take(message.tool_call_id)))
            continue
        close()
        matched.append(Answered(message))
        calls = OpenCalls([call.id for call in message.tool_calls])
    close()
    return matched

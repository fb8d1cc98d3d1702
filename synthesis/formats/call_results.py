"""Assignment of results to calls: by id among the open calls of the turn before, else the first open call.

Ids have no meaning across turns: some servers give every call of a conversation the same id, or none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar


class Spoken(Protocol):
    """Common interface of messages and of rows of datasets. Of a call only the `id` is read."""

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
        """Remove and return the index of the call that the next result answers; return None if no call is open."""
        position = next((at for at, (_, own) in enumerate(self.open) if identity and own == identity), 0)
        return self.open.pop(position)[0] if self.open else None


@dataclass(frozen=True)
class Answered(Generic[M]):
    """Message with, for a result, the index of its call in the turn before; None if it answers none."""

    message: M
    call: int | None = None


def match_results(messages: Sequence[M]) -> list[Answered[M]]:
    """Return the messages with each result's call; the results after a turn are in the order of its calls.

    Templates and formats without ids distinguish results only by their order. Results that answer no call come last.
    """
    matched: list[Answered[M]] = []
    results: list[Answered[M]] = []
    calls = OpenCalls()

    def flush_results() -> None:
        matched.extend(sorted(results, key=lambda one: len(messages) if one.call is None else one.call))
        results.clear()

    for message in messages:
        if message.role == "tool":
            results.append(Answered(message, calls.take(message.tool_call_id)))
            continue
        flush_results()
        matched.append(Answered(message))
        calls = OpenCalls([call.id for call in message.tool_calls])
    flush_results()
    return matched

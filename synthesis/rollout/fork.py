"""The start of a fork: another attempt's steps, executed again and compared with the stored ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from synthesis.contracts import Actor, Injection, Message, TrajectoryStep
from synthesis.errors import ReplayMismatch
from synthesis.rollout.user import User, UserTurn

UNKNOWN = object()
"""In place of a result that was stored cut."""


@dataclass(frozen=True)
class StoredStep:
    """The stored data of one step of the parent.

    `patch` is None if it was too long to store. `injected` is the disturbance of its call, which is repeated.
    """

    kind: Literal["user", "message", "call"]
    tool: str = ""
    ok: bool | None = None
    error: str = ""
    result: Any = UNKNOWN
    patch: Sequence[dict[str, Any]] | None = None
    injected: Injection | None = None
    by: Actor = "agent"

    def difference(self, made: TrajectoryStep) -> str:
        """Return the difference of the step as it was executed again; empty if there is none."""
        if (made.kind, made.tool, made.by) != (self.kind, self.tool, self.by):
            now, then = _format_step(made.kind, made.tool, made.by), _format_step(self.kind, self.tool, self.by)
            return f"it is {now} now, and was {then}"
        if made.result is None or self.ok is None:
            return ""
        error = made.result.error.kind if made.result.error else ""
        if (made.result.ok, error) != (self.ok, self.error):
            return f"{self.tool} comes to {error or 'a result'} now, and came to {self.error or 'a result'}"
        if self.patch is not None and list(made.result.patch) != list(self.patch):
            return f"{self.tool} changes the state otherwise"
        if self.result is not UNKNOWN and made.result.ok and made.result.result != self.result:
            return f"{self.tool} gives another result"
        return ""


@dataclass(frozen=True)
class ForkStart:
    """The beginning of a fork: the parent's turns up to it, its stored steps, and the hash of the state after them.

    The turns are executed again; the first step with another result refuses the fork.
    """

    turns: tuple[Message, ...]
    steps: tuple[StoredStep, ...]
    state_hash: str = ""

    def require(self, index: int, made: TrajectoryStep) -> None:
        """Raise ReplayMismatch if a step has another result."""
        if index >= len(self.steps):
            return
        words = self.steps[index].difference(made)
        if words:
            raise ReplayMismatch(
                f"The fork is refused: executing the parent's calls again goes another way at step {index}: {words}."
            )

    def require_state(self, made: int, state_hash: str) -> None:
        """Raise ReplayMismatch if steps are missing, or their state is another one."""
        if made < len(self.steps):
            raise ReplayMismatch(
                f"The fork is refused: the parent's turns give {made} steps when they are made again, and step "
                f"{made} is missing."
            )
        if self.state_hash and state_hash != self.state_hash:
            raise ReplayMismatch(
                f"The fork is refused: the state after step {len(self.steps) - 1} is another one when the parent's "
                "calls are executed again: its hash differs from the stored one."
            )


class RecordedUser:
    """A user that repeats the words and calls of the parent's user; after that `then` continues, or the talk ends."""

    def __init__(self, lines: Sequence[UserTurn], then: User | None = None) -> None:
        self.lines = tuple(lines)
        self.then = then

    @property
    def name(self) -> str:
        return self.then.name if self.then is not None else "the parent's"

    @property
    def prompts(self) -> dict[str, str]:
        return self.then.prompts if self.then is not None else {}

    async def say(self, talk: Sequence[Message]) -> UserTurn:
        said = sum(message.role == "user" for message in talk)
        if said < len(self.lines):
            return self.lines[said]
        return await self.then.say(talk) if self.then is not None else UserTurn(stopped=True)


def _format_step(kind: str, tool: str, by: Actor) -> str:
    return f"a call of {tool}{' by the user' if by == 'user' else ''}" if kind == "call" else f"a {kind} step"

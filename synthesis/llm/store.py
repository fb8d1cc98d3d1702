"""Where replies are kept, so that a crash repeats at most what was in flight and a second run asks nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from synthesis.errors import LLMError
from synthesis.llm.calls import StageCall
from synthesis.llm.chat import Reply


class CallStore(Protocol):
    """Keeps one reply a key. Every method may be called from one event loop only, by many tasks at once."""

    async def find(self, key: str) -> Reply | None:
        """The reply that is stored under this key."""
        ...

    async def begin(self, key: str, call: StageCall, model: str) -> None:
        """Say that a request is about to be sent: after a crash it counts as lost."""
        ...

    async def keep(self, key: str, call: StageCall, reply: Reply) -> Reply:
        """Store a reply before anybody uses it; gives what is stored, which another worker may have been first with."""
        ...

    async def fail(self, key: str, call: StageCall, error: LLMError) -> None:
        """Say that no reply came. The key stays free."""
        ...


@dataclass
class MemoryStore:
    """A store for one process: tests and short scripts."""

    replies: dict[str, Reply] = field(default_factory=dict)
    begun: list[str] = field(default_factory=list)
    failed: list[tuple[str, str]] = field(default_factory=list)

    async def find(self, key: str) -> Reply | None:
        return self.replies.get(key)

    async def begin(self, key: str, call: StageCall, model: str) -> None:
        self.begun.append(key)

    async def keep(self, key: str, call: StageCall, reply: Reply) -> Reply:
        return self.replies.setdefault(key, reply)

    async def fail(self, key: str, call: StageCall, error: LLMError) -> None:
        self.failed.append((key, str(error)))

"""Stores of replies, so that a crash repeats at most the requests in flight and a second run sends none."""

from __future__ import annotations

import fcntl
import json
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from synthesis.errors import InputError, LLMError
from synthesis.llm.calls import StageCall
from synthesis.llm.chat import Reply


class CallStore(Protocol):
    """A store of one reply for each key.

    Every method may be called from one event loop only, by many tasks at once, but never for one key at the same time.
    A person's "try again" must set aside the replies that led to the failure, or the same ones are found again.
    """

    async def find(self, key: str) -> Reply | None:
        """Return the reply that is stored under this key."""
        ...

    async def begin(self, key: str, call: StageCall, model: str) -> None:
        """Record that a request is sent now, each retry included.

        A request that is neither kept nor failed is lost: its process ended. May raise SpendCapReached, if the store
        knows of more spending than the meter; then no request is sent.
        """
        ...

    async def keep(self, key: str, call: StageCall, reply: Reply) -> Reply:
        """Store a reply before it is used; return the stored one, which may be of another worker that was first."""
        ...

    async def fail(self, key: str, call: StageCall, error: LLMError) -> None:
        """Record that no reply came. The key stays free."""
        ...

    async def note_reading(self, key: str, repairs: Sequence[str], unusable: str) -> None:
        """Record how a stored reply was read: its repairs, and why it could not be used, if so."""
        ...


@dataclass
class MemoryStore:
    """A store for one process: tests and short scripts."""

    replies: dict[str, Reply] = field(default_factory=dict)
    begun: list[str] = field(default_factory=list)
    failed: list[tuple[str, str]] = field(default_factory=list)
    readings: dict[str, tuple[tuple[str, ...], str]] = field(default_factory=dict)

    async def find(self, key: str) -> Reply | None:
        return self.replies.get(key)

    async def begin(self, key: str, call: StageCall, model: str) -> None:
        self.begun.append(key)

    async def keep(self, key: str, call: StageCall, reply: Reply) -> Reply:
        return self.replies.setdefault(key, reply)

    async def fail(self, key: str, call: StageCall, error: LLMError) -> None:
        self.failed.append((key, str(error)))

    async def note_reading(self, key: str, repairs: Sequence[str], unusable: str) -> None:
        self.readings[key] = tuple(repairs), unusable


class FileStore:
    """A store in one file, for scripts without a database: a line for each event, only ever appended.

    One process at a time. A line that a crash truncated is dropped, and its call counts as lost. Raise InputError for a
    file that another process uses or that holds something else.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.replies: dict[str, Reply] = {}
        self.lost = 0
        """Requests whose process ended before an answer was written, up to now."""
        self._open: Counter[str] = Counter()
        self._file = path.open("a+b")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._read()
        except BlockingIOError:
            self._file.close()
            raise InputError(f"{path}: another process uses this file of replies.") from None
        except InputError:
            self._file.close()
            raise

    async def find(self, key: str) -> Reply | None:
        return self.replies.get(key)

    async def begin(self, key: str, call: StageCall, model: str) -> None:
        self._open[key] += 1
        self._write({"begin": key, "model": model, "site": call.site.model_dump(), "body": call.body()})

    async def keep(self, key: str, call: StageCall, reply: Reply) -> Reply:
        del self._open[key]
        if key not in self.replies:
            self.replies[key] = reply
            self._write({"keep": key, "reply": reply.model_dump(mode="json")})
        return self.replies[key]

    async def fail(self, key: str, call: StageCall, error: LLMError) -> None:
        del self._open[key]
        self._write({"fail": key, "reason": error.reason, "message": str(error)})

    async def note_reading(self, key: str, repairs: Sequence[str], unusable: str) -> None:
        """Do nothing: the reply can be read again from the file."""

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> FileStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _write(self, event: dict[str, Any]) -> None:
        self._file.write(json.dumps(event).encode() + b"\n")
        self._file.flush()

    def _read(self) -> None:
        self._file.seek(0)
        end = number = 0
        for number, line in enumerate(self._file, 1):
            if not line.endswith(b"\n"):
                break
            try:
                event = json.loads(line)
                if "begin" in event:
                    self._open[event["begin"]] += 1
                elif "keep" in event:
                    self.replies[event["keep"]] = Reply.model_validate(event["reply"])
                    del self._open[event["keep"]]
                elif "lost" in event:
                    self.lost += int(event["lost"])
                    self._open.clear()
                else:
                    del self._open[event["fail"]]
            except (ValueError, KeyError, TypeError):
                raise InputError(f"{self.path}, line {number}: this is no file of replies.") from None
            end += len(line)
        self._file.seek(end)
        os.ftruncate(self._file.fileno(), end)
        if self._open:
            self.lost += self._open.total()
            self._write({"lost": self._open.total()})
            self._open.clear()

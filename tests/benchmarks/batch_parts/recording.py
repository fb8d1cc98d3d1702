"""Replies of the scripted provider, recorded in one run and served in the next; how soon calls can be made at best."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

from synthesis.llm import asker
from synthesis.llm.calls import StageCall
from synthesis.llm.chat import Reply
from synthesis.llm.wire import build_request_messages
from synthesis.scripted import ScriptedModel

LEVELS = (("scenario-",), ("task-",), ("work-", "talk-", "without-"))
"""How the names of items below a theme begin."""


@contextmanager
def label_requests() -> Iterator[None]:
    """Let each request say in `user` which call of which item it is: copies of a theme ask the same."""
    plain = asker._ask_model

    async def answer(model: Any, call: StageCall, before: Any) -> Reply:
        site = call.site
        label = {"user": f"{site.item} {site.stage} {site.role} {site.sample}"}
        return await plain(model, call.model_copy(update={"parameters": call.parameters | label}), before)

    with patch.object(asker, "_ask_model", answer):
        yield


def digest(body: Mapping[str, Any]) -> str:
    """What a reply is recorded under: the label, the messages and the tools of a request."""
    text = json.dumps([body.get("user"), body["messages"], body.get("tools")], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def above(path: str) -> Iterator[str]:
    """The items at and above a call's place, the theme first."""
    theme, *names = path.split("/")
    yield (item := theme)
    for name, begins in zip(names, LEVELS, strict=False):
        if not name.startswith(begins):
            return
        yield (item := f"{item}/{name}")


@dataclass
class RecordingModel:
    """The scripted provider. `depths` counts the calls of each item by depth: a call's depth is how many calls of its
    item and of the items above must have ended before it can begin, and itself. They are true if all that a stage asks
    at once begins within `latency_s`, which each reply takes. Nothing waits for a turn here."""

    latency_s: float = 0.1
    replies: dict[str, list[Any]] = field(default_factory=lambda: defaultdict(list))
    depths: dict[str, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    ended: Counter[str] = field(default_factory=Counter)
    scripted: ScriptedModel = field(default_factory=ScriptedModel)
    name: str = "scripted"

    async def answer(self, call: StageCall) -> Reply:
        from tests.batches.real import bundled  # needs Django to be set up

        items = list(above(call.site.item))
        depth = 1 + max(self.ended[item] for item in items)
        reply = await self.scripted.answer(bundled(call))
        await asyncio.sleep(self.latency_s)
        self.ended[items[-1]] = max(self.ended[items[-1]], depth)
        self.depths[items[-1]][depth] += 1
        self.replies[digest(call.body())].append(build_request_messages([reply.message])[0])
        return reply

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(self.replies))


class Replies:
    """Recorded replies by request; equal requests get theirs in turn."""

    def __init__(self, path: str) -> None:
        self.known: dict[str, list[Any]] = json.loads(Path(path).read_text())
        self.given: Counter[str] = Counter()

    def message(self, body: Mapping[str, Any]) -> Any:
        """The next reply to this request. Raises KeyError for one that was never recorded."""
        key = digest(body)
        self.given[key] += 1
        return self.known[key][(self.given[key] - 1) % len(self.known[key])]

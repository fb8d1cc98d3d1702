"""The judge of a batch for what a task's checks cannot tell of an answer: of attempts, and inside an audit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from synthesis.contracts import Message, Tool
from synthesis.drafts import TaskDraft
from synthesis.llm import ChatModel, Reply
from synthesis.stages import Kit
from synthesis.verifiers.doubts import may_be_judged
from synthesis.verifiers.judge import Judge

STAGE = "judge_answer"


def answer_judge(kit: Kit, task: TaskDraft) -> ChatModel | None:
    """The model that decides; None where no check leaves its doubts to one, or nobody plays the judge."""
    if "judge" not in kit.asker.models or not may_be_judged([check.source for check in task.checks]):
        return None
    return kit.asker.chat(kit.site("judge", STAGE))


def audit_judge(kit: Kit, task: TaskDraft) -> Judge | None:
    """The same for an audit, which asks in an event loop of its own. To be called in the batch's loop."""
    model = answer_judge(kit, task)
    if model is None:
        return None
    remote = LoopModel(model, asyncio.get_running_loop())

    @asynccontextmanager
    async def opened() -> AsyncIterator[ChatModel]:
        yield remote

    return opened


class LoopModel:
    """A model that lives in another event loop, which must run on while it is asked."""

    def __init__(self, model: ChatModel, loop: asyncio.AbstractEventLoop) -> None:
        self._model = model
        self._loop = loop

    @property
    def name(self) -> str:
        return self._model.name

    async def complete(self, messages: Sequence[Message], tools: Sequence[Tool] = (), **parameters: Any) -> Reply:
        asked = asyncio.run_coroutine_threadsafe(self._model.complete(messages, tools, **parameters), self._loop)
        return await asyncio.wrap_future(asked)

"""Judge that this installation has registered for rubrics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from synthesis.contracts import Message, Tool
from synthesis.llm import Reply
from webapp.endpoints.connections import open_chat_model
from webapp.endpoints.models import LLMRole
from webapp.endpoints.queries import find_default_model
from webapp.scenarios.audits.services import NamedJudge


@dataclass(frozen=True)
class SeparateJudge:
    """A registered judge for threads without an event loop: each question has a connection of its own."""

    judge: NamedJudge

    @property
    def name(self) -> str:
        return self.judge.name

    async def complete(self, messages: Sequence[Message], tools: Sequence[Tool] = (), **parameters: Any) -> Reply:
        """Ask the judge. Raises LLMError."""
        async with self.judge.open() as model:
            return await model.complete(messages, tools, **parameters)


def find_registered_judge() -> NamedJudge | None:
    """Return the default model of the role judge; None if no administrator has set one.

    If its endpoint must not be used, this shows as LLMError when it is opened: audits of checks ask no judge.
    """
    default = find_default_model(LLMRole.JUDGE)
    if default is None:
        return None
    row, model = default
    return NamedJudge(f"{row.name}: {model}", partial(open_chat_model, row, model, "judge"))

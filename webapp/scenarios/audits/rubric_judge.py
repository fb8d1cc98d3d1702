"""The judge that this installation has registered for rubrics."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from synthesis.errors import InputError, LLMError
from synthesis.llm import ChatModel
from webapp.endpoints.models import LLMRole
from webapp.endpoints.queries import default_of
from webapp.endpoints.services import opened
from webapp.scenarios.audits.services import NamedJudge


def registered_judge() -> NamedJudge | None:
    """The default model of the role judge; None where no administrator has set one.

    That its endpoint must not be used shows when it is opened, as LLMError: audits of checks need no judge.
    """
    default = default_of(LLMRole.JUDGE)
    if default is None:
        return None
    row, model = default

    @asynccontextmanager
    async def judge() -> AsyncIterator[ChatModel]:
        from synthesis.llm.client import connect  # takes a second to import, which no page should wait for

        try:
            endpoint = opened(row)
        except InputError as error:
            raise LLMError("refused", f"The judge's endpoint {row.name} cannot be used: {error}") from error
        async with connect(endpoint) as connection:
            yield connection.chat(model)

    return NamedJudge(f"{row.name}: {model}", judge)

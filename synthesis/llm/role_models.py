"""Models that play a role beside the policy: the user in conversations, the judge of answers."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

from synthesis.llm.chat import ChatModel
from synthesis.llm.endpoint import Endpoint


@dataclass(frozen=True)
class AskedModel:
    """A model that plays a role: the agent behind an address, the user in conversations, or the judge of answers.

    A judge is always asked at temperature 0.
    """

    endpoint: Endpoint
    model: str
    temperature: float = 1.0


@contextlib.asynccontextmanager
async def open_role_model(role: AskedModel | None) -> AsyncIterator[ChatModel | None]:
    """Open the model of a role; yield None without a model."""
    if role is None:
        yield None
        return
    # Only processes that send requests need the client's package.
    from synthesis.llm.client import connect_to_endpoint

    async with connect_to_endpoint(role.endpoint) as connection:
        yield connection.chat(role.model)

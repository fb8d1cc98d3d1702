"""Connections to registered endpoints. The client behind them takes a second to import: only what asks a model pays."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from synthesis import llm
from synthesis.errors import InputError, LLMError
from webapp.endpoints.models import Endpoint
from webapp.endpoints.services import opened

if TYPE_CHECKING:
    from synthesis.llm.client import Connection


def connect(endpoint: llm.Endpoint) -> Connection:
    """A connection to an opened endpoint: an async context manager."""
    from synthesis.llm import client

    return client.connect(endpoint)


@asynccontextmanager
async def chat_with(row: Endpoint, model: str, role: str) -> AsyncIterator[llm.ChatModel]:
    """A model of an endpoint to chat with, for what plays `role`. Raises LLMError where it must not be used."""
    try:
        endpoint = opened(row)
    except InputError as error:
        raise LLMError("refused", f"The {role}'s endpoint {row.name} cannot be used: {error}") from error
    async with connect(endpoint) as connection:
        yield connection.chat(model)

"""Connections to registered endpoints. The client behind them takes a second to import: only what asks a model pays."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from django.db import Error, connection

from synthesis import llm
from synthesis.errors import InputError, LLMError
from synthesis.llm.refusals import LeftOut
from webapp.endpoints import services
from webapp.endpoints.models import Endpoint
from webapp.endpoints.services import opened

if TYPE_CHECKING:
    from synthesis.llm.client import Connection

logger = logging.getLogger(__name__)


def connect(endpoint: llm.Endpoint) -> Connection:
    """A connection to an opened endpoint: an async context manager."""
    from synthesis.llm import client

    return client.connect(endpoint, note_left_out)


async def note_left_out(endpoint: str, left_out: LeftOut) -> None:
    """Keep what an endpoint refuses, on its row."""

    def keep() -> None:
        try:
            services.note_left_out(endpoint, left_out)
        except Error as error:  # it is found out again
            logger.warning("endpoint %s: %s", endpoint, error)
        finally:
            connection.close()

    await asyncio.to_thread(keep)


@asynccontextmanager
async def chat_with(row: Endpoint, model: str, role: str) -> AsyncIterator[llm.ChatModel]:
    """A model of an endpoint to chat with, for what plays `role`. Raises LLMError where it must not be used."""
    try:
        endpoint = opened(row)
    except InputError as error:
        raise LLMError("refused", f"The {role}'s endpoint {row.name} cannot be used: {error}") from error
    async with connect(endpoint) as connection:
        yield connection.chat(model)

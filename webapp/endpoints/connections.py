"""Connections to registered endpoints. Their client takes a second to import, so only what asks a model imports it."""

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
from webapp.endpoints.services import open_endpoint

if TYPE_CHECKING:
    from synthesis.llm.client import Connection

logger = logging.getLogger(__name__)


def open_connection(endpoint: llm.Endpoint) -> Connection:
    """Return a connection to an opened endpoint: an async context manager."""
    from synthesis.llm import client

    return client.connect_to_endpoint(endpoint, note_left_out)


async def note_left_out(endpoint: str, left_out: LeftOut) -> None:
    """Store on an endpoint's row the parameter that its server refuses."""

    def save_to_row() -> None:
        try:
            services.note_left_out(endpoint, left_out)
        except Error as error:  # the next request finds it out again
            logger.warning("endpoint %s: %s", endpoint, error)
        finally:  # the thread has a database connection of its own
            connection.close()

    await asyncio.to_thread(save_to_row)


@asynccontextmanager
async def open_chat_model(row: Endpoint, model: str, role: str) -> AsyncIterator[llm.ChatModel]:
    """Yield a chat model of an endpoint, for the role `role`. Raises LLMError if the endpoint must not be used."""
    try:
        endpoint = open_endpoint(row)
    except InputError as error:
        raise LLMError("refused", f"The {role}'s endpoint {row.name} cannot be used: {error}") from error
    async with open_connection(endpoint) as connection:
        yield connection.chat(model)

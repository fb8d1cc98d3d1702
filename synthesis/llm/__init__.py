"""Chat with LLMs: one protocol, and OpenAI-compatible servers behind it.

async with connect(Endpoint(name="local", base_url="http://127.0.0.1:8000/v1")) as connection:
    reply = await connection.chat("some-model").complete([Message(role="user", content="Hello")])

`connect` is in `synthesis.llm.client`, which alone needs the `openai` package and takes a second to import.
"""

from synthesis.llm.chat import ChatModel, Reply
from synthesis.llm.endpoint import Endpoint

__all__ = ["ChatModel", "Endpoint", "Reply"]

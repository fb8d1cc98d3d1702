"""Chat with LLMs: one protocol, and OpenAI-compatible servers behind it.

async with connect(Endpoint(name="local", base_url="http://127.0.0.1:8000/v1")) as connection:
    reply = await connection.chat("some-model").complete([Message(role="user", content="Hello")])

`connect` is in `synthesis.llm.client`, which alone needs the `openai` package and takes a second to import.

How a stage asks. `asker.py`: `reply` looks the call's key up (`calls.py`: model, what travels, role, stage, item,
sample), joins an equal call that is under way, or takes room under the cap (`cost.py`), waits for a turn at the
endpoint's gate, says `begin`, sends, and has the reply kept before anybody uses it. `structured` and `code` read
replies by `structured.py` and ask again with the reason and the try's number. `client.py` retries within a deadline
that does not count the wait at the gate, pauses the whole connection where a server says `Retry-After`, and says
`begin` anew for each retry; `open_models` opens one connection an endpoint for all roles. `store.py` is the protocol
of what keeps replies: in memory, in a file of lines, in the database (`webapp/batches/engine/call_store.py`). Prices
stand on the endpoint's row, by model.
"""

from synthesis.llm.chat import ChatModel, Reply
from synthesis.llm.endpoint import AskedModel, Endpoint, connected

__all__ = ["AskedModel", "ChatModel", "Endpoint", "Reply", "connected"]

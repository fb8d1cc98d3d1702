"""Chat with LLMs: one protocol, and OpenAI-compatible servers behind it.

async with connect_to_endpoint(Endpoint(name="local", base_url="http://127.0.0.1:8000/v1")) as connection:
    reply = await connection.chat("some-model").complete([Message(role="user", content="Hello")])

`connect_to_endpoint` is in `synthesis.llm.client`, which alone needs the `openai` package and takes a second to import.

How a stage asks. `asker.py`: `reply` looks up the call's key (`calls.py`: model, request body, role, stage, item,
sample), joins an equal call in progress, or reserves its cost under the cap (`cost.py`), waits for its turn at the
endpoint's gate, records `begin`, sends, and stores the reply before it is used. `structured` and `code` read
replies by `structured.py` and ask again with the reason and the try's number. `client.py` retries within a deadline
that does not count the wait at the gate, pauses the whole connection if a server sends `Retry-After`, and records
`begin` again for each retry; `open_models` opens one connection for each endpoint. `store.py` is the protocol
of stores of replies: in memory, in a file of lines, in the database (`webapp/batches/engine/call_store.py`). Prices
are on the endpoint's row, by model.
"""

from synthesis.llm.chat import ChatModel, Reply
from synthesis.llm.endpoint import Endpoint
from synthesis.llm.role_models import AskedModel, open_role_model

__all__ = ["AskedModel", "ChatModel", "Endpoint", "Reply", "open_role_model"]

"""The server of `tests.benchmarks.engine`: vLLM's completions with token ids, of given latency and token rate."""

from __future__ import annotations

import asyncio
import json
import sys
from functools import partial
from typing import Any

MODEL = "policy"


class Server(asyncio.Protocol):
    """One connection of the server: reads a request, counts the turns in its ids and sends the reply that is due."""

    def __init__(self, replies: list[bytes], seconds: list[float], end: int) -> None:
        self.replies, self.seconds, self.end = replies, seconds, b",%d," % end
        self.held = b""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.held += data
        head, found, rest = self.held.partition(b"\r\n\r\n")
        if not found:
            return
        fields = (line.partition(b":") for line in head.lower().splitlines())
        size = next(int(value) for name, _, value in fields if name == b"content-length")
        if len(rest) < size:
            return
        body, self.held = rest[:size].replace(b", ", b","), rest[size:]
        # Task and system message have an end each; later an agent's turn has one, and so has the tool's answer.
        turn = (body.count(self.end) - 2) // 2
        asyncio.get_running_loop().call_later(self.seconds[turn], self._send, self.replies[turn])

    def _send(self, reply: bytes) -> None:
        if not self.transport.is_closing():
            self.transport.write(reply)


def reply(ids: list[int]) -> bytes:
    choice = {
        "index": 0, "text": "", "finish_reason": "stop", "token_ids": ids,
        "logprobs": {"token_logprobs": [-0.25] * len(ids), "tokens": [], "text_offset": [], "top_logprobs": []},
    }  # fmt: skip
    told = {"id": "c", "object": "text_completion", "created": 1, "model": MODEL, "choices": [choice]}
    body = json.dumps(told).encode()
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body) + body


async def serve(told: dict[str, Any]) -> None:
    rate = told["tokens_per_s"]
    seconds = [told["latency_s"] + (len(ids) / rate if rate else 0.0) for ids in told["turns"]]
    made = partial(Server, [reply(ids) for ids in told["turns"]], seconds, told["end"])
    loop = asyncio.get_running_loop()
    server = await loop.create_server(made, "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    # Ends with its parent, whose end of this pipe closes.
    await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(serve(json.loads(sys.stdin.readline())))

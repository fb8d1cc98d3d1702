"""Tokens of a vLLM server: its completions endpoint takes and returns ids, so that nothing is rendered again.

The server batches: calls do not wait for each other. Weights reach it between steps by `training.engines.weights`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any
from urllib.parse import urlsplit

from synthesis.errors import FormatError, LLMError
from synthesis.json_reader import read_json
from synthesis.llm import Endpoint
from training.engines.http import ConnectionEnded, HttpServer
from training.policy import Context, Generation

LOWEST = -100.0
"""What a missing log-probability is taken for."""
LOOK_S = 15.0
"""While tokens are waited for, the server's `/health` is asked so often."""
FIRST_WAIT_S, LONGEST_WAIT_S = 0.5, 8.0
BUSY = 429


class ServedEngine:
    """Engine that asks a server, one request per turn. `ends` are the ids that end a turn, `model` is the requested
    name.

    It needs a server that returns token ids (`return_token_ids`, vLLM 0.10.2 and later). Draws are the server's own: no
    seed is sent for a request, since some of its engines fail on one. A request waits as long as the server shows that
    it works, by replies or by its health: a slow server is no error. A full server (429) is asked again without limit,
    a failing one `endpoint.max_retries` times.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        model: str,
        *,
        ends: Iterable[int],
        temperature: float,
        top_p: float = 1.0,
        policy_step: int = 0,
        name: str = "",
    ) -> None:
        self.endpoint, self.model, self.policy_step = endpoint, model, policy_step
        self.ends = frozenset(ends)
        self.name = name or f"{endpoint.name} {model}"
        self._server = HttpServer(endpoint.base_url, endpoint.api_key.get_secret_value())
        self._health = urlsplit(endpoint.base_url).path.rstrip("/").removesuffix("/v1") + "/health"
        manner = {
            "model": model,
            "temperature": temperature,
            "top_p": top_p,
            "logprobs": 0,
            "return_token_ids": True,
            "stop_token_ids": sorted(self.ends),
        }
        self._manner = json.dumps(manner)[1:-1].encode()
        self._heard = 0.0
        self._waiting = 0

    def heard(self) -> float:
        return self._heard

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Hold connections for the block, and watch the server's health."""
        looks = asyncio.create_task(self._watch_health())
        try:
            yield
        finally:
            looks.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await looks
            self._server.close()

    async def generate(self, ids: Sequence[int], most: int, seed: str) -> Generation:
        """Generate as `GenerationEngine`. Raises LLMError: no usable reply, or a server that returns no ids."""
        prompt_json = ids.json() if isinstance(ids, Context) else ",".join(map(str, ids)).encode()
        body = b'{%s,"max_tokens":%d,"prompt":[%s]}' % (self._manner, most, prompt_json)
        self._waiting += 1
        try:
            status, reply = await self._insist(body)
        finally:
            self._waiting -= 1
        if status != 200:
            text = reply.decode(errors="replace")[:2_000]
            if status >= 500:
                raise LLMError("failed", f"{self.name} failed with status {status}: {text[:500]}", requests=1)
            raise LLMError(
                _classify_refusal(text), f"{self.name} refused with status {status}: {text[:500]}", requests=1
            )
        return self._build_generation(reply, most)

    async def _insist(self, body: bytes) -> tuple[int, bytes]:
        failed, wait = 0, FIRST_WAIT_S
        while True:
            try:
                status, reply = await self._server.post("/completions", body)
            except ConnectionEnded as error:
                failed += 1
                if failed > self.endpoint.max_retries:
                    raise LLMError("unreachable", f"{self.name}: {error}", requests=failed) from error
            else:
                self._heard = time.monotonic()
                failed += status >= 500
                if status != BUSY and (status < 500 or failed > self.endpoint.max_retries):
                    return status, reply
            await asyncio.sleep(wait)
            wait = min(2 * wait, LONGEST_WAIT_S)

    async def _watch_health(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            if self._waiting and time.monotonic() - self._heard >= LOOK_S:
                with contextlib.suppress(ConnectionEnded, TimeoutError):
                    async with asyncio.timeout(LOOK_S):
                        status, _ = await self._server.get(self._health)
                    if status == 200:
                        self._heard = time.monotonic()

    def _build_generation(self, said: bytes, most: int) -> Generation:
        ids, logs = _parse_drawn_tokens(said)
        if ids is None or logs is None or len(ids) != len(logs) or len(ids) > most:
            raise LLMError(
                "malformed",
                f"{self.name} returned no token ids with its log-probabilities; training needs vLLM 0.10.2 or later",
                requests=1,
            )
        return Generation(
            ids=tuple(ids),
            logprobs=tuple(LOWEST if log is None else float(log) for log in logs),
            cut=not ids or ids[-1] not in self.ends,
            policy_step=self.policy_step,
        )


def _parse_drawn_tokens(said: bytes) -> tuple[list[int] | None, list[float | None] | None]:
    """Return (token ids, log-probabilities) of a reply; (None, None) if either is missing or has another type."""
    try:
        choice = read_json(said, broken_text=True)["choices"][0]
        ids, logs = choice["token_ids"], choice["logprobs"]["token_logprobs"]
    except (FormatError, LookupError, TypeError):
        return None, None
    is_drawn = _is_list_of(ids, int) and _is_list_of(logs, int, float, type(None)) and all(token >= 0 for token in ids)
    return (ids, logs) if is_drawn else (None, None)


def _is_list_of(values: Any, *types: type) -> bool:
    """Return whether this is a list of values of these very types."""
    return isinstance(values, list) and set(map(type, values)) <= set(types)


def _classify_refusal(text: str) -> str:
    return "context" if "maximum context length" in text or "max_model_len" in text else "refused"

"""Tokens out of a vLLM server: its completions endpoint takes ids and gives ids back, so that none is rendered again.

For attempts with a model that a server holds (an evaluation, a teacher). A trainer's own policy comes from
`training.engines.local`, whose weights are always the newest.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any

from synthesis.errors import LLMError
from synthesis.llm import Endpoint
from training.policy import Generation

LOWEST = -100.0
"""What a log-probability that is no number is taken for."""


class ServedMaker:
    """Asks a server, one request a turn; the server batches. `ends` are the ids that end a turn.

    It needs a server that returns token ids (`return_token_ids`, vLLM 0.10.2 and later). Draws are the server's own:
    a seed for each request is not sent, since some of its engines fail on one.
    """

    def __init__(
        self, endpoint: Endpoint, model: str, *, ends: Iterable[int], temperature: float, top_p: float = 1.0
    ) -> None:
        self.endpoint, self.model = endpoint, model
        self.ends, self.temperature, self.top_p = frozenset(ends), temperature, top_p
        self._client: Any = None

    @property
    def name(self) -> str:
        return f"{self.endpoint.name} {self.model}"

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Hold a connection pool for the block."""
        # Only jobs that ask a server need the package.
        import openai

        key = self.endpoint.api_key.get_secret_value() or "none"
        async with openai.AsyncOpenAI(
            base_url=self.endpoint.base_url,
            api_key=key,
            timeout=self.endpoint.timeout_s,
            max_retries=self.endpoint.max_retries,
        ) as self._client:
            yield

    async def make(self, ids: Sequence[int], most: int, seed: str) -> Generation:
        """See `Maker`. Raises LLMError: no usable reply, or a server that returns no ids."""
        import openai

        try:
            reply = await self._client.completions.create(
                model=self.model,
                prompt=list(ids),
                max_tokens=most,
                temperature=self.temperature,
                top_p=self.top_p,
                logprobs=0,
                extra_body={"return_token_ids": True, "stop_token_ids": sorted(self.ends)},
            )
        except openai.APITimeoutError as error:
            raise LLMError("timeout", f"{self.name} gave no reply in time", requests=1) from error
        except openai.APIConnectionError as error:
            raise LLMError("unreachable", f"{self.name} cannot be reached", requests=1) from error
        except openai.BadRequestError as error:
            raise LLMError(_refusal(str(error)), f"{self.name} refused: {str(error)[:500]}", requests=1) from error
        except openai.APIStatusError as error:
            raise LLMError("failed", f"{self.name} failed with status {error.status_code}", requests=1) from error
        return self._made(reply.model_dump(), most)

    def _made(self, reply: dict[str, Any], most: int) -> Generation:
        choice = (reply.get("choices") or [{}])[0]
        ids, logs = choice.get("token_ids"), (choice.get("logprobs") or {}).get("token_logprobs")
        if not isinstance(ids, list) or not isinstance(logs, list) or len(ids) != len(logs) or len(ids) > most:
            raise LLMError(
                "malformed",
                f"{self.name} returned no token ids beside log-probabilities; training needs vLLM 0.10.2 or later",
                requests=1,
            )
        kept = tuple(LOWEST if log is None or not math.isfinite(log) else float(log) for log in logs)
        return Generation(ids=tuple(int(i) for i in ids), logprobs=kept, cut=not ids or ids[-1] not in self.ends)


def _refusal(text: str) -> str:
    return "context" if "maximum context length" in text or "max_model_len" in text else "refused"

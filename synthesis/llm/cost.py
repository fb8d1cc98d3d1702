"""The cost of calls: prices by model, the usage so far, and the cap above which no call may begin.

The guarantee of the cap: a request begins only while the money spent, the likely cost of requests in flight and its own
likely cost together keep to it. So the end is above the cap by no more than the replies then in flight cost beyond what
was reserved for them: by nothing, if every call has `max_tokens` and no prompt has more than a token for three bytes.
One meter sees one process; it knows the spending of others as far as `elsewhere` is kept up to date. The price of
requests that a provider bills but never answers is unknown.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from pydantic import Field

from synthesis.contracts import Frozen, Usage
from synthesis.drafts import StageUsage
from synthesis.errors import SpendCapReached
from synthesis.llm.calls import Site, StageCall

MILLION = 1_000_000
BYTES_A_TOKEN = 3
"""Fewer than texts in most languages have, so that a prompt is rather taken for too dear."""
LIKELY_COMPLETION = 1_000
"""Tokens of a reply, where neither the call bounds it nor an earlier reply at its place was longer."""
ROUNDING = 1e-9
"""Sums of floats are this exact: a call that just fits is not refused for the last digit."""
_BOUNDS = ("max_completion_tokens", "max_tokens")


class Price(Frozen):
    """Money for a million tokens. Cached prompt tokens cost `cached`, or as much as others if that is None.

    Reasoning tokens are part of the completion and cost the same. A model without a `Price` has an unknown one.
    """

    prompt: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    completion: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    cached: float | None = Field(default=None, ge=0, allow_inf_nan=False)

    @property
    def free(self) -> bool:
        return not (self.prompt or self.completion or self.cached)

    def of(self, usage: Usage) -> float:
        cached = min(usage.cached_tokens, usage.prompt_tokens)
        cheap = self.prompt if self.cached is None else self.cached
        # Some servers count reasoning apart from the completion instead of in it.
        written = max(usage.completion_tokens, usage.reasoning_tokens)
        return ((usage.prompt_tokens - cached) * self.prompt + cached * cheap + written * self.completion) / MILLION


FREE = Price()


def compute_cost(price: Price | None, usage: Usage) -> float | None:
    """Return the cost of a reply. None if it is unknown: no price, or a server that counts no tokens."""
    if price is None:
        return None
    return price.of(usage) if price.free or usage.prompt_tokens + usage.completion_tokens else None


def list_unpriced(prices: Mapping[str, Price], models: Iterable[str]) -> list[str]:
    """Return the models without a known price."""
    return sorted({name for name in models if name not in prices})


@dataclass
class CostMeter:
    """The usage of one batch so far, in one event loop.

    `spent` starts with the spending of earlier processes; `elsewhere` is the concurrent spending of others, for their
    owner to keep up to date; `cap` None is no cap. `watch` is called for every call, as it is counted.
    """

    prices: Mapping[str, Price] = field(default_factory=dict)
    cap: float | None = None
    spent: float = 0.0
    elsewhere: float = 0.0
    watch: Callable[[Site, StageUsage], None] = lambda site, spent: None
    places: dict[tuple[str, str], StageUsage] = field(default_factory=dict)
    """By role and stage."""
    reserved: float = 0.0
    """What requests in flight are likely to cost."""
    assumed: float = 0.0
    """Likely costs of replies whose server counts no tokens: held against the cap, never shown as spent."""
    _flying: int = 0
    _landed: asyncio.Event = field(default_factory=asyncio.Event)
    _longest: dict[tuple[str, str], int] = field(default_factory=dict)

    @property
    def total(self) -> StageUsage:
        return sum(self.places.values(), StageUsage())

    @property
    def replayed(self) -> int:
        return self.total.replayed

    @asynccontextmanager
    async def room(self, call: StageCall, model: str, price: Price | None = None) -> AsyncIterator[None]:
        """Reserve the likely cost of a call while it runs; wait if only calls in flight prevent it.

        Raise SpendCapReached if it would begin above the cap, or if its price is unknown.
        """
        likely = await self._wait_for_room(call, model, price or self.prices.get(model))
        self.reserved += likely
        self._flying += 1
        try:
            yield
        finally:
            self._flying -= 1
            self.reserved = self.reserved - likely if self._flying else 0.0
            self._landed.set()
            self._landed = asyncio.Event()

    def add(self, call: StageCall, model: str, usage: Usage, price: Price | None = None) -> float | None:
        """Count one reply (or the usage of failed requests) and return its cost, None if it is unknown."""
        price = price or self.prices.get(model)
        place = (call.site.role, call.site.stage)
        if not usage.requests > usage.lost:
            self._count(call.site, StageUsage(usage=usage))
            return 0.0
        cost = compute_cost(price, usage)
        self.spent += cost or 0.0
        if price is not None and cost is None:
            self.assumed += price.of(self.likely(call))
        self._longest[place] = max(self._longest.get(place, 0), usage.completion_tokens)
        self._count(call.site, StageUsage(usage=usage, cost=cost or 0.0, unpriced=int(cost is None)))
        return cost

    def replay(self, site: Site) -> None:
        """Count a stored reply, which cost nothing."""
        self._count(site, StageUsage(replayed=1))

    def likely(self, call: StageCall, size: int | None = None) -> Usage:
        """Return the tokens that a call will probably use; `size` is that of its body, if known."""
        size = _measure_body(call) if size is None else size
        bounds = [call.parameters.get(name) for name in _BOUNDS]
        bound = next((limit for limit in bounds if type(limit) is int and limit > 0), None)
        longest = max(LIKELY_COMPLETION, self._longest.get((call.site.role, call.site.stage), 0))
        return Usage(prompt_tokens=math.ceil(size / BYTES_A_TOKEN), completion_tokens=bound or longest)

    async def _wait_for_room(self, call: StageCall, model: str, price: Price | None) -> float:
        if self.cap is None:
            return 0.0
        if price is None:
            raise SpendCapReached(
                f"The spend cap of {self.cap:g} cannot be kept: no price is set for {model}. Set its price on "
                "the page of its endpoint (0 if it is free), or run without a cap."
            )
        size = _measure_body(call)
        while True:
            likely = 0.0 if price.free else price.of(self.likely(call, size))
            sure = self.spent + self.elsewhere + self.assumed
            if sure + self.reserved + likely <= self.cap + ROUNDING:
                return likely
            if not self._flying or sure > self.cap:
                raise SpendCapReached(
                    f"The spend cap of {self.cap:g} is reached: {sure:.4f} is spent, and the next call would cost "
                    f"about {likely:.4f}. Raise the cap to go on."
                )
            await self._landed.wait()

    def _count(self, site: Site, spent: StageUsage) -> None:
        place = (site.role, site.stage)
        self.places[place] = self.places.get(place, StageUsage()) + spent
        self.watch(site, spent)


def _measure_body(call: StageCall) -> int:
    """Return the bytes of the request body."""
    return len(json.dumps(call.body(), ensure_ascii=False, default=str).encode("utf-8", "replace"))

"""What calls cost: prices a model, what was used, and the cap that nothing may begin above."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import Field

from synthesis.contracts import Frozen, Usage
from synthesis.errors import SpendCapReached
from synthesis.llm.calls import Site

MILLION = 1_000_000


class Price(Frozen):
    """Money for a million tokens. Cached prompt tokens cost `cached`, or as much as others where that is None."""

    prompt: float = Field(default=0.0, ge=0)
    completion: float = Field(default=0.0, ge=0)
    cached: float | None = Field(default=None, ge=0)

    def of(self, usage: Usage) -> float:
        cached = min(usage.cached_tokens, usage.prompt_tokens)
        cheap = self.prompt if self.cached is None else self.cached
        spent = (
            (usage.prompt_tokens - cached) * self.prompt + cached * cheap + usage.completion_tokens * self.completion
        )
        return spent / MILLION


@dataclass
class Meter:
    """What one batch has used so far. `spent` starts with what earlier processes spent; `cap` None is no cap."""

    prices: Mapping[str, Price] = field(default_factory=dict)
    cap: float | None = None
    spent: float = 0.0
    usage: dict[tuple[str, str], Usage] = field(default_factory=dict)
    """By role and stage."""
    replayed: int = 0

    def require_room(self) -> None:
        """Raises SpendCapReached where nothing more may begin."""
        if self.cap is not None and self.spent >= self.cap:
            raise SpendCapReached(f"The spend cap of {self.cap:g} is reached ({self.spent:.4f} spent).")

    def add(self, site: Site, model: str, usage: Usage) -> float:
        """Count one reply (or what failed requests used) and give its cost."""
        cost = self.prices.get(model, Price()).of(usage)
        self.spent += cost
        place = (site.role, site.stage)
        self.usage[place] = self.usage.get(place, Usage()) + usage
        return cost

"""Number of turns of an agent during training (AG 3.3, ScalingInter-RL)."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from synthesis.contracts import Frozen
from training.config.units import Count, Turns


class Constant(Frozen):
    """The same horizon throughout."""

    kind: Literal["constant"] = "constant"
    turns: Turns = Field(default=30, description="Turns that an agent has.")


class Listed(Frozen):
    """AG 3.3: h1 < h2 < ... < hn, the next one every `every` steps; the last one stays."""

    kind: Literal["list"] = "list"
    turns: tuple[Turns, ...] = Field(min_length=1, max_length=100, description="The horizons in their order.")
    every: Count = Field(description="Steps that each horizon lasts (AG's delta).")

    @model_validator(mode="after")
    def _require_growing_turns(self) -> Self:
        if any(a >= b for a, b in pairwise(self.turns)):
            raise ValueError("turns: each horizon must be longer than the one before it (AG 3.3)")
        return self


class Increment(Frozen):
    """AG 3.3: h(t + every) = h(t) + `increment`, at most `cap`."""

    kind: Literal["increment"] = "increment"
    first: Turns = Field(description="The first horizon, in turns (h1).")
    increment: Turns = Field(description="Turns that are added each time (AG's delta_h).")
    every: Count = Field(description="Steps between two increments (AG's delta).")
    cap: Turns = Field(description="The longest horizon, in turns.")

    @model_validator(mode="after")
    def _require_first_below_cap(self) -> Self:
        if self.first > self.cap:
            raise ValueError("first: the first horizon is longer than the cap")
        return self


class Phase(Frozen):
    begins: Annotated[float, Field(ge=0, lt=1)] = Field(description="Share of all steps that lies before this phase.")
    turns: Turns = Field(description="Horizon of the phase, in turns.")


class Fractions(Frozen):
    """AG 4.2: transition points set by the total number of steps."""

    kind: Literal["fractions"] = "fractions"
    phases: tuple[Phase, ...] = Field(min_length=1, max_length=100, description="The first begins at 0.")

    @model_validator(mode="after")
    def _require_ordered_phases(self) -> Self:
        if self.phases[0].begins != 0:
            raise ValueError("phases: the first one must begin at 0")
        if any(a.begins >= b.begins or a.turns >= b.turns for a, b in pairwise(self.phases)):
            raise ValueError("phases: each must begin later and be longer than the one before it (AG 3.3)")
        return self


Horizon = Annotated[Constant | Listed | Increment | Fractions, Field(discriminator="kind")]

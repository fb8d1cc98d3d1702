"""Disturbances of attempts: latency, failures and error results that real services have and programs do not."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from synthesis.contracts.base import Frozen

Rate = Annotated[float, Field(ge=0, le=1)]
MOST_LATENCY_S = 86_400


class Disturbance(Frozen):
    """Rates and kinds of disturbed calls (EnvScaler's third limitation; the rates are ours). Off if all rates are 0.

    At most one of `failures` and `error_results` affects a call, so both are shares of all calls of the environment's
    tools. `latency` affects independently the calls that the program carries out. A submitted answer is never
    disturbed, nor is a call of a tool that does not exist or one that cannot be read.
    """

    latency: Rate = Field(
        default=0.0,
        description="Share of calls before which the clock of the environment is advanced, without a real wait.",
    )
    latency_s: float = Field(
        default=30.0, ge=0, le=MOST_LATENCY_S, description="Seconds by which the clock then goes ahead."
    )
    failures: Rate = Field(
        default=0.0,
        description="Share of calls that are refused with `503` before they reach the environment: nothing changes.",
    )
    error_results: Rate = Field(
        default=0.0,
        description="Share of calls whose result is replaced by an error `500`, which does not say whether the call "
        "was carried out.",
    )
    carried_out: Rate = Field(
        default=0.5, description="Share of those that were carried out before their result was lost."
    )

    @property
    def is_on(self) -> bool:
        return bool(self.latency or self.failures or self.error_results)

    @model_validator(mode="after")
    def _require_one_fault(self) -> Self:
        if self.failures + self.error_results > 1:
            raise ValueError(
                "failures, error_results: a call has one of both at most, so together they are no more than 1"
            )
        return self


class Injection(Frozen):
    """Effect of a disturbance on one call.

    `unavailable`: it was refused before it reached the program. `error`: its result was replaced by an error, and
    `carried_out` is True if the program had carried it out. `latency_s`: seconds by which the program's clock advanced
    before the call.
    """

    fault: Literal["", "unavailable", "error"] = ""
    carried_out: bool = True
    latency_s: float = Field(default=0.0, ge=0, le=MOST_LATENCY_S)

"""Sampling parameters of a role's requests: temperature and the like, with the defaults of the roles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from synthesis.contracts import Frozen

Effort = Literal["none", "minimal", "low", "medium", "high"]


class Sampling(Frozen):
    """Parameters of a role's requests. None is left to the server. With a `seed` each sample has its own."""

    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    max_tokens: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    reasoning_effort: Effort | None = None
    seed: Annotated[int, Field(ge=0, lt=2**31)] | None = None

    def parameters(self, sample: int = 0) -> dict[str, Any]:
        """Return the parameters of a request. Samples of one question differ by their seed, if there is one."""
        chosen = self.model_dump(exclude_none=True)
        if self.seed is not None:
            chosen["seed"] = (self.seed + sample) % 2**31
        return chosen


DEFAULTS: Mapping[str, Sampling] = {
    "tester": Sampling(temperature=1.0),
    "teacher": Sampling(temperature=1.0),
    "checker": Sampling(temperature=0.0),
    "judge": Sampling(temperature=0.0),
}
"""Who tries is sampled, so that k runs differ; who judges is not. Ours; of other roles the server decides."""


def get_sampling(role: str, chosen: Mapping[str, Sampling]) -> Sampling:
    """Return the chosen sampling of a role, else its default."""
    return chosen.get(role) or DEFAULTS.get(role) or Sampling()

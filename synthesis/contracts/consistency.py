"""Agreement of a solver's runs at a task (Agent-World 3.1.1, "Quality Consistency and Verification")."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from synthesis.contracts.base import Frozen

ConsistencyRule = Literal["verifier", "each_other"]
"""Which runs count: those that the task's verifier gives the full reward, or those whose answers equal each other."""


class Consistency(Frozen):
    """Agreement of the solver's runs at a task (Agent-World 3.1.1).

    `solved` of `runs` passed within `turn_limit` turns, and the answers of `alike` equal each other. The `rule` selects
    which of these two counts must reach `agree`. `turns` are those that each run took.
    """

    runs: int = Field(ge=0, le=1_000)
    solved: int = Field(ge=0, le=1_000)
    agree: int = Field(ge=0, le=1_000)
    turn_limit: int = Field(ge=0, le=1_000_000)
    turns: tuple[int, ...] = Field(default=(), max_length=1_000)
    alike: int | None = Field(default=None, ge=0, le=1_000)
    rule: ConsistencyRule = "verifier"

    @property
    def is_reached(self) -> bool:
        """True if enough runs agree."""
        return (self.solved if self.rule == "verifier" else self.alike or 0) >= self.agree

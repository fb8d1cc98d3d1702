"""Titles of the variants of the pipeline, and their settings: one class for each that has its own."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from synthesis.contracts import ConsistencyRule, Frozen

VARIANT_TITLES: dict[str, str] = {
    "envscaler": "EnvScaler",
    "autoforge": "AutoForge",
    "programmatic": "Agent-World, programs",
    "walk": "Agent-World, walks",
}
"""By `synthesis.stages.Variant`, as lists and forms name it."""


class GraphSettings(Frozen):
    """Settings of the variant `autoforge`. The paper publishes none of them: all are ours."""

    judge_anew: bool = False
    """Judge the edges also of environments whose edges are stored."""
    walks: int = Field(default=2_000, ge=1, le=100_000)
    """Random walks that are drawn on an environment's graph of tools (AF 3.2: thousands)."""
    least_steps: int = Field(default=2, ge=2, le=20)
    """Tools of the shortest walk."""
    most_steps: int = Field(default=6, ge=2, le=20)
    most_tools: int = Field(default=14, ge=2, le=30)
    """Of two merged walks, before redundant tools are taken out."""
    spare_merges: int = Field(default=6, ge=0, le=100)
    """So many merges more than blueprints are wanted are tried, in place of those that are dropped."""
    reasoning_nodes: int = Field(default=3, ge=0, le=10)
    """That a model may put into a sequence."""
    deletions: int = Field(default=6, ge=0, le=30)
    """Sentences of an instruction that are left out on trial, each with a run of the teacher."""

    @model_validator(mode="after")
    def _require_rising_steps(self) -> Self:
        if self.least_steps > self.most_steps:
            raise ValueError("the most steps of a walk are at least the least steps")
        return self


class ConsistencySettings(Frozen):
    """Consistency of the solver's runs at a task, which decides whether it is kept. Agent-World publishes the runs and
    how many of them must agree (3.1.1); the others are ours.
    """

    consistency_runs: int = Field(default=5, ge=1, le=32)
    """Published, 3.1.1."""
    consistency_agree: int = Field(default=2, ge=1, le=32)
    """So many of them must agree (published, 3.1.1)."""
    consistency_rule: ConsistencyRule = "verifier"
    turns_a_call: int = Field(default=3, ge=1, le=20)
    """Turns that a run has for each call of the reference."""
    least_turns: int = Field(default=12, ge=1, le=100)
    most_turns: int = Field(default=100, ge=1, le=1_000)

    @model_validator(mode="after")
    def _require_enough_runs(self) -> Self:
        if self.consistency_agree > self.consistency_runs:
            raise ValueError("no more runs can have to agree than are made")
        return self

    def limit_turns(self, calls: int) -> int:
        """Return the turns of a run at a task whose reference has so many calls."""
        return min(self.most_turns, max(self.least_turns, self.turns_a_call * calls))


class ProgrammaticSettings(ConsistencySettings):
    """Settings of the variant `programmatic`. Agent-World publishes only those of consistency; the others are ours."""

    rounds: int = Field(default=5, ge=1, le=20)
    """In which a script is debugged, the first reply included."""
    least_calls: int = Field(default=3, ge=1, le=100)
    """Of a solution."""
    most_calls: int = Field(default=33, ge=1, le=100)
    """Of a solution: three times as many turns are at most a hundred."""
    siblings: int = Field(default=4, ge=0, le=20)
    """Neighbouring states whose answers a verification script must not let pass."""

    @model_validator(mode="after")
    def _require_rising_calls(self) -> Self:
        if self.least_calls > self.most_calls:
            raise ValueError("the most calls of a solution are at least the least calls")
        return self


class WalkSettings(ConsistencySettings):
    """Settings of the variant `walk`. Agent-World publishes the weights and, of consistency, the runs and how many must
    agree; the others are ours.
    """

    least_steps: int = Field(default=3, ge=2, le=30)
    """Calls of a chain as it was reviewed."""
    most_steps: int = Field(default=8, ge=2, le=30)
    """Calls of a walk as it is drawn, which its review makes fewer (AW 3.1.1: more are more difficult)."""
    weak_factor: float = Field(default=1.0, ge=0, le=100)
    """By which the weight of weak edges is multiplied (AW 3.1.1: a larger one is more difficult)."""
    independent_factor: float = Field(default=1.0, ge=0, le=100)
    """Likewise of independent edges, which most pairs of tools have."""
    visits: int = Field(default=2, ge=1, le=10)
    """How often a walk may come to one tool."""
    draws: int = Field(default=12, ge=1, le=100)
    """Arguments that are drawn for a call until one goes through."""
    hidden: bool = True
    """Rewrite the final words so that they say nothing of tools and their order (AW 3.1.1)."""

    @model_validator(mode="after")
    def _require_rising_steps(self) -> Self:
        if self.least_steps > self.most_steps:
            raise ValueError("the most steps of a walk are at least the least steps")
        return self

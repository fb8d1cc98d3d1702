"""Numbers of the variants of the pipeline, a class for each that has some of its own."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from synthesis.contracts import Frozen


class GraphSettings(Frozen):
    """Numbers of the variant `autoforge`. The paper publishes none of them: all are ours."""

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
    def _steps_rise(self) -> Self:
        if self.least_steps > self.most_steps:
            raise ValueError("the most steps of a walk are at least the least steps")
        return self


class ProgrammaticSettings(Frozen):
    """Numbers of the variant `programmatic`. Agent-World publishes the runs and how many must agree (3.1.1); the others
    are ours."""

    rounds: int = Field(default=5, ge=1, le=20)
    """In which a script is debugged, the first reply included."""
    least_calls: int = Field(default=3, ge=1, le=100)
    """Of a solution."""
    most_calls: int = Field(default=33, ge=1, le=100)
    """Of a solution: three times as many turns are at most a hundred."""
    siblings: int = Field(default=4, ge=0, le=20)
    """Neighbouring states whose answers a verification script must not let pass."""
    consistency_runs: int = Field(default=5, ge=1, le=32)
    """Published, 3.1.1."""
    consistency_agree: int = Field(default=2, ge=1, le=32)
    """So many of them must pass (published, 3.1.1)."""
    turns_a_call: int = Field(default=3, ge=1, le=20)
    """Turns that a run has for each call of the reference."""
    least_turns: int = Field(default=12, ge=1, le=100)
    most_turns: int = Field(default=100, ge=1, le=1_000)

    @model_validator(mode="after")
    def _reachable(self) -> Self:
        if self.consistency_agree > self.consistency_runs:
            raise ValueError("no more runs can have to pass than are made")
        if self.least_calls > self.most_calls:
            raise ValueError("the most calls of a solution are at least the least calls")
        return self

    def limit_turns(self, calls: int) -> int:
        """The turns of a run at a task whose reference has so many calls."""
        return min(self.most_turns, max(self.least_turns, self.turns_a_call * calls))

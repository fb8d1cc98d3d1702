"""Sampling of a step: tasks drawn, turns sampled, attempts made, evaluations."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from synthesis.contracts import Disturbance, Frozen, UserKind, VerifierKind
from training.config.units import SettingName, Turns, Weight


class Mixture(Frozen):
    """Weights of environments and settings. A name that is not listed has weight 1; weight 0 leaves it out.

    For kinds of verifiers, which only tasks have, a weight of 0 leaves tasks out of RL; any other changes nothing. RL
    draws environments in proportion to their weights, however many tasks they have; with sampling.draw `tasks` it draws
    each task in proportion to its environment's and its setting's weight. SFT passes over a row as many times an epoch
    as the product of both: 2 is twice, 0.5 every other epoch.
    """

    environments: dict[str, Weight] = Field(default_factory=dict, max_length=10_000, description="Weight by id.")
    settings: dict[SettingName, Weight] = Field(default_factory=dict, description="Weight by setting.")
    verifiers: dict[VerifierKind, Annotated[int, Field(ge=0, le=1)]] = Field(
        default_factory=dict,
        description="Kinds of verifiers whose tasks are drawn (checks, golden, rubric, script): 0 leaves them out.",
    )

    @model_validator(mode="after")
    def _require_some_weight(self) -> Self:
        if len(self.settings) == 2 and not any(self.settings.values()):
            raise ValueError("both settings have weight 0: give one of them a weight")
        if len(self.verifiers) == 4 and not any(self.verifiers.values()):
            raise ValueError("all kinds of verifiers have weight 0: leave one of them in")
        return self


class Sampling(Frozen):
    """Attempts of one step: `tasks` x `rollouts`, the tasks drawn by environment or one by one."""

    draw: Literal["environments", "tasks"] = Field(
        default="environments",
        description="`environments`: a step draws environments, and as many tasks of each (ERPO needs at least 2). "
        "`tasks`: it draws its tasks uniformly over all tasks (ES B.2), of however many environments they are.",
    )
    environments: int = Field(default=8, ge=1, le=4096, description="Environments a step, with draw `environments`.")
    tasks: int = Field(default=32, ge=1, le=65_536, description="Tasks a step, over all its environments.")
    rollouts: int = Field(default=8, ge=2, le=1024, description="Attempts a task (AF's M, AW's G).")

    @property
    def tasks_each(self) -> int:
        """AF's P: tasks of one environment in a step; 1 if tasks are drawn one by one."""
        return self.tasks // self.environments if self.draw == "environments" else 1

    @model_validator(mode="after")
    def _require_even_shares(self) -> Self:
        if self.draw == "environments" and self.tasks % self.environments:
            raise ValueError("tasks: must be a multiple of environments, so that each gives as many tasks")
        return self


class Decoding(Frozen):
    """Sampling of turns."""

    temperature: float = Field(default=1.0, ge=0, le=5, description="0 takes the likeliest token.")
    top_p: float = Field(default=1.0, gt=0, le=1, description="Nucleus; below 1 the policy's own probabilities lie.")
    turn_tokens: int = Field(default=4096, ge=1, le=1_000_000, description="Tokens that one turn may have.")
    trajectory_tokens: int = Field(default=32_768, ge=16, le=10_000_000, description="Tokens of a whole attempt.")


class Attempts(Frozen):
    """Settings of attempts."""

    at_once: int = Field(default=32, ge=1, le=4096, description="Attempts under way at the same time, a process.")
    ahead: bool = Field(
        default=False,
        description="A step's attempts are made while the model learns from those before, by the policy as it was "
        "before that update: one step off-policy. It needs a vLLM server on GPUs of its own.",
    )
    deadline_s: float = Field(
        default=900.0,
        gt=0,
        le=86_400,
        description="Seconds that an attempt's tools may take, and that what writes its tokens may be silent; then "
        "`infra_error`, or `program_error` if its program took most of them. Waiting for tokens does not count.",
    )
    unusable: int = Field(
        default=3, ge=1, le=100, description="So many turns in a row without a usable call or words end an attempt."
    )
    answer_mends: int = Field(
        default=3,
        ge=0,
        le=20,
        description="So many answers that do not fit the answer form of a task may be mended; the next one ends an "
        "attempt.",
    )
    user: UserKind = Field(
        default="optimised",
        description="How the simulated user is instructed: `base` has the intent and a stop word, `optimised` the "
        "rules of AF A.2. Which model plays it is the job's user_model.",
    )
    user_tools: tuple[str, ...] = Field(
        default=(),
        max_length=100,
        description="Tools that the simulated user alone may call, in the environments that have them (users with "
        "tools, AF 4.3; the mechanism is ours). Tasks without a conversation leave them to the agent.",
    )
    judges_user: bool = Field(
        default=False,
        description="Ask the judge of every conversation whether its simulated user erred (AF A.1). `masking.meu` asks "
        "it anyway.",
    )
    disturbance: Disturbance = Disturbance()


class DynamicSampling(Frozen):
    """Groups whose attempts all earned the same reward are left out and others drawn instead (AF 4.1, DAPO)."""

    enabled: bool = Field(default=False, description="Leave such groups out and draw others instead.")
    rounds: int = Field(default=3, ge=1, le=100, description="At most so many times is drawn for one step.")
    drop: Literal["before", "after"] = Field(
        default="before",
        description="Whether such groups leave before the environment's standard deviation is taken, or after.",
    )


class Evaluation(Frozen):
    """Attempts at the held-out split; its horizon is its own."""

    every: int = Field(default=10, ge=0, le=100_000, description="Steps between evaluations; 0: only at the end.")
    tasks: int = Field(default=64, ge=1, le=100_000, description="Held-out tasks, the same each time.")
    rollouts: int = Field(default=1, ge=1, le=1_000, description="Attempts a task.")
    turns: Turns = Field(default=30, description="Horizon in turns.")
    temperature: float = Field(default=1.0, ge=0, le=5, description="0 takes the likeliest token.")
    top_p: float = Field(default=1.0, gt=0, le=1, description="Nucleus.")
    sampled: float = Field(
        default=0.0, ge=0, le=5, description="Temperature of a second try at each task, a curve of its own; 0: none."
    )

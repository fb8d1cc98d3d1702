"""What a training job is told: meaning, unit and range of every setting. No torch.

Values come from presets, which say of each whether it is published and where; the defaults here are Envarium's own.
Paper places: AF = AutoForge, ES = EnvScaler, AG = AgentGym-RL (ScalingInter-RL), AW = Agent-World.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal, Self

from pydantic import Field, TypeAdapter, ValidationError, model_validator

from synthesis.contracts import Frozen
from synthesis.errors import InputError

Share = Annotated[float, Field(ge=0, le=1)]
Weight = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]
Turns = Annotated[int, Field(ge=1, le=1_000)]
Count = Annotated[int, Field(ge=1, le=1_000_000)]
Seed = Annotated[int, Field(ge=0, le=2**31 - 1)]
SettingName = Literal["task", "conversation"]
"""`task`: the agent is told the whole task (ES: Non-Conv.). `conversation`: a simulated user tells it (Conv.)."""
AdvantageKind = Literal["group", "environment", "leave_one_out", "global", "global_baseline"]
LossForm = Literal["trajectory", "gspo", "grpo", "dapo", "bnpo", "dr_grpo"]
MeuScope = Literal["all", "failed"]
RewardRule = Literal["score", "all_or_nothing"]
KlEstimator = Literal["k1", "k2", "k3"]


class Full(Frozen):
    """All weights are trained."""

    kind: Literal["full"] = "full"


class Lora(Frozen):
    """Low-rank adapters are trained, the model itself stays as it is."""

    kind: Literal["lora"] = "lora"
    rank: int = Field(default=16, ge=1, le=512, description="Rank of each adapter.")
    alpha: float = Field(default=32.0, gt=0, le=4096, description="Scale: adapters count alpha / rank.")
    dropout: float = Field(default=0.0, ge=0, lt=1, description="Dropout inside the adapters.")
    target: Literal["all-linear", "attention"] = Field(
        default="all-linear", description="Which layers get adapters: every linear one, or the attention's only."
    )


class Optimiser(Frozen):
    """AdamW and its course."""

    learning_rate: float = Field(default=1e-6, gt=0, le=1, description="Peak learning rate.")
    schedule: Literal["constant", "linear", "cosine"] = Field(
        default="constant", description="Course of the learning rate after the warm-up."
    )
    warmup_steps: int = Field(default=0, ge=0, le=100_000, description="Steps of linear warm-up from 0.")
    weight_decay: float = Field(default=0.0, ge=0, le=1, description="AdamW's weight decay.")
    max_grad_norm: float = Field(default=1.0, gt=0, le=1_000, description="Gradients are scaled down to this norm.")
    micro_batch: int = Field(
        default=1, ge=1, le=4096, description="Sequences in one forward pass on one device; the rest is accumulated."
    )
    precision: Literal["auto", "bf16", "fp32"] = Field(
        default="auto", description="`auto`: bf16 where the device has it, else fp32."
    )


class Mixture(Frozen):
    """How often environments and settings are drawn. What is not named has weight 1; weight 0 leaves it out.

    RL draws environments in proportion to their weights, however many tasks they have. SFT goes through a row as many
    times an epoch as its environment's and its setting's weight say together: 2 is twice, 0.5 every other epoch.
    """

    environments: dict[str, Weight] = Field(default_factory=dict, max_length=10_000, description="Weight by id.")
    settings: dict[SettingName, Weight] = Field(default_factory=dict, description="Weight by setting.")

    @model_validator(mode="after")
    def _something_is_left(self) -> Self:
        if len(self.settings) == 2 and not any(self.settings.values()):
            raise ValueError("both settings have weight 0: give one of them a weight")
        return self


class Limits(Frozen):
    """When a job stops, pauses or saves."""

    hours: float = Field(default=72.0, gt=0, le=24 * 60, description="Wall time in hours; then it stops and saves.")
    checkpoint_every: int = Field(default=50, ge=1, le=100_000, description="Steps between checkpoints.")
    checkpoints_kept: int = Field(default=3, ge=1, le=1_000, description="The latest so many are kept.")
    infra_error_share: Share = Field(
        default=0.2, description="A job pauses when more than this share of a step's attempts is `infra_error`."
    )
    program_error_share: Share = Field(
        default=0.2,
        description="A job pauses when more than this share of a step's attempts is `program_error`, with the "
        "environments named; a step of fewer than 16 attempts is taken as one of 16.",
    )


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
    def _grows(self) -> Self:
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
    def _below_the_cap(self) -> Self:
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
    def _in_order(self) -> Self:
        if self.phases[0].begins != 0:
            raise ValueError("phases: the first one must begin at 0")
        if any(a.begins >= b.begins or a.turns >= b.turns for a, b in pairwise(self.phases)):
            raise ValueError("phases: each must begin later and be longer than the one before it (AG 3.3)")
        return self


Horizon = Annotated[Constant | Listed | Increment | Fractions, Field(discriminator="kind")]
Tuning = Annotated[Full | Lora, Field(discriminator="kind")]


class Sampling(Frozen):
    """What one step tries: `environments` x (`tasks` / `environments`) tasks x `rollouts` attempts."""

    environments: int = Field(default=8, ge=1, le=4096, description="Environments a step.")
    tasks: int = Field(default=32, ge=1, le=65_536, description="Tasks a step, over all its environments.")
    rollouts: int = Field(default=8, ge=2, le=1024, description="Attempts a task (AF's M, AW's G).")

    @property
    def tasks_each(self) -> int:
        """AF's P: tasks of one environment in a step."""
        return self.tasks // self.environments

    @model_validator(mode="after")
    def _at_least_two_tasks(self) -> Self:
        if self.tasks % self.environments:
            raise ValueError("tasks: must be a multiple of environments, so that each gives as many tasks")
        if self.tasks_each < 2:
            raise ValueError("tasks: an environment needs at least 2 tasks a step (AF Eq. 4): take 2 x environments")
        return self


class Decoding(Frozen):
    """How turns are sampled."""

    temperature: float = Field(default=1.0, ge=0, le=5, description="0 takes the likeliest token.")
    top_p: float = Field(default=1.0, gt=0, le=1, description="Nucleus; below 1 the policy's own probabilities lie.")
    turn_tokens: int = Field(default=4096, ge=1, le=1_000_000, description="Tokens that one turn may have.")
    trajectory_tokens: int = Field(default=32_768, ge=16, le=10_000_000, description="Tokens of a whole attempt.")


class Attempts(Frozen):
    """How attempts are carried out."""

    at_once: int = Field(default=32, ge=1, le=4096, description="Attempts under way at the same time, a process.")
    deadline_s: float = Field(
        default=900.0,
        gt=0,
        le=86_400,
        description="Seconds of one attempt; then `infra_error`, or `program_error` if its program took most of them.",
    )
    unusable: int = Field(
        default=3, ge=1, le=100, description="So many turns in a row without a usable call or words end an attempt."
    )


class Advantage(Frozen):
    kind: AdvantageKind = Field(
        default="group",
        description="`group`: AF Eq. 3 (GRPO). `environment`: AF Eq. 4 (ERPO). `leave_one_out`: less the mean of the "
        "other attempts (RLOO). `global`: whitened over the batch (Reinforce++). `global_baseline`: the same after "
        "the group's mean is taken off.",
    )
    epsilon: float = Field(
        default=1e-4, gt=0, le=1, description="Added to every standard deviation (n - 1), as TRL does."
    )


class Kl(Frozen):
    """A penalty for leaving a policy. Coefficient 0 turns it off."""

    coefficient: float = Field(default=0.0, ge=0, le=100, description="The beta of AF Eq. 2 and AW Eq. 1.")
    to: Literal["old", "reference"] = Field(
        default="reference", description="`old`: the policy that made the attempts (AF Eq. 2). `reference`: AW Eq. 1."
    )
    place: Literal["loss", "reward", "reward_to_go"] = Field(
        default="loss",
        description="`reward`: an attempt's reward pays for all its tokens. `reward_to_go`: each token pays for itself "
        "and those after it (Reinforce++), with `global` advantages and a loss by token.",
    )
    estimator: KlEstimator = Field(
        default="k3",
        description="d = log reference - log policy: k1 = -d, k2 = d^2 / 2, k3 = exp(d) - d - 1. In the loss k1 has a "
        "gradient of mean 0, so it is for the reward.",
    )

    @model_validator(mode="after")
    def _does_something(self) -> Self:
        if self.coefficient and self.place != "loss" and self.to == "old":
            raise ValueError(
                "to: in the reward the divergence from `old` is always 0, since `old` made the attempts; "
                "take `reference`, or put it into the loss"
            )
        if self.coefficient and self.place == "loss" and self.estimator == "k1":
            raise ValueError("estimator: k1 in the loss has a gradient of mean 0; take k2 or k3")
        return self


class Loss(Frozen):
    form: LossForm = Field(
        default="dapo",
        description="`trajectory`: AF Eq. 2, the ratio of whole attempts. `gspo`: the same, its log by the number of "
        "tokens (TRL's sequence level). `grpo`: AW Eq. 1, the mean over each "
        "attempt's tokens, then over attempts. `dapo`: the mean over all tokens of the step. `bnpo`: over those of a "
        "micro batch. `dr_grpo`: the sum over tokens by a constant length.",
    )
    clip_low: float = Field(default=0.2, ge=0, lt=1, description="Ratios below 1 - this are clipped.")
    clip_high: float = Field(default=0.2, ge=0, le=100, description="Ratios above 1 + this are clipped.")
    updates: int = Field(default=1, ge=1, le=64, description="Passes over the same attempts.")


class Masking(Frozen):
    meu: bool = Field(default=True, description="Mask attempts in which the simulated user erred (AF 3.4).")
    meu_scope: MeuScope = Field(
        default="all", description="`all`: each of them (AF Eq. 2). `failed`: only those that failed (AF 1, 4.3)."
    )
    program_errors: bool = Field(
        default=False,
        description="Mask attempts that the environment's program ended (`program_error`); else they earn 0.",
    )


class DynamicSampling(Frozen):
    """Groups whose attempts all earned the same are left out and others drawn instead (AF 4.1, DAPO)."""

    enabled: bool = False
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


class Supervised(Frozen):
    """SFT on trajectories: the loss is on the agent's tokens only."""

    type: Literal["supervised"] = "supervised"
    epochs: float = Field(default=3.0, gt=0, le=1_000, description="Passes over the data.")
    batch: int = Field(default=32, ge=1, le=65_536, description="Sequences a step, accumulated over all devices.")
    max_length: int = Field(default=32_768, ge=16, le=10_000_000, description="Tokens of the longest sequence.")
    too_long: Literal["refuse", "drop"] = Field(
        default="refuse", description="What happens to longer ones; none is cut in silence."
    )
    samples: Literal["whole", "mask_history"] = Field(
        default="whole", description="`mask_history`: a sample a turn, of which only that turn is learnt (ES B.2)."
    )
    thinking: Literal["kept", "stripped"] = Field(
        default="kept", description="Whether the reasoning of earlier turns stays (AF 3.4) or the template drops it."
    )
    tuning: Tuning = Full()
    optimiser: Optimiser = Optimiser(learning_rate=1e-5, schedule="cosine")
    mixture: Mixture = Mixture()
    evaluation: Evaluation = Evaluation(every=0)
    limits: Limits = Limits()
    seed: Seed = 0


class Reinforcement(Frozen):
    """RL on tasks: attempts in the sandbox, rewards from their verifiers.

    Reasoning of earlier turns always stays in the conversation (AF 3.4): an attempt is one sequence of tokens, which a
    template that drops reasoning would not be.
    """

    type: Literal["reinforcement"] = "reinforcement"
    steps: int = Field(default=200, ge=1, le=1_000_000, description="Updates of the policy.")
    sampling: Sampling = Sampling()
    horizon: Horizon = Constant()
    decoding: Decoding = Decoding()
    attempts: Attempts = Attempts()
    reward: RewardRule = Field(
        default="score", description="`score`: what the verifier gives. `all_or_nothing`: 1 if solved, else 0."
    )
    advantage: Advantage = Advantage()
    loss: Loss = Loss()
    kl: Kl = Kl()
    masking: Masking = Masking()
    dynamic_sampling: DynamicSampling = DynamicSampling()
    tuning: Tuning = Full()
    optimiser: Optimiser = Optimiser()
    mixture: Mixture = Mixture()
    evaluation: Evaluation = Evaluation()
    limits: Limits = Limits()
    seed: Seed = 0

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        to_go = self.kl.place == "reward_to_go" and self.kl.coefficient > 0
        if to_go and (self.advantage.kind != "global" or self.loss.form in ("trajectory", "gspo")):
            raise ValueError(
                "kl.place: `reward_to_go` gives each token its own advantage: take advantage.kind `global` and a "
                "loss.form by token, or kl.place `reward`"
            )
        if self.dynamic_sampling.enabled and self.advantage.kind == "global":
            raise ValueError(
                "dynamic_sampling: with `global` advantages groups of equal rewards do teach; take another "
                "advantage.kind, or turn it off"
            )
        return self


TrainingConfig = Annotated[Supervised | Reinforcement, Field(discriminator="type")]
_CONFIG: TypeAdapter[Supervised | Reinforcement] = TypeAdapter(TrainingConfig)


def read_config(values: object) -> Supervised | Reinforcement:
    """A configuration out of JSON. Raises InputError that names every field that does not fit, and why."""
    try:
        return _CONFIG.validate_python(values)
    except ValidationError as error:
        told = (f"{place or 'the configuration'}: {message}" for place, message in faults(error))
        raise InputError("; ".join(told)) from error


def faults(error: ValidationError) -> list[tuple[str, str]]:
    """(place, message) of the first problems of a configuration; the place is empty where it is the whole."""
    problems = []
    for problem in error.errors(include_url=False)[:20]:
        # Pydantic puts the tag of a union into the place, where no reader would look for it.
        parts = [str(part) for part in problem["loc"]]
        untagged = [part for before, part in zip(["type", *parts], parts, strict=False) if before not in _UNIONS]
        problems.append((".".join(untagged), problem["msg"].removeprefix("Value error, ")))
    return problems


_UNIONS = {"type", "horizon", "tuning"}

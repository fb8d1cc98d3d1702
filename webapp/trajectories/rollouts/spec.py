"""The specification of a rollout: the policy, its settings, and the number of attempts."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from synthesis.contracts import Disturbance, Frozen, PromptStyle, SentReasoning, Think, UserKind

PolicyKind = Literal["model", "reference", "noisy", "random"]
SENT_REASONING: tuple[tuple[SentReasoning, str], ...] = (
    ("dropped", "not sent back"),
    ("field", "sent as reasoning_content"),
    ("words", "sent in the words, in a <think> block"),
)
"""What a model sees of its reasoning in earlier turns, in words for forms."""
THINK: tuple[tuple[Think, str], ...] = (
    ("model", "as the model does"),
    ("on", "thinking (enable_thinking)"),
    ("off", "not thinking"),
)
MOST_STEPS = 200
MOST_CALLS = 200
MOST_ANSWER_MENDS = 20
MOST_USER_TOOLS = 100
ToolName = Annotated[str, Field(min_length=1, max_length=200)]


class ForkOf(Frozen):
    """A step of a trajectory; the steps before it are made again, then the policy continues."""

    trajectory: Annotated[int, Field(ge=1)]
    step: Annotated[int, Field(ge=1, lt=2**31)]


class Spec(Frozen):
    """One rollout. `model` and `user_model` are of the form `endpoint id/model`.

    Attempt n plays with the seed `seed + n`. A model is sent a seed only if one is asked for. A fork continues in its
    parent's prompt style, with or without a user like its parent. With `judges_user` the default model of the role
    judge decides after each conversation whether its user made mistakes. With a `disturbance` calls are disturbed, as
    the seed, the task and n decide. Only the simulated user may call `user_tools`, which are tools of the task's
    environment.
    """

    policy: PolicyKind = "model"
    model: Annotated[str, Field(max_length=300)] = ""
    prompt_style: PromptStyle = "tools"
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    sent_reasoning: SentReasoning = "dropped"
    think: Think = "model"
    noise: Annotated[float, Field(ge=0, le=1)] = 0.2
    calls: Annotated[int, Field(ge=1, le=MOST_CALLS)] = 10
    conversational: bool = False
    user_kind: UserKind = "optimised"
    user_model: Annotated[str, Field(max_length=300)] = ""
    user_tools: Annotated[tuple[ToolName, ...], Field(max_length=MOST_USER_TOOLS)] = ()
    judges_user: bool = False
    attempts: Annotated[int, Field(ge=1, le=1_000)] = 4
    max_steps: Annotated[int, Field(ge=1, le=MOST_STEPS)] | None = None
    answer_mends: Annotated[int, Field(ge=0, le=MOST_ANSWER_MENDS)] = 3
    seed: Annotated[int, Field(ge=0, lt=2**31)] | None = None
    disturbance: Disturbance = Disturbance()
    fork: ForkOf | None = None

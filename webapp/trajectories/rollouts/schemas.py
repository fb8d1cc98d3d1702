"""Rollouts in requests and answers of the API."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from django.conf import settings
from ninja import Schema
from pydantic import ConfigDict, Field, FiniteFloat

from synthesis.contracts import Disturbance, PromptStyle, SentReasoning, Think, UserKind
from webapp.common.rest.types import BodyIn, Id, Json, Text
from webapp.trajectories.models import Rollout
from webapp.trajectories.rollouts.queries import build_summary
from webapp.trajectories.rollouts.spec import (
    MOST_ANSWER_MENDS,
    MOST_CALLS,
    MOST_STEPS,
    MOST_USER_TOOLS,
    PolicyKind,
    Spec,
)

UserTool = Annotated[Text, Field(min_length=1, max_length=200)]
ModelChoice = Annotated[Text, Field(max_length=300, description="`endpoint id/model`; empty: the role's default.")]


class ForkOfIn(BodyIn):
    """A step of a trajectory to continue from: the steps before it are executed again."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"trajectory": 1, "step": 3}]})

    trajectory: Id
    step: Annotated[int, Field(ge=1, lt=2**31, description="The first step that is not the parent's.")]


class DisturbanceIn(Disturbance, BodyIn):
    """Rates and kinds of disturbances of calls; off without rates. Seed, task and ordinal decide which calls are
    disturbed."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"failures": 0.1, "error_results": 0.05}]})


class RolloutIn(BodyIn):
    """The policy (`policy`, `model`), its settings, and the number of attempts."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"policy": "reference", "attempts": 2}]})

    policy: PolicyKind = "model"
    model: ModelChoice = ""
    prompt_style: PromptStyle = "tools"
    temperature: Annotated[FiniteFloat, Field(ge=0, le=2)] | None = None
    sent_reasoning: Annotated[
        SentReasoning, Field(description="What the model sees of its reasoning in earlier turns.")
    ] = "dropped"
    think: Annotated[
        Think, Field(description="`on` and `off` are sent as `enable_thinking` in `chat_template_kwargs`.")
    ] = "model"
    noise: Annotated[FiniteFloat, Field(ge=0, le=1, description="Of `noisy`: the share of spoiled calls.")] = 0.2
    calls: Annotated[int, Field(ge=1, le=MOST_CALLS, description="Of `random`: how many calls.")] = 10
    conversational: bool = False
    user_kind: UserKind = "optimised"
    user_model: ModelChoice = ""
    user_tools: Annotated[
        list[UserTool],
        Field(
            max_length=MOST_USER_TOOLS,
            description="Tools of the task's environment that the simulated user alone may call.",
        ),
    ] = []
    judges_user: Annotated[
        bool, Field(description="The default model of the role judge says whether the simulated user erred.")
    ] = False
    attempts: Annotated[int, Field(ge=1, le=settings.ROLLOUT_ATTEMPTS)] = 4
    max_steps: Annotated[int, Field(ge=1, le=MOST_STEPS, description="Turns at most.")] | None = None
    answer_mends: Annotated[
        int,
        Field(
            ge=0,
            le=MOST_ANSWER_MENDS,
            description="Number of answers that do not fit the task's answer form and may be repaired; the next one "
            "ends an attempt.",
        ),
    ] = 3
    seed: Annotated[int, Field(ge=0, lt=2**31)] | None = None
    disturbance: DisturbanceIn = DisturbanceIn()
    fork: Annotated[ForkOfIn | None, Field(description="Attempts go on from here, in the parent's style.")] = None

    def spec(self) -> Spec:
        return Spec.model_validate(self.model_dump())


SECONDS = ("environment_s", "agent_s", "user_s", "verification_s")


class AttemptOut(Schema):
    """One attempt. `reward` is null if the attempt was not judged, never 0 instead. The seconds are the split of its
    time."""

    ordinal: int
    state: str
    trajectory_id: int | None
    outcome: str = ""
    reward: float | None = None
    steps: int = 0
    note: str = ""
    user_error: bool = False
    user_fault: str = ""
    environment_s: float | None = None
    agent_s: float | None = None
    user_s: float | None = None
    verification_s: float | None = None


class RolloutHead(Schema):
    task_id: int
    revision_id: int
    policy: str
    total: int
    created_at: datetime


class RolloutLine(RolloutHead):
    """A rollout in a list. `job` is the number of the job that makes the attempts, `state` the job's."""

    job: Annotated[int, Field(validation_alias="job_id")]
    state: Annotated[str, Field(validation_alias="job.state")]
    error: Annotated[str, Field(validation_alias="job.error")]


class RolloutOut(RolloutHead):
    """A rollout with its attempts. `scored` leaves out attempts whose outcome does not depend on the agent;
    `mean_reward` is over the scored ones."""

    job: int
    state: str
    error: str
    spec: Json
    done: int
    scored: int
    solved: int
    mean_reward: float | None
    attempts: list[AttemptOut]


def serialize_rollout(rollout: Rollout) -> dict[str, object]:
    """Return a rollout with its attempts, as `RolloutOut` takes it."""
    summary = build_summary(rollout)
    lines = []
    for line in summary.lines:
        row = line.trajectory
        line_values = {"ordinal": line.ordinal, "state": line.state, "trajectory_id": line.trajectory_id}
        if row is not None:
            names = ("outcome", "reward", "note", "user_error", "user_fault", *SECONDS)
            line_values |= {name: getattr(row, name) for name in names} | {"steps": row.step_count}
        lines.append(line_values)
    head = {name: getattr(rollout, name) for name in (*RolloutHead.model_fields, "spec")}
    head |= {"job": rollout.job_id, "state": rollout.job.state, "error": rollout.job.error}
    numbers = {name: getattr(summary, name) for name in ("done", "scored", "solved", "mean_reward")}
    return head | numbers | {"attempts": lines}

"""Trajectories, steps and scores as the API shows them."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime
from typing import Annotated, Any, Literal

from ninja import Schema
from pydantic import Field, FiniteFloat

from webapp.common.rest.paging import PageQuery
from webapp.common.rest.types import Id, Json, ShortText
from webapp.trajectories.contradictions import find_contradictions
from webapp.trajectories.models import Score, Trajectory
from webapp.trajectories.trajectory_list import Filters

Reward = Annotated[FiniteFloat, Field(ge=-1e9, le=1e9)]

OutcomeName = Literal[
    "solved", "failed", "agent_error", "program_error", "infra_error", "truncated", "cancelled", "none"
]
Q_HELP = (
    "Words that the instruction, the answer or the steps have: all of them, in any case and order. A last word of "
    "three letters or more that no trajectory has is taken as the beginning of one. A text without a letter or digit "
    "chooses nothing."
)
ReplayName = Literal["pending", "identical", "reproduced", "diverged", "failed", "made_here", "no_environment"]


class TrajectorySelectionQuery(Schema):
    q: Annotated[ShortText, Field(description=Q_HELP)] = ""
    outcome: Annotated[OutcomeName | None, Field(description="`none`: nothing judged it.")] = None
    replay: Annotated[
        ReplayName | None,
        Field(description="What came of executing it again; `no_environment`: there is nothing to execute it in."),
    ] = None
    environment: Annotated[Id | None, Field(description="In this environment.")] = None
    task: Annotated[Id | None, Field(description="At this task.")] = None
    parent: Annotated[Id | None, Field(description="Forks of this trajectory.")] = None
    policy: Annotated[ShortText, Field(description="What the policy's name begins with.")] = ""
    source: Annotated[ShortText, Field(max_length=32, description="Its source, such as starter.")] = ""
    rejected: Annotated[
        Literal["yes", "no", "solver"] | None,
        Field(description="Left out by the batch that made it; `solver`: made to find its task's reference."),
    ] = None
    low: Annotated[Reward | None, Field(description="The reward is at least this.")] = None
    high: Annotated[Reward | None, Field(description="The reward is at most this.")] = None
    day: Annotated[date | None, Field(description="Made on this day, in UTC.")] = None
    leave_out: Annotated[
        ShortText, Field(max_length=32, description="Not in environments of this source, nor without an environment.")
    ] = ""
    failure: Annotated[
        Literal["", "goal", "guard", "outside", "check", "criterion", "error", "none"],
        Field(description="The main reason that the newest score gives for failing; `none`: it failed without one."),
    ] = ""
    user_fault: Annotated[
        Literal["", "fault", "none", "unknown"], Field(description="What a judge found about the simulated user.")
    ] = ""
    disturbed: Annotated[
        Literal["", "yes", "no"], Field(description="Whether a disturbance struck one of its calls.")
    ] = ""
    made_by: Annotated[ShortText, Field(description="The whole name of the policy.")] = ""
    since: Annotated[date | None, Field(description="Made on this day or later, in UTC.")] = None
    judged: Annotated[bool, Field(description="Only attempts that count in a pass rate.")] = False
    from_id: Annotated[Id | None, Field(description="This trajectory and those that were made later.")] = None

    def filters(self) -> Filters:
        return Filters(
            q=self.q.strip(),
            outcome=self.outcome or "",
            replay=self.replay or "",
            environment=self.environment,
            task=self.task,
            parent=self.parent,
            policy=self.policy,
            source=self.source,
            rejected=self.rejected or "",
            low=self.low,
            high=self.high,
            day=self.day.isoformat() if self.day is not None else "",
            leave_out=self.leave_out,
            failure=self.failure,
            user_fault=self.user_fault,
            disturbed=self.disturbed,
            made_by=self.made_by,
            since=self.since.isoformat() if self.since is not None else "",
            judged=self.judged,
            from_id=self.from_id,
        )


class TrajectoryFilterQuery(TrajectorySelectionQuery):
    order: Annotated[
        Literal["-id", "id", "reward", "-reward", "policy", "-policy", "step_count", "-step_count"],
        Field(description="By reward, those without one are left out."),
    ] = "-id"

    def filters(self) -> Filters:
        return replace(super().filters(), order=self.order)


class TrajectoryQuery(TrajectoryFilterQuery, PageQuery):
    pass


class TrajectoryLine(Schema):
    """A trajectory in a list. `outcome` is empty if the run was not judged; `reward` is null if there is none, never 0
    instead.

    One that was recorded without an environment (`replay` is `no_environment`) has no task either: `task` is then the
    name of the trajectory.
    """

    id: int
    task_id: int | None
    task: Annotated[str, Field(validation_alias="name")]
    environment_id: int | None
    environment: str
    policy: str
    source: str
    parent_id: Annotated[int | None, Field(description="Of a fork: the attempt whose first steps it made again.")]
    forked_at: Annotated[int | None, Field(description="Of a fork: its first step that is not the parent's.")]
    outcome: str
    user_fault: Annotated[
        str,
        Field(
            description="Whether a judge found that its simulated user erred: `fault`, `none` or `unknown`; empty "
            "if none was asked. Outcome and reward are not changed."
        ),
    ]
    rejected: Annotated[str, Field(description="The filter by which its batch left it out; empty of any other.")]
    solver: Annotated[bool, Field(description="A batch's try at the task's reference, not made to be learnt from.")]
    recorded_reward: float | None
    reward: float | None
    replay: str
    first_divergence: int | None
    step_count: int
    error_count: int
    injected_count: Annotated[
        int, Field(description="Calls that its disturbance struck; `error_count` leaves them out.")
    ]
    user_call_count: Annotated[
        int,
        Field(description="Calls that its simulated user made of tools of its own; the other counts are the agent's."),
    ]
    reason: Annotated[str, Field(description="Why it failed, in one sentence; empty if it did not.")]
    created_at: datetime

    @staticmethod
    def resolve_environment(row: Trajectory) -> str:
        return "" if row.environment is None else row.environment.name

    @staticmethod
    def resolve_reason(row: Trajectory) -> str:
        return str(getattr(row, "reason", ""))


class TrajectoryOut(TrajectoryLine):
    revision_id: int | None
    conversational: bool
    validation: str
    seed: int
    now: str
    passed: int | None
    total: int | None
    answer: str
    replay_note: str
    call_count: int
    duration_us: int
    final_hash: str
    imported: Annotated[
        Json,
        Field(description="Of one without an environment: its format, agent, tools, metrics, what was left out."),
    ]
    user_verdict: Annotated[
        Json,
        Field(description="What the judge of its simulated user said: finding, mistakes with line and quote; or null."),
    ]
    contradictions: Annotated[
        list[str],
        Field(description="Checks that answered differently for the same state: do not trust the verifier then."),
    ]

    @staticmethod
    def resolve_imported(row: Trajectory) -> Any:
        return row.provenance if row.environment is None else None

    @staticmethod
    def resolve_user_verdict(row: Trajectory) -> Any:
        return row.provenance.get("user_verdict")

    @staticmethod
    def resolve_contradictions(row: Trajectory) -> list[str]:
        return [found.sentence for found in find_contradictions(row)]


class StepOut(Schema):
    """A step. `patch` is the RFC 6902 JSON Patch of the state.

    If it is empty beside a `change_count` above 0 it was too long to store: ask for the state. For a trajectory without
    an environment `recorded` is the result of a call, and `details` are the other data of the step in its record.
    """

    index: int
    turn: int
    kind: str
    by: Annotated[
        str,
        Field(
            description="Whose call it is: the agent's (`agent`), or that of a simulated user with tools of its own "
            "(`user`), of which the agent saw nothing."
        ),
    ]
    content: str
    reasoning: str
    tool: str
    arguments: Json
    ok: bool | None
    error_kind: str
    result: Json
    recorded: str
    matches: bool | None
    patch: Json
    change_count: int
    duration_us: int
    injected: Annotated[
        Json,
        Field(
            description="How the call was disturbed: `fault` (`unavailable`, `error` or none), whether it was "
            "`carried_out`, and `latency_s`; null if it was left alone."
        ),
    ]
    details: Json


class StepStateOut(Schema):
    """The state after a step, in its lossless encoding."""

    trajectory_id: int
    index: int
    state: Json


class ScoreOut(Schema):
    """One verdict; re-scoring adds another. `verdicts` has one entry for each check, or criterion of a rubric.

    `outside` are the first changes outside the task's frame; if there are any, the reward is 0. `judge` is the model
    that decided a rubric's facts.
    """

    id: int
    trajectory_id: int
    revision_id: int
    verifier_hash: str
    reward: float
    passed: int
    total: int
    verdicts: Json
    outside: Json
    judge: str
    source: str
    created_at: datetime
    contradictions: Annotated[
        list[str], Field(description="Checks that say something else in the run's matrix at the last step.")
    ]

    @staticmethod
    def resolve_contradictions(row: Score) -> list[str]:
        return [found.sentence for found in find_contradictions(row.trajectory, [row])]

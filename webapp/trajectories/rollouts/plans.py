"""Plans made from rows: the task as the loop needs it, and the policies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from synthesis import llm
from synthesis.contracts import Reference
from synthesis.errors import InputError
from synthesis.rollout import (
    AttemptSetting,
    ChatPolicy,
    ForkStart,
    NoisyReferencePolicy,
    Plan,
    Policy,
    RandomPolicy,
    ReferencePolicy,
    RolloutTask,
    SimulatedUser,
    User,
    build_attempt_seed,
    format_documentation,
)
from webapp.endpoints.models import LLMRole
from webapp.endpoints.queries import find_choice, find_default_model
from webapp.endpoints.services import open_endpoint
from webapp.scenarios.models import TaskRevision
from webapp.scenarios.references import find_reference, to_reference
from webapp.trajectories.forks.starts import ForkPoint, load_fork_point
from webapp.trajectories.models import Rollout, Trajectory
from webapp.trajectories.rollouts.spec import ForkOf, Spec
from webapp.trajectories.services import build_replay_setting

if TYPE_CHECKING:
    from synthesis.llm.client import Connection


@dataclass(frozen=True)
class PreparedRollout:
    """The rows that a rollout needs, read before it runs. `agent`, `user` and `judge`: endpoint and model.

    There is a judge if the task's rubric needs one, or if the user's mistakes are judged. A fork's attempts begin with
    the turns of its parent.
    """

    task: RolloutTask
    spec: Spec
    reference: Reference | None
    agent: tuple[llm.Endpoint, str] | None
    user: tuple[llm.Endpoint, str] | None
    judge: tuple[llm.Endpoint, str] | None = None
    fork: ForkPoint | None = None
    start: ForkStart | None = None

    @property
    def setting(self) -> AttemptSetting:
        spec = self.spec
        limits: dict[str, Any] = {"max_turns": spec.max_steps, "max_answer_mends": spec.answer_mends}
        limits |= {"judges_user": spec.judges_user, "disturbance": spec.disturbance}
        if self.fork is not None:
            return self.fork.setting(**limits)
        return AttemptSetting(
            conversational=spec.conversational,
            prompt_style=spec.prompt_style,
            user_tools=spec.user_tools,
            **limits,
        )

    @property
    def seed(self) -> int:
        return self.spec.seed or 0


def prepare_rollout(rollout: Rollout) -> PreparedRollout:
    """Read a rollout's rows. Raises InputError (an endpoint or the reference is gone, an address is refused) and
    LLMError."""
    spec = Spec.model_validate(rollout.spec)
    reference = find_reference(rollout.revision) if spec.policy in ("reference", "noisy") else None
    if spec.policy in ("reference", "noisy") and reference is None:
        raise InputError("The reference of this task no longer exists. Start another rollout.")
    task = build_rollout_task(rollout.revision)
    fork = load_rollout_fork(spec.fork) if spec.fork else None
    return PreparedRollout(
        task=fork.task(task) if fork else task,
        spec=spec,
        reference=to_reference(reference) if reference else None,
        agent=_open_choice(spec.model) if spec.policy == "model" else None,
        user=_open_choice(spec.user_model) if spec.conversational else None,
        judge=find_site_judge() if task.asks_judge or (spec.conversational and spec.judges_user) else None,
        fork=fork,
        start=fork.start() if fork else None,
    )


def load_rollout_fork(fork: ForkOf) -> ForkPoint:
    """Return the point at which the attempts of a forked rollout begin. Raises InputError."""
    rows = Trajectory.objects.select_related("revision", "task").defer("matrix")
    parent = rows.filter(pk=fork.trajectory).first()
    if parent is None:
        raise InputError(f"Trajectory {fork.trajectory}, which was to be forked, is gone.")
    return load_fork_point(parent, fork.step)


def build_rollout_task(revision: TaskRevision) -> RolloutTask:
    """Return a stored revision as the loop takes it."""
    run_setting = build_replay_setting(revision)
    version = revision.scenario.version
    return RolloutTask(
        key=str(revision.task_id),
        program=run_setting.program,
        initial=run_setting.initial,
        instruction=revision.instruction,
        answer_form=run_setting.answer_form,
        documentation=format_documentation(version.introduction, [str(rule) for rule in version.rules]),
        verifier=run_setting.verifier,
    )


def find_site_judge() -> tuple[llm.Endpoint, str] | None:
    """Return the default model of the role judge, if an administrator has set one."""
    default_model = find_default_model(LLMRole.JUDGE)
    return (open_endpoint(default_model[0]), default_model[1]) if default_model else None


def _open_choice(value: str) -> tuple[llm.Endpoint, str]:
    choice = find_choice(value)
    if choice is None:
        raise InputError("The model of this rollout is not listed at its endpoint any more. Start another rollout.")
    return open_endpoint(choice[0]), choice[1]


def build_plans(
    prepared: PreparedRollout,
    ordinals: Iterable[int],
    agent: Connection | None,
    user: Connection | None,
    judge: Connection | None = None,
) -> Iterator[Plan]:
    """Yield a plan for each ordinal, made on demand."""
    judge_model = judge.chat(prepared.judge[1]) if judge and prepared.judge else None
    for ordinal in ordinals:
        simulated: User | None = None
        if user is not None and prepared.user is not None:
            model = user.chat(prepared.user[1])
            tools = prepared.task.pick_tools(prepared.setting.user_tools)
            simulated = SimulatedUser(model, prepared.task.instruction, prepared.spec.user_kind, tools)
        if prepared.fork is not None:
            simulated = prepared.fork.build_user(simulated)
        policy = build_policy(prepared, ordinal, agent)
        seed = build_attempt_seed(prepared.seed, prepared.task.key, ordinal)
        yield Plan(
            prepared.task,
            policy,
            prepared.setting,
            simulated,
            ordinal,
            judge_model,
            prepared.start,
            disturbance_seed=seed,
        )


def build_policy(prepared: PreparedRollout, ordinal: int, agent: Connection | None) -> Policy:
    spec, seed = prepared.spec, prepared.seed + ordinal
    if spec.policy == "random":
        return RandomPolicy(seed=seed, calls=spec.calls)
    if spec.policy == "model" and agent is not None and prepared.agent is not None:
        parameters: dict[str, Any] = {}
        if spec.temperature is not None:
            parameters["temperature"] = spec.temperature
        if spec.seed is not None:
            parameters["seed"] = seed
        how: dict[str, Any] = {"sent_reasoning": spec.sent_reasoning, "think": spec.think}
        return ChatPolicy(agent.chat(prepared.agent[1]), **how, **parameters)
    assert prepared.reference is not None
    if spec.policy == "noisy":
        return NoisyReferencePolicy(prepared.reference, prepared.task.program.tools, rate=spec.noise, seed=seed)
    return ReferencePolicy(prepared.reference)

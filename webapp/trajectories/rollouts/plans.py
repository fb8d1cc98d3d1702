"""From rows to plans: the task as the loop needs it, and the policies."""

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
    attempt_seed,
    documentation,
)
from webapp.endpoints.models import LLMRole
from webapp.endpoints.queries import default_of, find_choice
from webapp.endpoints.services import opened
from webapp.scenarios.models import TaskRevision
from webapp.scenarios.references import as_reference, reference_of
from webapp.trajectories.forks.starts import ForkPoint, fork_point
from webapp.trajectories.models import Rollout, Trajectory
from webapp.trajectories.rollouts.spec import ForkOf, Spec
from webapp.trajectories.services import setting_of

if TYPE_CHECKING:
    from synthesis.llm.client import Connection


@dataclass(frozen=True)
class PreparedRollout:
    """All that a rollout needs of the database, read before it runs. `agent`, `user` and `judge`: endpoint and model.

    A judge is there if the task's rubric needs one, or whether users erred is to be judged. A fork's attempts begin
    with the turns of its parent.
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


def prepare(rollout: Rollout) -> PreparedRollout:
    """Raises InputError (an endpoint or the reference is gone, an address is refused) and LLMError."""
    spec = Spec.model_validate(rollout.spec)
    reference = reference_of(rollout.revision) if spec.policy in ("reference", "noisy") else None
    if spec.policy in ("reference", "noisy") and reference is None:
        raise InputError("The reference of this task is gone. Start another rollout.")
    task = task_of(rollout.revision)
    fork = point_of(spec.fork) if spec.fork else None
    return PreparedRollout(
        task=fork.task(task) if fork else task,
        spec=spec,
        reference=as_reference(reference) if reference else None,
        agent=_opened(spec.model) if spec.policy == "model" else None,
        user=_opened(spec.user_model) if spec.conversational else None,
        judge=site_judge() if task.asks_judge or (spec.conversational and spec.judges_user) else None,
        fork=fork,
        start=fork.start() if fork else None,
    )


def point_of(fork: ForkOf) -> ForkPoint:
    """Where the attempts of a forked rollout begin. Raises InputError."""
    rows = Trajectory.objects.select_related("revision", "task").defer("matrix")
    parent = rows.filter(pk=fork.trajectory).first()
    if parent is None:
        raise InputError(f"Trajectory {fork.trajectory}, which was to be forked, is gone.")
    return fork_point(parent, fork.step)


def task_of(revision: TaskRevision) -> RolloutTask:
    """A stored revision as the loop takes it."""
    known = setting_of(revision)
    version = revision.scenario.version
    return RolloutTask(
        key=str(revision.task_id),
        program=known.program,
        initial=known.initial,
        instruction=revision.instruction,
        answer_form=known.answer_form,
        documentation=documentation(version.introduction, [str(rule) for rule in version.rules]),
        verifier=known.verifier,
    )


def site_judge() -> tuple[llm.Endpoint, str] | None:
    """The default model of the role judge, if an administrator has set one."""
    known = default_of(LLMRole.JUDGE)
    return (opened(known[0]), known[1]) if known else None


def _opened(value: str) -> tuple[llm.Endpoint, str]:
    choice = find_choice(value)
    if choice is None:
        raise InputError("The model of this rollout is not listed at its endpoint any more. Start another rollout.")
    return opened(choice[0]), choice[1]


def plans(
    prepared: PreparedRollout,
    ordinals: Iterable[int],
    agent: Connection | None,
    user: Connection | None,
    judge: Connection | None = None,
) -> Iterator[Plan]:
    """A plan for each ordinal, made as it is asked for."""
    decides = judge.chat(prepared.judge[1]) if judge and prepared.judge else None
    for ordinal in ordinals:
        simulated: User | None = None
        if user is not None and prepared.user is not None:
            model = user.chat(prepared.user[1])
            tools = prepared.task.pick_tools(prepared.setting.user_tools)
            simulated = SimulatedUser(model, prepared.task.instruction, prepared.spec.user_kind, tools)
        if prepared.fork is not None:
            simulated = prepared.fork.heard(simulated)
        policy = policy_of(prepared, ordinal, agent)
        seed = attempt_seed(prepared.seed, prepared.task.key, ordinal)
        yield Plan(
            prepared.task, policy, prepared.setting, simulated, ordinal, decides, prepared.start, disturbance_seed=seed
        )


def policy_of(prepared: PreparedRollout, ordinal: int, agent: Connection | None) -> Policy:
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

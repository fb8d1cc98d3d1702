"""A teacher makes the trajectories that others learn from (EnvScaler, B.2), in both settings."""

from __future__ import annotations

from synthesis.contracts import Attempt, Tool, TrajectoryStep
from synthesis.drafts import ScenarioDraft, TaskDraft
from synthesis.errors import InfrastructureError
from synthesis.formats.records import EnvironmentRecord
from synthesis.rollout import (
    AttemptSetting,
    ChatPolicy,
    Plan,
    RolloutTask,
    SimulatedUser,
    attempt_seed,
    documentation,
    run_attempts,
)
from synthesis.stages import Kit
from synthesis.tasks.task_context import World, world_of


def rollout_task(kit: Kit, world: World, task: TaskDraft) -> RolloutTask:
    """A drafted task as the loop takes it."""
    return RolloutTask(
        key=kit.path,
        program=world.program,
        initial=world.initial,
        instruction=task.instruction,
        answer_form=task.answer_form,
        documentation=documentation(world.record.introduction, world.record.rules),
        verifier=task.verifier,
    )


def teacher_policy(kit: Kit, stage: str, sample: int) -> ChatPolicy:
    """Return the teacher as it acts in a stage of the batch."""
    model = kit.asker.chat(kit.site("teacher", stage, sample))
    return ChatPolicy(model, brief_tools=True, sent_reasoning=kit.settings.sent_reasoning)


async def teach(
    kit: Kit, record: EnvironmentRecord, scenario: ScenarioDraft, task: TaskDraft, conversational: bool, ordinal: int
) -> Attempt:
    """One attempt by the teacher; in a conversation with a simulated user whose intent is the instruction.

    Raises Rejected("state_invalid"), and InfrastructureError where something of ours failed, so that it is made
    again. A user whose words could not be used, even when asked again, and a program that ends the episode are facts
    about the attempt: it comes back without a reward.
    """
    world = await world_of(kit, record, scenario)
    return await attempted(kit, world, task, conversational=conversational, ordinal=ordinal)


async def attempted(kit: Kit, world: World, task: TaskDraft, *, conversational: bool, ordinal: int) -> Attempt:
    """The teacher's attempt in a world that is constructed. Raises as `teach`."""
    given = rollout_task(kit, world, task)
    teacher = teacher_policy(kit, "rollout", ordinal)
    user, tools = None, tuple[Tool, ...]()
    if conversational:
        asked = kit.asker.chat(kit.site("user", "user", ordinal))
        tools = given.pick_tools(kit.settings.teacher_user_tools)
        # A batch has many environments; one whose every tool is named leaves them to the agent.
        tools = tools if len(tools) < len(given.program.tools) else ()
        user = SimulatedUser(asked, task.instruction, kit.settings.teacher_user, tools)
    setting = AttemptSetting(
        conversational=conversational,
        disturbance=kit.settings.disturbance,
        user_tools=tuple(tool.name for tool in tools),
    )
    if task.consistency is not None and task.consistency.turn_limit > setting.turn_limit:
        setting = setting.model_copy(update={"max_turns": task.consistency.turn_limit})
    plan = Plan(given, teacher, setting, user, ordinal, disturbance_seed=attempt_seed(kit.seed, kit.path, ordinal))

    async def on_step(_plan: Plan, _step: TrajectoryStep) -> None:
        kit.check_stop()

    (made,) = [attempt async for attempt in run_attempts(kit.sandbox, [plan], at_once=1, on_step=on_step)]
    if made.outcome == "infra_error" and not made.user_error:
        raise InfrastructureError(f"The teacher's attempt was lost: {made.note}")
    return made

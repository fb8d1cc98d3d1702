"""Teacher that makes the trajectories from which other models learn (EnvScaler, B.2), in both settings."""

from __future__ import annotations

from synthesis.contracts import Attempt, Tool, TrajectoryStep
from synthesis.drafts import ScenarioDraft, TaskDraft
from synthesis.errors import InfrastructureError
from synthesis.formats.criteria import needs_fact_judge
from synthesis.formats.records import EnvironmentRecord
from synthesis.llm import ChatModel
from synthesis.rollout import (
    AttemptSetting,
    ChatPolicy,
    Plan,
    RolloutTask,
    SimulatedUser,
    build_attempt_seed,
    format_documentation,
    run_attempts,
)
from synthesis.stages import Kit
from synthesis.tasks.task_context import World, build_world

USUAL_TURNS = 10


def build_rollout_task(kit: Kit, world: World, task: TaskDraft) -> RolloutTask:
    """Return a drafted task for the rollout loop."""
    return RolloutTask(
        key=kit.path,
        program=world.program,
        initial=world.initial,
        instruction=task.instruction,
        answer_form=task.answer_form,
        documentation=format_documentation(world.record.introduction, world.record.rules),
        verifier=task.verifier,
    )


def expect_turns(task: TaskDraft) -> int:
    """Return the turns that an attempt at this task will take: the calls of its reference, and the answer.

    Before a task has a reference nothing says how long its attempts are (of the demo's tasks one with 3 checks takes 10
    calls). All are expected to be as long as usual then, so those that have come less far go first.
    """
    return len(task.reference.calls) + 1 if task.reference is not None else USUAL_TURNS


def make_end_judge(kit: Kit, task: TaskDraft, sample: int = 0) -> ChatModel | None:
    """Return the judge that decides the facts of a task's rubric; None if there are none."""
    return kit.asker.chat(kit.site("judge", "judge_end", sample)) if needs_fact_judge(task.verifier.criteria) else None


def make_teacher_policy(kit: Kit, stage: str, sample: int, calls_ahead: int) -> ChatPolicy:
    """Return the teacher as it acts in a stage of the batch."""
    model = kit.asker.chat(kit.site("teacher", stage, sample), calls_ahead)
    return ChatPolicy(model, brief_tools=True, sent_reasoning=kit.settings.sent_reasoning)


async def attempt_task(
    kit: Kit, record: EnvironmentRecord, scenario: ScenarioDraft, task: TaskDraft, conversational: bool, ordinal: int
) -> Attempt:
    """Make one attempt by the teacher; in a conversation with a simulated user whose intent is the instruction.

    Raise Rejected("state_invalid"), and InfrastructureError if our infrastructure failed, so that the attempt is made
    again. A user whose replies could not be used, even when asked again, and a program that ends the episode are facts
    about the attempt: it is returned without a reward.
    """
    world = await build_world(kit, record, scenario)
    return await attempt_in_world(kit, world, task, conversational=conversational, ordinal=ordinal)


async def attempt_in_world(kit: Kit, world: World, task: TaskDraft, *, conversational: bool, ordinal: int) -> Attempt:
    """Return the teacher's attempt in a constructed world. Raise the same errors as `attempt_task`."""
    teacher_task = build_rollout_task(kit, world, task)
    teacher = make_teacher_policy(kit, "rollout", ordinal, expect_turns(task))
    user, tools = None, tuple[Tool, ...]()
    if conversational:
        user_model = kit.asker.chat(kit.site("user", "user", ordinal))
        tools = teacher_task.pick_tools(kit.settings.teacher_user_tools)
        # A batch has many environments; if every tool of one is named, the agent keeps them all.
        tools = tools if len(tools) < len(teacher_task.program.tools) else ()
        user = SimulatedUser(user_model, task.instruction, kit.settings.teacher_user, tools)
    setting = AttemptSetting(
        conversational=conversational,
        disturbance=kit.settings.disturbance,
        user_tools=tuple(tool.name for tool in tools),
    )
    if task.consistency is not None and task.consistency.turn_limit > setting.turn_limit:
        setting = setting.model_copy(update={"max_turns": task.consistency.turn_limit})
    judge, seed = make_end_judge(kit, task, ordinal), build_attempt_seed(kit.seed, kit.path, ordinal)
    plan = Plan(teacher_task, teacher, setting, user, ordinal, judge, disturbance_seed=seed)

    async def on_step(_plan: Plan, _step: TrajectoryStep) -> None:
        kit.check_stop()

    (attempt_made,) = [attempt async for attempt in run_attempts(kit.sandbox, [plan], at_once=1, on_step=on_step)]
    if attempt_made.outcome == "infra_error" and not attempt_made.user_error:
        raise InfrastructureError(f"The teacher's attempt was lost: {attempt_made.note}")
    return attempt_made

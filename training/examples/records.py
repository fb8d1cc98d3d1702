"""Environments and tasks of the demo as an importer's records, for an installation that keeps them as rows."""

from __future__ import annotations

from synthesis.formats.envscaler_export import environment_to_envscaler
from synthesis.formats.records import EnvironmentRecord, TaskRecord, ToolRecord
from synthesis.runtime import decode_state
from training.examples.tasks import ENVIRONMENTS, DemoTask, build_program

SOURCE = "training-demo"
CATEGORY = "Training demo"
_ABOUT = {
    "clinic": ("Clinic", "Appointments with doctors; the right day has to be looked up."),
    "depot": ("Depot", "Goods that are sent to their buyers, whose cities have to be looked up."),
    "lamps": ("Lamps", "Lamps in rooms, two to be switched; nothing has to be looked up."),
    "library": ("Library", "Loans of books; what is right depends on what is found."),
}


def build_environment_record(name: str) -> EnvironmentRecord:
    """Return the record of one of the demo's environments."""
    code, (title, summary) = build_program(name), _ABOUT[name]
    record = EnvironmentRecord(
        key=name,
        name=f"{title} (training demo)",
        summary=summary,
        introduction=ENVIRONMENTS[name].introduction,
        category=CATEGORY,
        class_name=code.class_name,
        source=code.source,
        tools=tuple(ToolRecord(name=tool.name, description=tool.description, kind=tool.kind) for tool in code.tools),
    )
    return record.model_copy(update={"raw": environment_to_envscaler(record)})


def build_task_record(task: DemoTask) -> TaskRecord:
    """Return a task with the reference that solves it; its checks are evaluated as goals and guards."""
    rollout = task.rollout
    initial = decode_state(rollout.initial)
    frame = rollout.verifier.frame
    frame_json = frame.model_dump(mode="json", exclude_defaults=True) if frame is not None else None
    checklist = [{"check_item": check.label, "check_func": check.source} for check in rollout.verifier.checks]
    return TaskRecord(
        environment_key=task.environment,
        key=rollout.key,
        title=rollout.instruction,
        scenario_name=rollout.key,
        instruction=rollout.instruction,
        initial_state=initial,
        verifier=rollout.verifier.model_copy(update={"marks": None}),
        reference=task.reference,
        raw={
            "env_id": task.environment,
            "env_class_name": rollout.program.class_name,
            "task_id": rollout.key,
            "init_config": initial,
            "task": rollout.instruction,
            "checklist_with_func": checklist,
            **({"frame": frame_json} if frame_json is not None else {}),
        },
    )

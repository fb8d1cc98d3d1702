"""Frames of drafted tasks (ours): from the executed reference and the places that the author declares free.

The teacher's other solved runs widen them if the author allows other right ways.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated

from pydantic import Field, StringConstraints

from synthesis.contracts import Allowance, Reference, State
from synthesis.drafts import TaskDraft
from synthesis.errors import InputError
from synthesis.runtime import Sandbox
from synthesis.scenarios.states import AuthorReply
from synthesis.stages import Kit
from synthesis.tasks.task_context import Unfit, World
from synthesis.verifiers.call_sequences import Subject, run_calls
from synthesis.verifiers.frame import find_widenings, widen_frame
from synthesis.verifiers.reference_frame import build_reference_frame

MOST_FREE = 40
INVALID = "frame_invalid"


class FreePlace(AuthorReply):
    """Place that the author declares free: a path as in `Allowance`, a number for `+` and `-`, possibly the values of a
    field that the task leaves open, and the reason.
    """

    path: Annotated[str, StringConstraints(strip_whitespace=True, min_length=2, max_length=300, pattern=r"^/")]
    most: int | None = Field(default=None, ge=1, le=10_000)
    values: tuple[Annotated[str, StringConstraints(max_length=400)] | bool | int | float | None, ...] = Field(
        default=(), max_length=50
    )
    minimum: float | None = Field(default=None, allow_inf_nan=False)
    maximum: float | None = Field(default=None, allow_inf_nan=False)
    reason: Annotated[str, StringConstraints(strip_whitespace=True, min_length=5, max_length=400)]


def build_allowances(places: Iterable[FreePlace], start: State) -> tuple[Allowance, ...]:
    """Return the author's places as allowances of a frame. Raise Unfit for a place that the state does not have."""
    free = []
    for place in places:
        top = place.path.split("/")[1].replace("~1", "/").replace("~0", "~")
        if top not in start:
            raise Unfit(INVALID, f"free: {place.path} begins with {top!r}, which the state does not have")
        try:
            free.append(Allowance(**place.model_dump(), source="author"))
        except ValueError as error:
            raise Unfit(INVALID, f"free: {place.path}: {str(error)[:200]}") from None
    return tuple(free)


async def add_frame(kit: Kit, world: World, task: TaskDraft, others: Sequence[Reference] = ()) -> TaskDraft:
    """Return the task with the frame of its reference; without a reference, or `frames` in the settings, it has none.

    `others` are further runs that earned the full reward by the checks: they widen it if the author declared that
    another right way may change other things, otherwise they are only noted. Raise InfrastructureError.
    """
    if task.reference is None or not kit.settings.frames:
        return task.model_copy(update={"frame": None})
    return await kit.run(_build_frame, kit.sandbox, world, task, others)


def _build_frame(sandbox: Sandbox, world: World, task: TaskDraft, others: Sequence[Reference]) -> TaskDraft:
    subject = build_unframed_subject(world, task, task.reference)
    try:
        frame = build_reference_frame(sandbox, subject)
    except InputError as error:
        return task.model_copy(update={"frame": None, "notes": (*task.notes, f"It has no frame. {error}")})
    run_allowances = [item for item in task.frame.allowances if item.source == "run"] if task.frame is not None else []
    frame = widen_frame(frame, [*task.free, *run_allowances])
    notes: list[str] = []
    for number, other in enumerate(others, 1):
        run = run_calls(sandbox, subject, other.calls, world.start)
        if run.state is None:
            continue
        why = f"Another run of the teacher (number {number}) earned everything by the checks and changes this; "
        why += "the author allows other right ways."
        new_allowances = find_widenings(frame, world.start, run.state, source="run", reason=why)
        if new_allowances and task.other_ways:
            frame = widen_frame(frame, new_allowances)
        elif new_allowances:
            notes.append(
                f"Another run of the teacher earned everything by the checks, but changed {new_allowances[0].path}."
            )
    return task.model_copy(update={"frame": frame, "notes": (*task.notes, *dict.fromkeys(notes))})


def build_unframed_subject(world: World, task: TaskDraft, reference: Reference | None) -> Subject:
    """Return the task as judged by its checks alone."""
    return world.subject(task, reference).with_frame(None)

"""Frames of drafted tasks (ours): from the executed reference, what the author declares free, and the teacher's other
solved runs where the author allows other right ways."""

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
from synthesis.verifiers.frame import widen, widenings
from synthesis.verifiers.reference_frame import reference_frame

MOST_FREE = 40
INVALID = "frame_invalid"


class FreePlace(AuthorReply):
    """A place that the author declares free: a path as in `Allowance`, for `+` and `-` how many, for a field perhaps
    the values that the task leaves open, and why."""

    path: Annotated[str, StringConstraints(strip_whitespace=True, min_length=2, max_length=300, pattern=r"^/")]
    most: int | None = Field(default=None, ge=1, le=10_000)
    values: tuple[Annotated[str, StringConstraints(max_length=400)] | bool | int | float | None, ...] = Field(
        default=(), max_length=50
    )
    minimum: float | None = Field(default=None, allow_inf_nan=False)
    maximum: float | None = Field(default=None, allow_inf_nan=False)
    reason: Annotated[str, StringConstraints(strip_whitespace=True, min_length=5, max_length=400)]


def allowances(places: Iterable[FreePlace], start: State) -> tuple[Allowance, ...]:
    """The author's places as a frame takes them. Raises Unfit: a place that the state does not have."""
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


async def framed(kit: Kit, world: World, task: TaskDraft, others: Sequence[Reference] = ()) -> TaskDraft:
    """The task with the frame of its reference; without a reference, or `frames` in the settings, it has none.

    `others` are further runs that earned everything by the checks: they widen it where the author said that another
    right way may change other things, and are only noted where not. Raises InfrastructureError.
    """
    if task.reference is None or not kit.settings.frames:
        return task.model_copy(update={"frame": None})
    return await kit.run(_framed, kit.sandbox, world, task, others)


def _framed(sandbox: Sandbox, world: World, task: TaskDraft, others: Sequence[Reference]) -> TaskDraft:
    subject = unframed(world, task, task.reference)
    try:
        frame = reference_frame(sandbox, subject)
    except InputError as error:
        return task.model_copy(update={"frame": None, "notes": (*task.notes, f"It has no frame. {error}")})
    known = [item for item in task.frame.allowances if item.source == "run"] if task.frame is not None else []
    frame = widen(frame, [*task.free, *known])
    notes: list[str] = []
    for number, other in enumerate(others, 1):
        run = run_calls(sandbox, subject, other.calls, world.start)
        if run.state is None:
            continue
        why = f"Another run of the teacher (number {number}) earned everything by the checks and changes this; "
        why += "the author allows other right ways."
        more = widenings(frame, world.start, run.state, source="run", reason=why)
        if more and task.other_ways:
            frame = widen(frame, more)
        elif more:
            notes.append(f"Another run of the teacher earned everything by the checks, but changed {more[0].path}.")
    return task.model_copy(update={"frame": frame, "notes": (*task.notes, *dict.fromkeys(notes))})


def unframed(world: World, task: TaskDraft, reference: Reference | None) -> Subject:
    """The task as its checks alone judge it."""
    return world.subject(task, reference).with_frame(None)

"""One call of an attempt carried out, the agent's or its user's, and what takes an attempt away from both."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from synthesis.contracts import CallError, CallResult, Ending, ToolCall, TrajectoryStep
from synthesis.errors import InfrastructureError, InputError, ProgramError, StateError
from synthesis.rollout.attempt_log import Log
from synthesis.rollout.environment_calls import AttemptEpisode
from synthesis.rollout.observation import bounded, observation
from synthesis.rollout.user import UnusableUser


class AttemptLost(Exception):
    """The attempt cannot go on and cannot be judged: by the program's doing, or because something of ours failed."""

    def __init__(self, note: str, user_error: bool = False, program: bool = False) -> None:
        super().__init__(note)
        self.user_error = user_error
        self.ending: Ending = "program_ended" if program else "lost"

    @property
    def reason(self) -> str:
        """What ended the program; empty if it was something else."""
        return getattr(self.__cause__, "reason", "") if self.ending == "program_ended" else ""


@contextlib.contextmanager
def guard_losses() -> Iterator[None]:
    """Around what the attempt leans on. Errors of `on_step` and of a faulty policy go through elsewhere."""
    try:
        yield
    except UnusableUser as error:
        raise AttemptLost(str(error), user_error=True) from error
    except ProgramError as error:
        raise AttemptLost(str(error), program=True) from error
    except (InfrastructureError, StateError, InputError) as error:
        raise AttemptLost(str(error)) from error


async def carry_out_call(log: Log, episode: AttemptEpisode, call: ToolCall, made: TrajectoryStep, problem: str) -> str:
    """Execute a call and log its step `made`, which says whose call it is; return what its caller reads.

    With a `problem` it cannot be executed. Raises AttemptLost; the call that ended the program is logged.
    """
    try:
        result, text = await _execute(log, episode, call, made, problem)
    except AttemptLost as lost:
        if lost.ending == "program_ended":
            error = CallError(kind="ended", type=lost.reason, message=str(lost)[:2_000])
            ended = {"result": CallResult(ok=False, error=error), "observation": str(lost)}
            await log.add(made.model_copy(update=ended))
        raise
    shown = bounded(text, log.plan.setting.observation_chars)
    await log.add(made.model_copy(update={"result": result, "observation": shown}))
    return shown


async def _execute(
    log: Log, episode: AttemptEpisode, call: ToolCall, made: TrajectoryStep, problem: str
) -> tuple[CallResult, str]:
    refusal = _refuse(log, call, made, problem)
    if refusal is not None:
        result = CallResult(ok=False, error=refusal)
        return result, observation(result)
    with guard_losses():
        seen = await episode.call(call.name, call.arguments, made.injected, made.by)
    log.held += seen.size
    return seen.result, seen.text


def _refuse(log: Log, call: ToolCall, made: TrajectoryStep, problem: str) -> CallError | None:
    """Return why a call is kept from the environment. Who calls a tool of the other one reads what the environment says
    of a tool that there is not."""
    if problem:
        return CallError(kind="malformed", message=problem[:2_000])
    if log.plan.is_kept_from(made.by, call.name):
        return CallError(kind="not_offered", message=f"there is no tool named {call.name!r:.200}")
    return None

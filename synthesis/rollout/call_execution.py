"""The execution of one call of an attempt, the agent's or its user's, and the losses that end an attempt."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from synthesis.contracts import CallError, CallResult, Ending, ToolCall, TrajectoryStep
from synthesis.errors import InfrastructureError, InputError, ProgramError, StateError
from synthesis.rollout.attempt_log import Log
from synthesis.rollout.environment_calls import AttemptEpisode
from synthesis.rollout.observation import format_observation, shorten_observation
from synthesis.rollout.user import UnusableUser


class AttemptLost(Exception):
    """The attempt cannot continue and cannot be judged, because of the program or of an infrastructure failure."""

    def __init__(self, note: str, user_error: bool = False, program: bool = False) -> None:
        super().__init__(note)
        self.user_error = user_error
        self.ending: Ending = "program_ended" if program else "lost"

    @property
    def reason(self) -> str:
        """The reason why the program ended; empty if something else failed."""
        return getattr(self.__cause__, "reason", "") if self.ending == "program_ended" else ""


@contextlib.contextmanager
def guard_losses() -> Iterator[None]:
    """Turn errors of user, program and infrastructure into AttemptLost. Errors of `on_step` and of a faulty policy
    pass."""
    try:
        yield
    except UnusableUser as error:
        raise AttemptLost(str(error), user_error=True) from error
    except ProgramError as error:
        raise AttemptLost(str(error), program=True) from error
    except (InfrastructureError, StateError, InputError) as error:
        raise AttemptLost(str(error)) from error


async def execute_call(log: Log, episode: AttemptEpisode, call: ToolCall, made: TrajectoryStep, problem: str) -> str:
    """Execute a call and log its step `made`, which names its caller; return the text for the caller.

    With a `problem` it cannot be executed. Raise AttemptLost; the call that ended the program is logged.
    """
    try:
        result, text = await _run_or_refuse(log, episode, call, made, problem)
    except AttemptLost as lost:
        if lost.ending == "program_ended":
            error = CallError(kind="ended", type=lost.reason, message=str(lost)[:2_000])
            ended = {"result": CallResult(ok=False, error=error), "observation": str(lost)}
            await log.add(made.model_copy(update=ended))
        raise
    observed_text = shorten_observation(text, log.plan.setting.observation_chars)
    await log.add(made.model_copy(update={"result": result, "observation": observed_text}))
    return observed_text


async def _run_or_refuse(
    log: Log, episode: AttemptEpisode, call: ToolCall, made: TrajectoryStep, problem: str
) -> tuple[CallResult, str]:
    refusal = _find_refusal(log, call, made, problem)
    if refusal is not None:
        result = CallResult(ok=False, error=refusal)
        return result, format_observation(result)
    with guard_losses():
        seen = await episode.call(call.name, call.arguments, made.injected, made.by)
    log.held += seen.size
    return seen.result, seen.text


def _find_refusal(log: Log, call: ToolCall, made: TrajectoryStep, problem: str) -> CallError | None:
    """Return why a call must not reach the environment.

    A caller of a tool of the other party gets the error for a tool that does not exist.
    """
    if problem:
        return CallError(kind="malformed", message=problem[:2_000])
    if log.plan.is_kept_from(made.by, call.name):
        return CallError(kind="not_offered", message=f"there is no tool named {call.name!r:.200}")
    return None

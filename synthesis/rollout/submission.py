"""The submitted answer of a task with an answer form: it is parsed by type, and refused a bounded number of times."""

from __future__ import annotations

from typing import Any

from synthesis.contracts import (
    CallError,
    CallResult,
    Ending,
    Message,
    ToolCall,
    TrajectoryStep,
)
from synthesis.errors import InputError
from synthesis.formats.answer_form import (
    ACCEPTED,
    SUBMIT_ANSWER,
    find_written_value,
    is_written_alone,
    read_submission,
    serialize_answer,
)
from synthesis.prompts import get_prompt, map_prompt_hashes
from synthesis.rollout.attempt_log import Log
from synthesis.rollout.observation import format_observation

BEHIND = "not carried out: an answer was submitted before it in the same turn"


def is_submission(log: Log, call: ToolCall) -> bool:
    """Return whether a call submits the answer, in a task with an answer form."""
    return bool(log.plan.task.answer_form) and call.name == SUBMIT_ANSWER


def is_submission_over(log: Log) -> bool:
    """Return whether the agent submitted its answer, or has no try left."""
    return log.submitted or log.answer_cut or log.refused > log.plan.setting.max_answer_mends


def take_submission(log: Log, given: Any, problem: str = "") -> CallResult:
    """Accept the agent's answer, or refuse it with the names of its wrong fields. `problem`: it cannot be read."""
    try:
        if problem:
            raise InputError(problem)
        submitted = read_submission(log.plan.task.answer_form, given)
    except InputError as error:
        log.refused += 1
        log.answer_cut = bool(problem and log.cut)
        return CallResult(ok=False, error=CallError(kind="malformed", message=f"not accepted: {error}"[:2_000]))
    log.answer, log.submitted = serialize_answer(submitted), True
    return CallResult(ok=True, result=ACCEPTED, executed=False)


def end_submission(log: Log) -> Ending | None:
    """Return how the attempt ends by the submission; None as long as it continues."""
    if log.submitted:
        return "user_stopped" if log.talk_ended else "answered"
    if log.answer_cut:
        log.note = f"The answer was broken off ({log.cut}), so nothing was submitted."
        return "cut"
    if is_submission_over(log):
        often = "once" if log.refused == 1 else f"{log.refused} times"
        log.note = f"What was to be the answer did not fit the answer form {often}."
        return "unusable"
    return None


def is_answer_due(log: Log, words: str) -> bool:
    """Return whether words without a call are meant for the answer form, and not for a user."""
    setting = log.plan.setting
    if not log.plan.task.answer_form:
        return False
    if not setting.conversational or log.talk_ended:
        return True
    return setting.prompt_style != "tools" and is_written_alone(words)


async def submit_words(log: Log, message: Message, words: str) -> None:
    """Accept the answer of an agent that writes it as text; refuse words if a call is required."""
    if log.plan.setting.prompt_style == "tools":
        await _refuse_words(log, message, words, _render_notice(log, "refused_words"))
        return
    try:
        written_value = find_written_value(words)
    except InputError as error:
        log.answer_cut = bool(log.cut)
        await _refuse_words(log, message, words, _render_notice(log, "refused_message", reason=str(error)))
        return
    result = take_submission(log, written_value)
    text = format_observation(result)
    if result.error is not None:
        text = _render_notice(log, "refused_message", reason=result.error.message)
    log.messages.append(Message(role="user", content=text))
    submitted = TrajectoryStep(
        kind="call",
        turn=log.turn,
        reasoning=message.reasoning,
        tool=SUBMIT_ANSWER,
        arguments=written_value if isinstance(written_value, dict) else {},
        result=result,
        observation=text,
    )
    await log.add(submitted)


async def _refuse_words(log: Log, message: Message, words: str, text: str) -> None:
    log.refused += 1
    log.messages.append(Message(role="user", content=text))
    refused = TrajectoryStep(
        kind="message", turn=log.turn, content=words, reasoning=message.reasoning, observation=text
    )
    await log.add(refused)


def _render_notice(log: Log, name: str, **values: str) -> str:
    """Return the text of a prompt for the agent, and record its use."""
    notice = get_prompt("agent", name)
    log.prompts |= map_prompt_hashes(notice)
    return notice.render(**values)


def end_talk(log: Log) -> str:
    """Let the agent submit its answer after the user has ended the conversation; return the text for the agent.

    It has a turn for each remaining try, also beyond the limit of turns.
    """
    setting = log.plan.setting
    log.talk_ended = True
    log.last_turn = max(log.last_turn, log.turn + 1 + max(0, setting.max_answer_mends - log.refused))
    text = _render_notice(log, f"talk_ended_by_{'call' if setting.prompt_style == 'tools' else 'message'}")
    log.messages.append(Message(role="user", content=text))
    return text

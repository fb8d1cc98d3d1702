"""A turn of the simulated user: calls of tools of its own, with results for it alone, and then its words.

The mechanism is this project's: AutoForge (4.3) evaluates with users that call tools, as in tau2-bench, and defines
none.
"""

from __future__ import annotations

import asyncio
import time

from synthesis.contracts import Message, TrajectoryStep, Usage
from synthesis.errors import LLMError
from synthesis.formats.transcript import UNNAMED, UNPARSED
from synthesis.rollout.attempt_log import Log, name_calls
from synthesis.rollout.call_execution import AttemptLost, execute_call, guard_losses
from synthesis.rollout.environment_calls import AttemptEpisode
from synthesis.rollout.submission import end_talk
from synthesis.rollout.user import STOP, UnusableUser, UserTurn


async def hear_user(log: Log, episode: AttemptEpisode, beginning: asyncio.Task[None]) -> bool:
    """Let the user take its turn; return whether that ends the talk.

    Its calls wait until the episode has begun. The agent sees only its words. Raise AttemptLost.
    """
    while (reply := await _ask_user(log)).calls:
        await beginning
        await _execute_calls(log, episode, reply)
    shown_text = "\n".join(part for part in (reply.content, STOP if reply.stopped else "") if part)
    asked = end_talk(log) if reply.stopped and log.plan.task.answer_form else ""
    step = TrajectoryStep(kind="user", turn=log.turn, content=shown_text, reasoning=reply.reasoning, observation=asked)
    await log.add(step)
    if not reply.stopped:
        user_message = Message(role="user", content=reply.content)
        log.talk.append(user_message)
        log.messages.append(user_message)
    return reply.stopped


async def _ask_user(log: Log) -> UserTurn:
    user, started = log.plan.user, time.perf_counter()
    assert user is not None
    try:
        with guard_losses(), log.deadline.generation(user):
            reply = await user.say(tuple(log.talk))
    except AttemptLost as lost:
        if isinstance(lost.__cause__, UnusableUser):
            log.user_usage += lost.__cause__.usage
        elif isinstance(lost.__cause__, LLMError):
            log.user_usage += Usage(requests=lost.__cause__.requests, lost=lost.__cause__.requests)
        raise
    finally:
        log.user_s += time.perf_counter() - started
    log.user_usage += reply.usage
    return reply


async def _execute_calls(log: Log, episode: AttemptEpisode, reply: UserTurn) -> None:
    """Execute the calls that the user makes before it says something, in their order."""
    calls = name_calls(reply.calls, log.talk, f"user_{len(log.talk)}")
    log.talk.append(Message(role="user", content=reply.content, tool_calls=calls))
    for number, call in enumerate(calls):
        log.require_fork_state(episode.state_hash)
        step = TrajectoryStep(
            kind="call",
            by="user",
            turn=log.turn,
            content=reply.content if number == 0 else "",
            reasoning=reply.reasoning if number == 0 else "",
            tool=call.name or UNNAMED,
            arguments={UNPARSED: call.raw} if call.error else call.arguments,
        )
        read = await execute_call(log, episode, call, step, call.error)
        log.talk.append(Message(role="tool", content=read, tool_call_id=call.id))

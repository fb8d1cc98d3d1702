"""A turn of the simulated user: calls of tools of its own, whose results it alone sees, and then its words.

Ours: AutoForge (4.3) evaluates with users that call tools, as tau2-bench has them, and defines no mechanism.
"""

from __future__ import annotations

import asyncio
import time

from synthesis.contracts import Message, TrajectoryStep, Usage
from synthesis.errors import LLMError
from synthesis.formats.transcript import UNNAMED, UNPARSED
from synthesis.rollout.attempt_log import Log, name_calls
from synthesis.rollout.call_execution import AttemptLost, carry_out_call, guard_losses
from synthesis.rollout.environment_calls import AttemptEpisode
from synthesis.rollout.submission import end_talk
from synthesis.rollout.user import STOP, UnusableUser, UserTurn


async def hear_user(log: Log, episode: AttemptEpisode, beginning: asyncio.Task[None]) -> bool:
    """Let the user take its turn; return whether that ends the talk.

    Its calls wait until the episode has begun. The agent sees its words alone. Raises AttemptLost.
    """
    while (reply := await _ask_user(log)).calls:
        await beginning
        await _carry_out(log, episode, reply)
    shown = "\n".join(part for part in (reply.content, STOP if reply.stopped else "") if part)
    asked = end_talk(log) if reply.stopped and log.plan.task.answer_form else ""
    step = TrajectoryStep(kind="user", turn=log.turn, content=shown, reasoning=reply.reasoning, observation=asked)
    await log.add(step)
    if not reply.stopped:
        heard = Message(role="user", content=reply.content)
        log.talk.append(heard)
        log.messages.append(heard)
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


async def _carry_out(log: Log, episode: AttemptEpisode, reply: UserTurn) -> None:
    """Execute the calls that the user makes before it says something, in their order."""
    calls = name_calls(reply.calls, log.talk, f"user_{len(log.talk)}")
    log.talk.append(Message(role="user", content=reply.content, tool_calls=calls))
    for number, call in enumerate(calls):
        log.require_fork_state(episode.state_hash)
        made = TrajectoryStep(
            kind="call",
            by="user",
            turn=log.turn,
            content=reply.content if number == 0 else "",
            reasoning=reply.reasoning if number == 0 else "",
            tool=call.name or UNNAMED,
            arguments={UNPARSED: call.raw} if call.error else call.arguments,
        )
        read = await carry_out_call(log, episode, call, made, call.error)
        log.talk.append(Message(role="tool", content=read, tool_call_id=call.id))

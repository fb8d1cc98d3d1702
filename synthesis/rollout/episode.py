"""One attempt: the loop of every policy."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

from synthesis.collector import collect_rarely
from synthesis.contracts import (
    Attempt,
    Ending,
    Message,
    Reward,
    TrajectoryStep,
    Usage,
    UserVerdict,
)
from synthesis.errors import InfrastructureError, LLMError, ReplayMismatch
from synthesis.formats.transcript import UNNAMED, UNPARSED, build_spoken_answer
from synthesis.llm.repetition import REASON as REPETITION
from synthesis.prompts import get_prompt, map_prompt_hashes
from synthesis.rollout import styles
from synthesis.rollout.attempt_log import AttemptFollower, Log, build_attempt
from synthesis.rollout.call_execution import AttemptLost, execute_call, guard_losses
from synthesis.rollout.deadline import Deadline
from synthesis.rollout.environment_calls import AttemptEpisode, format_call
from synthesis.rollout.observation import format_observation, shorten_observation
from synthesis.rollout.plan import Plan
from synthesis.rollout.policy import Conversation, PolicyError
from synthesis.rollout.shared_verdicts import SharedVerdicts
from synthesis.rollout.submission import (
    BEHIND,
    end_submission,
    is_answer_due,
    is_submission,
    is_submission_over,
    submit_words,
    take_submission,
)
from synthesis.rollout.user_judge import judge_user, list_talk, list_user_prompts
from synthesis.rollout.user_turn import hear_user

CUT = ("length", REPETITION)
"""Ends of a reply by which a turn is not whole."""


async def run_attempt(
    verdicts: SharedVerdicts, plan: Plan, threads: ThreadPoolExecutor, follow: AttemptFollower, stop: asyncio.Event
) -> Attempt:
    """Make one attempt, in the sandbox of the verdicts.

    A cancellation while `stop` is set gives a `cancelled` attempt; any other is re-raised.
    """
    deadline = Deadline(plan.setting.deadline_s)
    log = Log(plan, follow, deadline)
    episode = AttemptEpisode(verdicts, plan, threads, deadline)
    try:
        with collect_rarely():
            async with deadline:
                ending = await _play_episode(log, episode)
                if follow.on_acted is not None:
                    follow.on_acted(plan)
                digest, reward = await _verify_end(log, episode)
            verdict = await _judge_user(log, episode)
        return build_attempt(log, episode, ending, digest=digest, reward=reward, user_verdict=verdict)
    except AttemptLost as lost:
        log.note = str(lost)
        log.ended_by = lost.reason
        ours = isinstance(lost.__cause__, InfrastructureError) and not isinstance(lost.__cause__, LLMError)
        return build_attempt(log, episode, lost.ending, user_error=lost.user_error, sandbox_lost=ours)
    except ReplayMismatch as error:
        log.note = str(error)
        return build_attempt(log, episode, "lost")
    except TimeoutError:
        if not deadline.is_expired:
            raise
        return build_attempt(log, episode, _end_overdue(log, episode))
    except asyncio.CancelledError:
        if not stop.is_set():
            raise
        return build_attempt(log, episode, "cancelled")
    finally:
        episode.close()


def _end_overdue(log: Log, episode: AttemptEpisode) -> Ending:
    """Return how an attempt past its deadline ended: by its program if that took most of the time."""
    seconds = log.plan.setting.deadline_s
    log.note = f"The attempt took more than {seconds:g} seconds and was stopped."
    busy = episode.busy_s()
    if busy < seconds / 2:
        log.note += " The model that it waited for gave no sign of itself." if log.deadline.silent else ""
        return "lost"
    log.ended_by = "time"
    log.note += f" Its program took {busy:.0f} of them{_format_last_call(log)}."
    return "program_ended"


def _format_last_call(log: Log) -> str:
    calls = [step for step in log.steps if step.kind == "call"]
    return f", the last call was {format_call(calls[-1].tool, calls[-1].arguments)}" if calls else ""


async def _verify_end(log: Log, episode: AttemptEpisode) -> tuple[str, Reward]:
    with guard_losses():
        end = await episode.verify(log.answer)
    log.prompts |= end.prompts
    return end.digest, end.reward


async def _judge_user(log: Log, episode: AttemptEpisode) -> UserVerdict | None:
    """Return whether the user erred, if the setting asks for it.

    The reward is known by then and is kept, whatever happens to the judge: without an answer within the attempt's
    deadline the verdict is `unknown`.
    """
    setting, judge = log.plan.setting, episode.judge
    if not (setting.conversational and setting.judges_user) or judge is None:
        return None
    asked, talk = time.perf_counter(), list_talk(log.steps)
    try:
        async with asyncio.timeout(setting.deadline_s):
            verdict = await judge_user(judge, log.plan.task.instruction, talk)
    except LLMError as error:
        return UserVerdict(finding="unknown", judge=judge.name, note=f"The judge could not be asked: {error}"[:2_000])
    except TimeoutError:
        note = f"The judge said nothing for {setting.deadline_s:g} seconds."
        return UserVerdict(finding="unknown", judge=judge.name, note=note)
    finally:
        episode.verification_s += time.perf_counter() - asked
    log.prompts |= list_user_prompts(talk) if verdict.judge else {}
    return verdict


async def _play_episode(log: Log, episode: AttemptEpisode) -> Ending:
    """Play the episode and return how it ended.

    It begins while the first turn is generated, which needs nothing of it; if it cannot begin, that turn is cancelled.
    """
    beginning = asyncio.create_task(_begin_episode(log, episode))
    acting = asyncio.create_task(_take_turns(log, episode, beginning))
    try:
        await asyncio.wait((beginning, acting), return_when=asyncio.FIRST_EXCEPTION)
        if beginning.done():
            await beginning
        return await acting
    finally:
        beginning.cancel()
        acting.cancel()
        await asyncio.gather(beginning, acting, return_exceptions=True)


async def _begin_episode(log: Log, episode: AttemptEpisode) -> None:
    # After the first requests of all attempts that begin now: threads would take the interpreter from them.
    await asyncio.sleep(0)
    with guard_losses():
        await episode.reset()
    await log.start(episode.initial)


async def _take_turns(log: Log, episode: AttemptEpisode, beginning: asyncio.Task[None]) -> Ending:
    """Take turns until something ends the episode."""
    setting, fork = log.plan.setting, log.plan.fork
    await _open_conversation(log, episode, beginning)
    unusable = 0
    while log.turn < log.last_turn:
        log.turn += 1
        if fork is not None and log.turn == len(fork.turns) + 1:
            await beginning
            log.require_fork_state(episode.state_hash)
        try:
            message = await _ask_policy(log)
        except PolicyError as error:
            log.note = str(error)
            return "unusable"
        except LLMError as error:
            log.note = str(error)
            return "too_long"
        await beginning
        if message.tool_calls:
            unusable = 0 if await _execute_calls(log, episode, message) else unusable + 1
        elif words := styles.extract_words(setting.prompt_style, message, log.plan.offered_tools):
            unusable = 0
            if is_answer_due(log, words):
                await submit_words(log, message, words)
            elif ending := await _say_words(log, episode, beginning, message, words):
                return ending
        else:
            unusable += 1
            await _nudge_agent(log, message)
        if ending := end_submission(log):
            return ending
        if unusable >= setting.max_unusable:
            log.note = f"{unusable} turns in a row held nothing that could be used."
            return "unusable"
        if log.held > setting.kept_bytes:
            log.note = f"The attempt holds more than {setting.kept_bytes} bytes of results and changes."
            return "too_long"
    log.note = f"The limit of {setting.turn_limit} turns was reached."
    return "turn_limit"


async def _open_conversation(log: Log, episode: AttemptEpisode, beginning: asyncio.Task[None]) -> None:
    """Show the agent its first messages: documentation and tools, and the task, or the user's first words."""
    plan, setting = log.plan, log.plan.setting
    task = plan.task
    system, used = styles.build_system_message(
        setting.prompt_style, setting.conversational, task.documentation, plan.agent_tools, task.answer_form
    )
    log.prompts |= map_prompt_hashes(*used)
    log.messages.append(system)
    if not setting.conversational:
        log.messages.append(Message(role="user", content=task.instruction))
        await log.add(TrajectoryStep(kind="user", content=task.instruction))
        return
    assert plan.user is not None
    log.prompts |= plan.user.prompts
    await hear_user(log, episode, beginning)


async def _ask_policy(log: Log) -> Message:
    """Return the policy's next turn. Raise PolicyError, LLMError for an overlong conversation, and AttemptLost."""
    plan, started = log.plan, time.perf_counter()
    if plan.fork is not None and log.turn <= len(plan.fork.turns):
        log.cut = ""
        log.messages.append(again := log.give_call_ids(plan.fork.turns[log.turn - 1]))
        return again
    seen = Conversation(
        messages=tuple(log.messages),
        tools=plan.offered_tools,
        style=plan.setting.prompt_style,
        conversational=plan.setting.conversational,
        turn=log.turn,
        answer_form=plan.task.answer_form,
    )
    try:
        with guard_losses(), log.deadline.generation(plan.policy):
            turn = await plan.policy.act(seen)
    except AttemptLost as lost:
        if isinstance(lost.__cause__, LLMError):
            spent = lost.__cause__.requests
            log.usage += Usage(requests=spent, lost=spent)
            if lost.__cause__.reason == "context":
                raise lost.__cause__ from None
        raise
    finally:
        log.agent_s += time.perf_counter() - started
    message = log.give_call_ids(turn.message)
    log.cut = turn.finish_reason if turn.finish_reason in CUT else ""
    log.usage += turn.usage or Usage()
    log.turns.append(turn.model_copy(update={"message": message}))
    log.messages.append(message)
    return message


async def _execute_calls(log: Log, episode: AttemptEpisode, message: Message) -> bool:
    """Execute a turn's calls in their order. Return False if none of them could be executed."""
    setting, tools = log.plan.setting, log.plan.offered_tools
    names = {tool.name for tool in tools}
    words = styles.extract_words(setting.prompt_style, message, tools)
    read: list[str] = []
    usable = False
    for number, call in enumerate(message.tool_calls):
        problem = call.error
        if number >= setting.max_calls_a_turn:
            problem = f"not carried out: at most {setting.max_calls_a_turn} calls in one turn"
        elif is_submission_over(log):
            problem = BEHIND
        submits = is_submission(log, call) and problem == call.error
        step = TrajectoryStep(
            kind="call",
            turn=log.turn,
            content=words if number == 0 else "",
            reasoning=message.reasoning if number == 0 else "",
            tool=call.name or UNNAMED,
            arguments={UNPARSED: call.raw} if call.error else call.arguments,
        )
        if submits:
            result = take_submission(log, call.arguments, problem)
            observed_text = shorten_observation(format_observation(result), setting.observation_chars)
            await log.add(step.model_copy(update={"result": result, "observation": observed_text}))
        else:
            injected = None if problem else log.plan.injection_at(len(log.steps), call.name)
            step = step.model_copy(update={"injected": injected})
            observed_text = await execute_call(log, episode, call, step, problem)
        usable = usable or submits or (not problem and call.name in names)
        read.append(observed_text)
    log.messages += styles.build_result_messages(setting.prompt_style, message.tool_calls, read)
    return usable


async def _say_words(
    log: Log, episode: AttemptEpisode, beginning: asyncio.Task[None], message: Message, words: str
) -> Ending | None:
    """Record plain words: the answer that ends a task, or the words to the user."""
    conversational = log.plan.setting.conversational
    log.talk.append(Message(role="assistant", content=words))
    if not log.plan.task.answer_form:
        log.answer = build_spoken_answer([one.content for one in log.talk if one.role == "assistant"], conversational)
    await log.add(TrajectoryStep(kind="message", turn=log.turn, content=words, reasoning=message.reasoning))
    ending: Ending = "user_stopped" if conversational else "answered"
    if conversational and (not await hear_user(log, episode, beginning) or log.talk_ended):
        return None
    if not log.cut:
        return ending
    log.note = f"The last words were broken off ({log.cut}), so the task is not solved by them."
    return "cut"


async def _nudge_agent(log: Log, message: Message) -> None:
    again = get_prompt("agent", "again")
    log.prompts |= map_prompt_hashes(again)
    text = again.render()
    log.messages.append(Message(role="user", content=text))
    await log.add(TrajectoryStep(kind="message", turn=log.turn, reasoning=message.reasoning, observation=text))

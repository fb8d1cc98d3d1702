"""One attempt: the loop that every policy goes through."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from synthesis.collector import collect_rarely
from synthesis.contracts import (
    Attempt,
    CallError,
    CallResult,
    Ending,
    Injection,
    Message,
    Reward,
    ToolCall,
    TrajectoryStep,
    Usage,
    UserVerdict,
)
from synthesis.errors import InfrastructureError, InputError, LLMError, ProgramError, ReplayMismatch, StateError
from synthesis.formats.transcript import UNNAMED, UNPARSED, told_user
from synthesis.llm.repetition import REASON as REPETITION
from synthesis.prompts import hashes, prompt
from synthesis.rollout import styles
from synthesis.rollout.attempt_log import AttemptFollower, Log, attempt_of
from synthesis.rollout.deadline import Deadline
from synthesis.rollout.environment_calls import AttemptEpisode, spelled_call
from synthesis.rollout.observation import bounded, observation
from synthesis.rollout.plan import Plan
from synthesis.rollout.policy import Conversation, PolicyError
from synthesis.rollout.shared_verdicts import SharedVerdicts
from synthesis.rollout.submission import (
    BEHIND,
    end_submission,
    end_talk,
    is_answer_due,
    is_over,
    is_submission,
    submit_words,
    take_submission,
)
from synthesis.rollout.user import STOP, UnusableUser
from synthesis.rollout.user_judge import judge_user, list_talk, user_prompts

CUT = ("length", REPETITION)
"""Ends of a reply by which a turn is not whole."""


class _Lost(Exception):
    """The attempt cannot go on and cannot be judged: by the program's doing, or because something of ours failed."""

    def __init__(self, note: str, user_error: bool = False, program: bool = False) -> None:
        super().__init__(note)
        self.user_error = user_error
        self.ending: Ending = "program_ended" if program else "lost"


async def attempt(
    verdicts: SharedVerdicts, plan: Plan, threads: ThreadPoolExecutor, follow: AttemptFollower, stop: asyncio.Event
) -> Attempt:
    """Make one attempt, in the sandbox that the verdicts are of. A cancellation while `stop` is set gives a `cancelled`
    attempt; any other is passed on."""
    deadline = Deadline(plan.setting.deadline_s)
    log = Log(plan, follow, deadline)
    episode = AttemptEpisode(verdicts, plan, threads, deadline)
    try:
        with collect_rarely():
            async with deadline:
                ending = await _played(log, episode)
                if follow.on_acted is not None:
                    follow.on_acted(plan)
                digest, reward = await _judge(log, episode)
            verdict = await _judge_user(log, episode)
        return attempt_of(log, episode, ending, digest=digest, reward=reward, user_verdict=verdict)
    except _Lost as lost:
        log.note = str(lost)
        log.ended_by = _reason(lost) if lost.ending == "program_ended" else ""
        ours = isinstance(lost.__cause__, InfrastructureError) and not isinstance(lost.__cause__, LLMError)
        return attempt_of(log, episode, lost.ending, user_error=lost.user_error, sandbox_lost=ours)
    except ReplayMismatch as error:
        log.note = str(error)
        return attempt_of(log, episode, "lost")
    except TimeoutError:
        if not deadline.expired:
            raise
        return attempt_of(log, episode, _overdue(log, episode))
    except asyncio.CancelledError:
        if not stop.is_set():
            raise
        return attempt_of(log, episode, "cancelled")
    finally:
        episode.close()


@contextlib.contextmanager
def _losses() -> Iterator[None]:
    """Around what the attempt leans on. Errors of `on_step` and of a faulty policy go through elsewhere."""
    try:
        yield
    except UnusableUser as error:
        raise _Lost(str(error), user_error=True) from error
    except ProgramError as error:
        raise _Lost(str(error), program=True) from error
    except (InfrastructureError, StateError, InputError) as error:
        raise _Lost(str(error)) from error


def _overdue(log: Log, episode: AttemptEpisode) -> Ending:
    """How an attempt past its deadline ended: by its program where that took most of the time."""
    seconds = log.plan.setting.deadline_s
    log.note = f"The attempt took more than {seconds:g} seconds and was stopped."
    busy = episode.busy_s()
    if busy < seconds / 2:
        log.note += " The model that it waited for gave no sign of itself." if log.deadline.silent else ""
        return "lost"
    log.ended_by = "time"
    log.note += f" Its program took {busy:.0f} of them{_last_call(log)}."
    return "program_ended"


def _last_call(log: Log) -> str:
    calls = [step for step in log.steps if step.kind == "call"]
    return f", the last call was {spelled_call(calls[-1].tool, calls[-1].arguments)}" if calls else ""


async def _judge(log: Log, episode: AttemptEpisode) -> tuple[str, Reward]:
    with _losses():
        end = await episode.verify(log.answer)
    log.prompts |= end.prompts
    return end.digest, end.reward


async def _judge_user(log: Log, episode: AttemptEpisode) -> UserVerdict | None:
    """Return whether the user erred, if that is asked. What the attempt earned is known by then and stays, whatever
    becomes of the judge: without an answer within the attempt's deadline the verdict is `unknown`."""
    setting, judge = log.plan.setting, episode.judge
    if not (setting.conversational and setting.judges_user) or judge is None:
        return None
    asked = time.perf_counter()
    try:
        async with asyncio.timeout(setting.deadline_s):
            verdict = await judge_user(judge, log.plan.task.instruction, list_talk(log.steps))
    except LLMError as error:
        return UserVerdict(finding="unknown", judge=judge.name, note=f"The judge could not be asked: {error}"[:2_000])
    except TimeoutError:
        note = f"The judge said nothing for {setting.deadline_s:g} seconds."
        return UserVerdict(finding="unknown", judge=judge.name, note=note)
    finally:
        episode.verification_s += time.perf_counter() - asked
    log.prompts |= user_prompts() if verdict.judge else {}
    return verdict


async def _played(log: Log, episode: AttemptEpisode) -> Ending:
    """How the episode ended. It begins while the first turn is drawn, for which nothing of it is needed; where it
    cannot begin, nobody waits for that turn."""
    beginning = asyncio.create_task(_begin(log, episode))
    acting = asyncio.create_task(_act(log, episode, beginning))
    try:
        await asyncio.wait((beginning, acting), return_when=asyncio.FIRST_EXCEPTION)
        if beginning.done():
            await beginning
        return await acting
    finally:
        beginning.cancel()
        acting.cancel()
        await asyncio.gather(beginning, acting, return_exceptions=True)


async def _begin(log: Log, episode: AttemptEpisode) -> None:
    # Behind all first questions of attempts that begin at once: threads would take the interpreter from them.
    await asyncio.sleep(0)
    with _losses():
        await episode.reset()
    await log.start(episode.initial)


async def _act(log: Log, episode: AttemptEpisode, beginning: asyncio.Task[None]) -> Ending:
    """Turn after turn, until something ends it."""
    setting, fork = log.plan.setting, log.plan.fork
    await _open(log)
    unusable = 0
    while log.turn < log.last_turn:
        log.turn += 1
        if fork is not None and log.turn == len(fork.turns) + 1:
            await beginning
            fork.require_state(len(log.steps), episode.state_hash())
        try:
            message = await _move(log)
        except PolicyError as error:
            log.note = str(error)
            return "unusable"
        except LLMError as error:
            log.note = str(error)
            return "too_long"
        await beginning
        if message.tool_calls:
            unusable = 0 if await _carry_out(log, episode, message) else unusable + 1
        elif words := styles.said(setting.prompt_style, message, log.plan.task.offered_tools):
            unusable = 0
            if is_answer_due(log, words):
                await submit_words(log, message, words)
            elif ending := await _say(log, message, words):
                return ending
        else:
            unusable += 1
            await _nudge(log, message)
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


async def _open(log: Log) -> None:
    """What the agent sees first: documentation and tools, and the task, or what the user opens with."""
    plan, setting = log.plan, log.plan.setting
    task = plan.task
    system, used = styles.system_message(
        setting.prompt_style, setting.conversational, task.documentation, task.program.tools, task.answer_form
    )
    log.prompts |= hashes(*used)
    log.messages.append(system)
    if not setting.conversational:
        log.messages.append(Message(role="user", content=task.instruction))
        await log.add(TrajectoryStep(kind="user", content=task.instruction))
        return
    assert plan.user is not None
    log.prompts |= plan.user.prompts
    await _hear(log)


async def _move(log: Log) -> Message:
    """The policy's next turn. Raises PolicyError, LLMError for an overlong conversation, and _Lost."""
    plan, started = log.plan, time.perf_counter()
    if plan.fork is not None and log.turn <= len(plan.fork.turns):
        log.cut = ""
        log.messages.append(again := log.known(plan.fork.turns[log.turn - 1]))
        return again
    seen = Conversation(
        messages=tuple(log.messages),
        tools=plan.task.offered_tools,
        style=plan.setting.prompt_style,
        conversational=plan.setting.conversational,
        turn=log.turn,
        answer_form=plan.task.answer_form,
    )
    try:
        with _losses(), log.deadline.generation(plan.policy):
            turn = await plan.policy.act(seen)
    except _Lost as lost:
        if isinstance(lost.__cause__, LLMError):
            spent = lost.__cause__.requests
            log.usage += Usage(requests=spent, lost=spent)
            if lost.__cause__.reason == "context":
                raise lost.__cause__ from None
        raise
    finally:
        log.agent_s += time.perf_counter() - started
    message = log.known(turn.message)
    log.cut = turn.finish_reason if turn.finish_reason in CUT else ""
    log.usage += turn.usage or Usage()
    log.turns.append(turn.model_copy(update={"message": message}))
    log.messages.append(message)
    return message


async def _carry_out(log: Log, episode: AttemptEpisode, message: Message) -> bool:
    """Execute a turn's calls in their order. False when none of them could be one."""
    setting, tools = log.plan.setting, log.plan.task.offered_tools
    names = {tool.name for tool in tools}
    words = styles.said(setting.prompt_style, message, tools)
    read: list[str] = []
    usable = False
    for number, call in enumerate(message.tool_calls):
        problem = call.error
        if number >= setting.max_calls_a_turn:
            problem = f"not carried out: at most {setting.max_calls_a_turn} calls in one turn"
        elif is_over(log):
            problem = BEHIND
        submits = is_submission(log, call) and problem == call.error
        made = TrajectoryStep(
            kind="call",
            turn=log.turn,
            content=words if number == 0 else "",
            reasoning=message.reasoning if number == 0 else "",
            tool=call.name or UNNAMED,
            arguments={UNPARSED: call.raw} if call.error else call.arguments,
        )
        try:
            if submits:
                result = take_submission(log, call.arguments, problem)
                text = observation(result)
            else:
                injected = None if problem else log.plan.injection_at(len(log.steps), call.name)
                made = made.model_copy(update={"injected": injected})
                result, text = await _execute(log, episode, call, problem, injected)
        except _Lost as lost:
            if lost.ending == "program_ended":
                await log.add(made.model_copy(update={"result": _ended(lost), "observation": str(lost)}))
            raise
        usable = usable or submits or (not problem and call.name in names)
        shown = bounded(text, setting.observation_chars)
        read.append(shown)
        await log.add(made.model_copy(update={"result": result, "observation": shown}))
    log.messages += styles.result_messages(setting.prompt_style, message.tool_calls, read)
    return usable


async def _execute(
    log: Log, episode: AttemptEpisode, call: ToolCall, problem: str, injected: Injection | None
) -> tuple[CallResult, str]:
    if problem:
        result = CallResult(ok=False, error=CallError(kind="malformed", message=problem[:2_000]))
        return result, observation(result)
    with _losses():
        seen = await episode.call(call.name, call.arguments, injected)
    log.held += seen.size
    return seen.result, seen.text


def _ended(lost: _Lost) -> CallResult:
    """What stands as the result of the call that the program ended the episode in."""
    return CallResult(ok=False, error=CallError(kind="ended", type=_reason(lost), message=str(lost)[:2_000]))


def _reason(lost: _Lost) -> str:
    return getattr(lost.__cause__, "reason", "")


async def _say(log: Log, message: Message, words: str) -> Ending | None:
    """Plain words: the answer that ends a task, or what the user hears."""
    conversational = log.plan.setting.conversational
    log.talk.append(Message(role="assistant", content=words))
    if not log.plan.task.answer_form:
        log.answer = told_user([one.content for one in log.talk if one.role == "assistant"], conversational)
    await log.add(TrajectoryStep(kind="message", turn=log.turn, content=words, reasoning=message.reasoning))
    ending: Ending = "user_stopped" if conversational else "answered"
    if conversational and (not await _hear(log) or log.talk_ended):
        return None
    if not log.cut:
        return ending
    log.note = f"The last words were broken off ({log.cut}), so the task is not solved by them."
    return "cut"


async def _hear(log: Log) -> bool:
    """What the user says next; True when it ends the talk."""
    user, started = log.plan.user, time.perf_counter()
    assert user is not None
    try:
        with _losses(), log.deadline.generation(user):
            reply = await user.say(tuple(log.talk))
    except _Lost as lost:
        if isinstance(lost.__cause__, UnusableUser):
            log.user_usage += lost.__cause__.usage
        elif isinstance(lost.__cause__, LLMError):
            log.user_usage += Usage(requests=lost.__cause__.requests, lost=lost.__cause__.requests)
        raise
    finally:
        log.user_s += time.perf_counter() - started
    log.user_usage += reply.usage
    shown = "\n".join(part for part in (reply.content, STOP if reply.stopped else "") if part)
    asked = end_talk(log) if reply.stopped and log.plan.task.answer_form else ""
    step = TrajectoryStep(kind="user", turn=log.turn, content=shown, reasoning=reply.reasoning, observation=asked)
    await log.add(step)
    if not reply.stopped:
        heard = Message(role="user", content=reply.content)
        log.talk.append(heard)
        log.messages.append(heard)
    return reply.stopped


async def _nudge(log: Log, message: Message) -> None:
    again = prompt("agent", "again")
    log.prompts |= hashes(again)
    text = again.render()
    log.messages.append(Message(role="user", content=text))
    await log.add(TrajectoryStep(kind="message", turn=log.turn, reasoning=message.reasoning, observation=text))

"""Forks by hand: a playground that begins after a parent's calls, and the attempt that becomes of it."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from asgiref.sync import async_to_sync
from django.db import transaction

from synthesis import llm
from synthesis.contracts import Attempt, CallError, CallResult, Program, ReferenceCall, State, TrajectoryStep
from synthesis.errors import InfrastructureError, InputError, ProgramEnded
from synthesis.formats.values import clean
from synthesis.rollout import ByHandPolicy, ForkStart, Plan, RolloutTask, replace_result, run_attempts
from synthesis.runtime import Episode, default_sandbox
from webapp.accounts.services import audit
from webapp.endpoints.connections import connect
from webapp.endpoints.models import LLMRole
from webapp.endpoints.queries import default_of
from webapp.errors import ChangedMeanwhile, Conflict
from webapp.jobs.models import Job
from webapp.jobs.services import create
from webapp.scenarios.answers.answer_form import read_given_answer
from webapp.scenarios.models import Playground
from webapp.scenarios.playground import services as playgrounds
from webapp.scenarios.verifiers import needs_judge
from webapp.trajectories.forks.starts import ForkPoint, fork_point, is_executed, stored
from webapp.trajectories.matrix import small_matrix
from webapp.trajectories.models import CallBy, PlaygroundFork, StepKind, Trajectory
from webapp.trajectories.rollouts.finished_attempt import record_whole
from webapp.trajectories.rollouts.plans import site_judge, task_of
from webapp.trajectories.rollouts.services import obstacle
from webapp.trajectories.services import setting_of
from webapp.trajectories.stored_runs import read_injection

SOURCE = "fork"
MOST_CALLS = playgrounds.MOST_CALLS
DEADLINE_S = 120.0


@dataclass(frozen=True)
class ByHand:
    """What a person does after the fork; `answer` is as an attempt holds it. `identity` makes it the same attempt when
    it is sent twice."""

    name: str
    calls: tuple[ReferenceCall, ...]
    answer: str
    identity: tuple[Any, ...]


def require_hand(parent: Trajectory, step: int) -> ForkPoint:
    """Where a person can go on by hand. Raises InputError."""
    problem = obstacle(parent.attempted)
    if problem:
        raise InputError(problem)
    point = fork_point(parent, step)
    last = point.rows[-1]
    if parent.conversational and (last.kind == StepKind.MESSAGE or last.by == CallBy.USER):
        raise InputError(
            f"After step {step - 1} it is the user's turn. By hand a fork goes on where it is the agent's: fork one "
            "step later, or with a policy, whose simulated user goes on here."
        )
    return point


def _require_agent_tools(point: ForkPoint, calls: Sequence[ReferenceCall]) -> None:
    """Raises InputError: by hand somebody acts as the agent, and a call is of a tool of the user's."""
    taken = next((call.tool for call in calls if call.tool in point.user_tools), None)
    if taken is not None:
        raise InputError(f"{taken} is a tool of the simulated user's, and by hand you act as the agent. Leave it out.")


def begin(user: Any, parent: Trajectory, step: int) -> Playground:
    """A playground at the parent's revision in which its calls before `step` were made again.

    Raises InputError (it cannot be forked there), ReplayMismatch (a call comes out otherwise, with its step) and what
    the sandbox raises.
    """
    point = require_hand(parent, step)
    late = next((row.index for row in point.rows if row.injected and row.injected["latency_s"]), None)
    if late is not None:
        raise InputError(
            f"Latency was injected at step {late}, and a playground has no such clock. Fork before that step, or let a "
            "policy go on instead."
        )
    start = point.start()
    setting = setting_of(parent.attempted)
    episode = default_sandbox().reset(
        setting.program, setting.initial, seed=parent.seed, now=parent.now, validation="source"
    )
    try:
        first = episode.state()
        made = _made_again(episode, setting.program, point, start)
        earlier = playgrounds.EarlierCalls(episode, first, made, _following(point))
        validation = point.setting().validation
        with transaction.atomic():
            row = playgrounds.adopt(
                user, parent.attempted, earlier, seed=parent.seed, now=parent.now, validation=validation
            )
            PlaygroundFork.objects.create(playground=row, parent=parent, forked_at=step)
            audit(user, "fork.begin", parent, step=step, playground=row.pk)
    except BaseException:
        episode.close()
        raise
    return row


def _made_again(episode: Episode, program: Program, point: ForkPoint, start: ForkStart) -> list[playgrounds.MadeCall]:
    """The parent's calls in this episode. Raises ReplayMismatch with the step, SandboxLost."""
    made: list[playgrounds.MadeCall] = []
    digest = episode.state_hash()
    for row in point.rows:
        if not is_executed(row):
            continue
        arguments = row.arguments or {}
        result = playgrounds.refusal_of(program, row.tool, arguments) if point.parent.validation == "schema" else None
        if result is None:
            try:
                result = episode.call(row.tool, arguments)
            except ProgramEnded as error:
                result = CallResult(ok=False, error=CallError(kind="ended", message=str(error)))
        seen = replace_result(read_injection(row.injected), result)
        again = TrajectoryStep(kind="call", tool=row.tool, arguments=arguments, result=seen, by=stored(row).by)
        start.require(row.index, again)
        digest = episode.state_hash() if result.patch else digest
        made.append(playgrounds.MadeCall(row.tool, arguments, result, digest))
    if len(made) >= MOST_CALLS:
        raise InputError(f"A playground holds {MOST_CALLS} calls, and the parent made as many before this step.")
    start.require_state(len(point.rows), digest)
    return made


def _following(point: ForkPoint) -> list[dict[str, Any]]:
    """The parent's own calls from the fork on, for redo: the first can be changed, the others be made as they were."""
    rows = point.parent.steps.filter(index__gte=point.step).order_by("index")
    return [
        {"tool": row.tool, "arguments": row.arguments or {}, "validation": point.parent.validation}
        for row in rows[:MOST_CALLS]
        if is_executed(row) and row.by == CallBy.AGENT
    ]


def fork_of(playground: Playground) -> PlaygroundFork | None:
    """Which fork a playground is; None where somebody tries tools."""
    rows = PlaygroundFork.objects.select_related("parent__revision__task", "parent__task")
    return rows.defer("parent__record", "parent__matrix").filter(playground=playground).first()


def finish(user: Any, playground: Playground, serial: int, answer: str) -> Trajectory:
    """The playground's calls as an attempt: executed once more, judged, stored with its parent. `answer` are words, or
    of a task with an answer form the JSON object of its fields (`read_entered_answer` makes it of texts).

    Raises ChangedMeanwhile (it went on elsewhere), Conflict (it comes out otherwise now), InputError and what the
    sandbox raises.
    """
    fork, calls = _own_calls(playground, serial)
    answer = read_given_answer(fork.parent.attempted, answer)
    hand = ByHand(user.username, calls, answer, _identity(playground, answer))
    return carry_out(whole_parent(fork.parent_id), fork.forked_at, hand, user, playgrounds.hash_now(playground))


def start_finish(user: Any, playground: Playground, serial: int, answer: str) -> Job:
    """The same as a job, where a judge may take its time. Raises as `finish` before the execution."""
    fork, calls = _own_calls(playground, serial)
    answer = read_given_answer(fork.parent.attempted, answer)
    identity, expected = _identity(playground, answer), playgrounds.hash_now(playground)
    return _start(user, fork.parent_id, fork.forked_at, calls, answer, identity=identity, expected=expected)


def asks_judge(playground: Playground) -> bool:
    """Whether a judge may have to decide what the fork of this playground earns."""
    fork = fork_of(playground)
    if fork is None or default_of(LLMRole.JUDGE) is None:
        return False
    return needs_judge(fork.parent.attempted)


def _own_calls(playground: Playground, serial: int) -> tuple[PlaygroundFork, tuple[ReferenceCall, ...]]:
    fork = fork_of(playground)
    if fork is None:
        raise InputError("This playground is no fork, so there is no task to verify. Its calls stay where they are.")
    if playground.serial != serial:
        raise ChangedMeanwhile("This playground went on in another tab or window. Look at it again, then finish it.")
    rows = playground.calls.filter(index__gt=playground.kept).order_by("index")
    return fork, tuple(ReferenceCall(tool=row.tool, arguments=row.arguments) for row in rows)


def _identity(playground: Playground, answer: str) -> tuple[Any, ...]:
    return ("playground", playground.pk, playground.serial, answer)


def start_fork(user: Any, parent: Trajectory, step: int, calls: Sequence[ReferenceCall], answer: str) -> Job:
    """Queue a fork by hand of given calls. Raises InputError."""
    _require_agent_tools(require_hand(parent, step), calls)
    if len(calls) > MOST_CALLS:
        raise InputError(f"A fork by hand makes at most {MOST_CALLS} calls; {len(calls)} were given.")
    return _start(user, parent.pk, step, calls, read_given_answer(parent.attempted, answer))


def _start(user: Any, parent: int, step: int, calls: Sequence[ReferenceCall], answer: str, **more: Any) -> Job:
    given = {"parent": parent, "step": step, "calls": [call.model_dump() for call in calls], "answer": answer}
    title = f"Fork of trajectory {parent} at step {step}, by hand"
    return create("fork", title, given | {"name": user.username} | more, user, subject=f"trajectory:{parent}")


def whole_parent(pk: int) -> Trajectory:
    """A parent with what carrying out its fork needs. Raises InputError."""
    rows = Trajectory.objects.select_related("task__environment", "revision__scenario__version").defer("matrix")
    row = rows.filter(pk=pk).first()
    if row is None:
        raise InputError(f"Trajectory {pk}, which was to be forked, is gone.")
    return row


def carry_out(parent: Trajectory, step: int, hand: ByHand, user: Any, expected: str = "") -> Trajectory:
    """Make the parent's turns again, then those of a person, judge the end and store it.

    `expected` is the hash of the state that the person saw at the end. Raises Conflict where an execution goes another
    way, InputError, SandboxUnavailable and SandboxLost; nothing is stored then.
    """
    point = require_hand(parent, step)
    _require_agent_tools(point, hand.calls)
    task = task_of(parent.attempted)
    judge = site_judge() if task.asks_judge else None
    attempt, start = async_to_sync(_attempted)(point, point.task(task), point.start(), hand, judge)
    if attempt.outcome in ("infra_error", "cancelled"):
        raise _refused(attempt)
    if expected and attempt.final_hash and attempt.final_hash != expected:
        raise Conflict(
            "Executing the calls again ends in another state than the one in the playground, so the fork was not kept."
        )
    row = record_whole(
        attempt,
        parent.attempted,
        start,
        SOURCE,
        [parent.pk, step, *hand.identity],
        _provenance(attempt, hand),
        fork=(parent, step),
    )
    if row.final_hash:
        small_matrix(default_sandbox(), row)
    audit(user, "fork.finish", row, parent=parent.pk, step=step)
    return row


def _refused(attempt: Attempt) -> Exception:
    if attempt.sandbox_lost:
        return InfrastructureError(f"The sandbox failed: {attempt.note} The fork was not kept; try again.")
    return Conflict(clean(attempt.note) or "The fork could not be carried out, and nothing says why.")


async def _attempted(
    point: ForkPoint, task: RolloutTask, start: ForkStart, hand: ByHand, judge: tuple[llm.Endpoint, str] | None
) -> tuple[Attempt, State]:
    """The attempt, and the state that its episode began in."""
    before = len(point.turns)
    policy = ByHandPolicy(f"{hand.name}, by hand", hand.calls, hand.answer, before)
    most = min(before + len(hand.calls) + 2, 1_000)
    setting = point.setting(max_turns=most, max_unusable=1_000, deadline_s=DEADLINE_S)
    states: list[State] = []

    async def on_start(plan: Plan, state: State) -> None:
        states.append(state)

    async with contextlib.AsyncExitStack() as stack:
        decides = None
        if judge is not None:
            decides = (await stack.enter_async_context(connect(judge[0]))).chat(judge[1])
        plan = Plan(task, policy, setting, point.heard(), judge=decides, fork=start)
        made = [one async for one in run_attempts(default_sandbox(), [plan], at_once=1, on_start=on_start)]
    return made[0], states[0] if states else {}


def _provenance(attempt: Attempt, hand: ByHand) -> dict[str, Any]:
    return {
        "by_hand": hand.name,
        "ending": attempt.ending,
        "prompt_style": attempt.prompt_style,
        "user": attempt.user,
        "prompts": attempt.prompts,
        "usage": attempt.usage.model_dump(),
        "judge_usage": attempt.judge_usage.model_dump(),
    }

"""Forks by hand: a playground that begins after a parent's calls, and the attempt that it becomes."""

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
from synthesis.formats.values import clean_text
from synthesis.rollout import ByHandPolicy, ForkStart, Plan, RolloutTask, replace_result, run_attempts
from synthesis.runtime import Episode, get_default_sandbox
from webapp.accounts.services import write_audit_entry
from webapp.common.errors import ChangedMeanwhile, Conflict
from webapp.endpoints.connections import open_connection
from webapp.endpoints.models import LLMRole
from webapp.endpoints.queries import find_default_model
from webapp.jobs.models import Job
from webapp.jobs.services import enqueue_job
from webapp.scenarios.answers.answer_form import read_given_answer
from webapp.scenarios.models import Playground
from webapp.scenarios.playground import services as playgrounds
from webapp.scenarios.verifiers import needs_judge
from webapp.trajectories.forks.starts import ForkPoint, is_executed, load_fork_point, to_stored_step
from webapp.trajectories.matrix import compute_small_matrix
from webapp.trajectories.models import CallBy, PlaygroundFork, StepKind, Trajectory
from webapp.trajectories.rollouts.finished_attempt import store_finished_attempt
from webapp.trajectories.rollouts.plans import build_rollout_task, find_site_judge
from webapp.trajectories.rollouts.services import find_obstacle
from webapp.trajectories.services import build_replay_setting
from webapp.trajectories.stored_runs import read_injection

SOURCE = "fork"
MOST_CALLS = playgrounds.MOST_CALLS
DEADLINE_S = 120.0


@dataclass(frozen=True)
class ByHand:
    """The actions of a person after the fork; `answer` is in the form that an attempt stores. `identity` makes two
    requests with it the same attempt."""

    name: str
    calls: tuple[ReferenceCall, ...]
    answer: str
    identity: tuple[Any, ...]


def require_manual_fork(parent: Trajectory, step: int) -> ForkPoint:
    """Return the point at which a person can continue by hand. Raises InputError."""
    problem = find_obstacle(parent.attempted_revision)
    if problem:
        raise InputError(problem)
    point = load_fork_point(parent, step)
    last = point.rows[-1]
    if parent.conversational and (last.kind == StepKind.MESSAGE or last.by == CallBy.USER):
        raise InputError(
            f"After step {step - 1} it is the user's turn. A fork by hand continues with the agent's turn: fork one "
            "step later, or with a policy, whose simulated user continues here."
        )
    return point


def _require_agent_tools(point: ForkPoint, calls: Sequence[ReferenceCall]) -> None:
    """Raise InputError if a call is of a tool of the user's: by hand a person acts as the agent."""
    user_tool = next((call.tool for call in calls if call.tool in point.user_tools), None)
    if user_tool is not None:
        raise InputError(
            f"{user_tool} is a tool of the simulated user's, and by hand you act as the agent. Leave it out."
        )


def begin_fork(user: Any, parent: Trajectory, step: int) -> Playground:
    """Return a playground at the parent's revision in which its calls before `step` were made again.

    Raises InputError (it cannot be forked there), ReplayMismatch (a call has a different outcome, with its step) and
    the errors of the sandbox.
    """
    point = require_manual_fork(parent, step)
    late = next((row.index for row in point.rows if row.injected and row.injected["latency_s"]), None)
    if late is not None:
        raise InputError(
            f"Latency was injected at step {late}, and a playground has no such clock. Fork before that step, or let a "
            "policy go on instead."
        )
    start = point.start()
    setting = build_replay_setting(parent.attempted_revision)
    episode = get_default_sandbox().reset(
        setting.program, setting.initial, seed=parent.seed, now=parent.now, validation="source"
    )
    try:
        first = episode.state()
        repeated_calls = _repeat_parent_calls(episode, setting.program, point, start)
        earlier = playgrounds.EarlierCalls(episode, first, repeated_calls, _list_following_calls(point))
        validation = point.setting().validation
        with transaction.atomic():
            row = playgrounds.create_adopted_playground(
                user, parent.attempted_revision, earlier, seed=parent.seed, now=parent.now, validation=validation
            )
            PlaygroundFork.objects.create(playground=row, parent=parent, forked_at=step)
            write_audit_entry(user, "fork.begin", parent, step=step, playground=row.pk)
    except BaseException:
        episode.close()
        raise
    return row


def _repeat_parent_calls(
    episode: Episode, program: Program, point: ForkPoint, start: ForkStart
) -> list[playgrounds.MadeCall]:
    """Repeat the parent's calls in this episode and return them. Raises ReplayMismatch with the step, SandboxLost."""
    repeated_calls: list[playgrounds.MadeCall] = []
    digest = episode.state_hash()
    for row in point.rows:
        if not is_executed(row):
            continue
        arguments = row.arguments or {}
        result = playgrounds.find_refusal(program, row.tool, arguments) if point.parent.validation == "schema" else None
        if result is None:
            try:
                result = episode.call(row.tool, arguments)
            except ProgramEnded as error:
                result = CallResult(ok=False, error=CallError(kind="ended", message=str(error)))
        injected_result = replace_result(read_injection(row.injected), result)
        again = TrajectoryStep(
            kind="call", tool=row.tool, arguments=arguments, result=injected_result, by=to_stored_step(row).by
        )
        start.require(row.index, again)
        digest = episode.state_hash() if result.patch else digest
        repeated_calls.append(playgrounds.MadeCall(row.tool, arguments, result, digest))
    if len(repeated_calls) >= MOST_CALLS:
        raise InputError(f"A playground holds {MOST_CALLS} calls, and the parent made as many before this step.")
    start.require_state(len(point.rows), digest)
    return repeated_calls


def _list_following_calls(point: ForkPoint) -> list[dict[str, Any]]:
    """Return the parent's own calls from the fork on, for redo: the first can be changed, the others be made as they
    were."""
    rows = point.parent.steps.filter(index__gte=point.step).order_by("index")
    return [
        {"tool": row.tool, "arguments": row.arguments or {}, "validation": point.parent.validation}
        for row in rows[:MOST_CALLS]
        if is_executed(row) and row.by == CallBy.AGENT
    ]


def find_playground_fork(playground: Playground) -> PlaygroundFork | None:
    """Return the fork of a playground; None if the playground is only for trying tools."""
    rows = PlaygroundFork.objects.select_related("parent__revision__task", "parent__task")
    return rows.defer("parent__record", "parent__matrix").filter(playground=playground).first()


def finish_fork(user: Any, playground: Playground, serial: int, answer: str) -> Trajectory:
    """Store the playground's calls as an attempt: executed once more, judged, with its parent. `answer` are words, or
    for a task with an answer form the JSON object of its fields (`read_answer` makes it from texts).

    Raises ChangedMeanwhile (it continued elsewhere), Conflict (its outcome differs now), InputError and the errors of
    the sandbox.
    """
    fork, calls = _read_own_calls(playground, serial)
    answer = read_given_answer(fork.parent.attempted_revision, answer)
    hand = ByHand(user.username, calls, answer, _build_identity(playground, answer))
    return run_fork(load_parent(fork.parent_id), fork.forked_at, hand, user, playgrounds.get_state_hash(playground))


def start_finish_job(user: Any, playground: Playground, serial: int, answer: str) -> Job:
    """Queue the same as a job, for a judge that may take its time. Raises as `finish_fork` before the execution."""
    fork, calls = _read_own_calls(playground, serial)
    answer = read_given_answer(fork.parent.attempted_revision, answer)
    identity, expected = _build_identity(playground, answer), playgrounds.get_state_hash(playground)
    return _enqueue_fork(user, fork.parent_id, fork.forked_at, calls, answer, identity=identity, expected=expected)


def may_ask_judge(playground: Playground) -> bool:
    """Return whether a judge may have to decide what the fork of this playground earns."""
    fork = find_playground_fork(playground)
    if fork is None or find_default_model(LLMRole.JUDGE) is None:
        return False
    return needs_judge(fork.parent.attempted_revision)


def _read_own_calls(playground: Playground, serial: int) -> tuple[PlaygroundFork, tuple[ReferenceCall, ...]]:
    fork = find_playground_fork(playground)
    if fork is None:
        raise InputError("This playground is not a fork, so there is no task to verify. Its calls remain in it.")
    if playground.serial != serial:
        raise ChangedMeanwhile("This playground went on in another tab or window. Look at it again, then finish it.")
    rows = playground.calls.filter(index__gt=playground.kept).order_by("index")
    return fork, tuple(ReferenceCall(tool=row.tool, arguments=row.arguments) for row in rows)


def _build_identity(playground: Playground, answer: str) -> tuple[Any, ...]:
    return ("playground", playground.pk, playground.serial, answer)


def start_fork(user: Any, parent: Trajectory, step: int, calls: Sequence[ReferenceCall], answer: str) -> Job:
    """Queue a fork by hand of given calls. Raises InputError."""
    _require_agent_tools(require_manual_fork(parent, step), calls)
    if len(calls) > MOST_CALLS:
        raise InputError(f"A fork by hand makes at most {MOST_CALLS} calls; {len(calls)} were given.")
    return _enqueue_fork(user, parent.pk, step, calls, read_given_answer(parent.attempted_revision, answer))


def _enqueue_fork(user: Any, parent: int, step: int, calls: Sequence[ReferenceCall], answer: str, **more: Any) -> Job:
    payload = {"parent": parent, "step": step, "calls": [call.model_dump() for call in calls], "answer": answer}
    title = f"Fork of trajectory {parent} at step {step}, by hand"
    return enqueue_job("fork", title, payload | {"name": user.username} | more, user, subject=f"trajectory:{parent}")


def load_parent(pk: int) -> Trajectory:
    """Return a parent with the rows that its fork needs. Raises InputError."""
    rows = Trajectory.objects.select_related("task__environment", "revision__scenario__version").defer("matrix")
    row = rows.filter(pk=pk).first()
    if row is None:
        raise InputError(f"Trajectory {pk}, which was to be forked, is gone.")
    return row


def run_fork(parent: Trajectory, step: int, hand: ByHand, user: Any, expected: str = "") -> Trajectory:
    """Make the parent's turns again, then those of a person, judge the end and store it.

    `expected` is the hash of the state that the person saw at the end. Raises Conflict if the execution differs,
    InputError, SandboxUnavailable and SandboxLost; nothing is stored then.
    """
    point = require_manual_fork(parent, step)
    _require_agent_tools(point, hand.calls)
    task = build_rollout_task(parent.attempted_revision)
    judge = find_site_judge() if task.asks_judge else None
    attempt, start = async_to_sync(_run_attempt)(point, point.task(task), point.start(), hand, judge)
    if attempt.outcome in ("infra_error", "cancelled"):
        raise _build_refusal(attempt)
    if expected and attempt.final_hash and attempt.final_hash != expected:
        raise Conflict(
            "Executing the calls again ends in another state than the one in the playground, so the fork was not kept."
        )
    row = store_finished_attempt(
        attempt,
        parent.attempted_revision,
        start,
        SOURCE,
        [parent.pk, step, *hand.identity],
        _build_provenance(attempt, hand),
        fork=(parent, step),
    )
    if row.final_hash:
        compute_small_matrix(get_default_sandbox(), row)
    write_audit_entry(user, "fork.finish", row, parent=parent.pk, step=step)
    return row


def _build_refusal(attempt: Attempt) -> Exception:
    if attempt.sandbox_lost:
        return InfrastructureError(f"The sandbox failed: {attempt.note} The fork was not kept; try again.")
    return Conflict(clean_text(attempt.note) or "The fork could not be carried out, and nothing says why.")


async def _run_attempt(
    point: ForkPoint, task: RolloutTask, start: ForkStart, hand: ByHand, judge: tuple[llm.Endpoint, str] | None
) -> tuple[Attempt, State]:
    """Return the attempt, and the state that its episode began in."""
    before = len(point.turns)
    policy = ByHandPolicy(f"{hand.name}, by hand", hand.calls, hand.answer, before)
    most = min(before + len(hand.calls) + 2, 1_000)
    setting = point.setting(max_turns=most, max_unusable=1_000, deadline_s=DEADLINE_S)
    states: list[State] = []

    async def on_start(plan: Plan, state: State) -> None:
        states.append(state)

    async with contextlib.AsyncExitStack() as stack:
        judge_model = None
        if judge is not None:
            judge_model = (await stack.enter_async_context(open_connection(judge[0]))).chat(judge[1])
        plan = Plan(task, policy, setting, point.build_user(), judge=judge_model, fork=start)
        attempts = [one async for one in run_attempts(get_default_sandbox(), [plan], at_once=1, on_start=on_start)]
    return attempts[0], states[0] if states else {}


def _build_provenance(attempt: Attempt, hand: ByHand) -> dict[str, Any]:
    return {
        "by_hand": hand.name,
        "ending": attempt.ending,
        "prompt_style": attempt.prompt_style,
        "user": attempt.user,
        "prompts": attempt.prompts,
        "usage": attempt.usage.model_dump(),
        "judge_usage": attempt.judge_usage.model_dump(),
    }

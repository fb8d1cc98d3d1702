"""Attempts at the tasks of a dataset, through the one loop of `synthesis.rollout`, with the tokens of each attempt."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from synthesis.contracts import Attempt
from synthesis.errors import InputError
from synthesis.llm import AskedModel, ChatModel, open_role_model
from synthesis.rollout import AttemptSetting, Plan, SimulatedUser, User, build_attempt_seed, run_attempts
from synthesis.runtime import Sandbox
from training.config import Attempts, Decoding, Thinking
from training.dataset import TaskRow
from training.policy import EngineSource, GenerationEngine, Renderings, TokenPolicy, Trace
from training.templates import Tokenizer
from training.turn_policy import TurnPolicy

POLL_S = 0.1


@dataclass(frozen=True)
class TaskAttempt:
    """One attempt. `group` names its task and setting; `ordinal` counts the attempts at it within a step."""

    row: TaskRow
    ordinal: int
    attempt: Attempt
    trace: Trace

    @property
    def group(self) -> str:
        return f"{self.row.setting}:{self.row.id}"


@dataclass(frozen=True)
class Try:
    """An attempt to be made. `seed`, the row and `ordinal` decide its draws."""

    row: TaskRow
    ordinal: int
    turns: int
    seed: str


@dataclass(frozen=True)
class Table:
    """Everything attempts need besides tasks: the sandbox, the tokenizer, limits, the model that plays the user, and
    the judge of rubrics.

    `stopped` is called ten times a second; once it returns True, attempts under way end as `cancelled`. `half`: the
    model computes in bf16. `engine` draws the tokens, if not the model itself. With `thinking` stripped, turns are
    drawn after histories without earlier reasoning. `judges_user`: the judge is asked whether simulated users erred.
    `seed`, the job's, decides with row and ordinal which calls are disturbed, in every step and at every horizon alike.
    """

    sandbox: Sandbox
    tokenizer: Tokenizer
    limits: Attempts
    user: AskedModel | None = None
    judge: AskedModel | None = None
    stopped: Callable[[], bool] = lambda: False
    half: bool = False
    engine: EngineSource | None = None
    thinking: Thinking = "kept"
    judges_user: bool = False
    seed: int = 0


def make_attempts(
    table: Table,
    engine: GenerationEngine,
    tasks: Sequence[tuple[TaskRow, int]],
    *,
    turns: int,
    decoding: Decoding,
    seed: str,
) -> list[TaskAttempt]:
    """Return attempts at (row, ordinal) in the given order, at most `limits.at_once` at a time; none is missing. Each
    attempt continues when its own turn is done, and the next one begins when one has ended: there is no barrier.

    Attempts that were never begun, because the job was stopped, are left out. `seed` and (row, ordinal) decide the
    draws. Raises InputError: a conversation without a model for the user, or a rubric without a judge.
    """
    attempts: dict[int, TaskAttempt] = {}
    stream_attempts(
        table, engine, [Try(row, number, turns, seed) for row, number in tasks], decoding, attempts.__setitem__
    )
    return [attempts[place] for place in sorted(attempts)]


def stream_attempts(
    table: Table,
    engine: GenerationEngine,
    work: Sequence[Try],
    decoding: Decoding,
    done: Callable[[int, TaskAttempt], None],
    begins: Callable[[int], bool] = lambda place: True,
) -> None:
    """Make attempts as `make_attempts` does and pass each to `done` (its place in the work, the attempt) when it has
    ended.

    `begins` is called before each attempt, in the order of the work; once it returns False, no further attempt is
    begun. An exception of `done` ends all attempts. Raises as `make_attempts`.
    """
    require_roles(work, table.user, table.judge, table.judges_user)
    with _freeze_old_objects():
        asyncio.run(_stream_attempts(table, engine, work, decoding, done, begins))


@contextlib.contextmanager
def _freeze_old_objects() -> Iterator[None]:
    """Exclude existing objects from garbage collection in the block: with torch imported one collection takes a quarter
    of a second, in which no attempt continues.
    """
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


async def _stream_attempts(
    table: Table,
    engine: GenerationEngine,
    work: Sequence[Try],
    decoding: Decoding,
    done: Callable[[int, TaskAttempt], None],
    begins: Callable[[int], bool],
) -> None:
    renderings = Renderings(table.tokenizer)
    kind = TurnPolicy if table.thinking == "stripped" else TokenPolicy
    policies: dict[int, TokenPolicy] = {}
    stop = asyncio.Event()
    talks = any(one.row.setting == "conversation" for one in work)
    needs_judge = any(one.row.rollout.asks_judge for one in work) or (talks and table.judges_user)
    role_models = table.user if talks else None, table.judge if needs_judge else None
    async with engine.open(), open_role_model(role_models[0]) as player, open_role_model(role_models[1]) as judge:

        def iterate_plans() -> Iterator[Plan]:
            for place, work_item in enumerate(work):
                if not begins(place):
                    return
                seed = f"{work_item.seed}:{work_item.row.id}:{work_item.ordinal}"
                policies[place] = kind(engine, table.tokenizer, decoding, seed, renderings)
                # Attempts return by their place in the work; the ordinal within the task is restored below.
                yield Plan(
                    work_item.row.rollout,
                    policies[place],
                    build_attempt_setting(table.limits, work_item, table.judges_user),
                    make_simulated_user(table.limits, work_item.row, player, table.user),
                    ordinal=place,
                    judge=judge,
                    disturbance_seed=build_attempt_seed(table.seed, work_item.row.id, work_item.ordinal),
                )

        watch = asyncio.create_task(_watch_stop(table.stopped, stop))
        try:
            async with contextlib.aclosing(
                run_attempts(table.sandbox, iterate_plans(), at_once=table.limits.at_once, stop=stop)
            ) as attempts:
                async for attempt in attempts:
                    place, work_item = attempt.ordinal, work[attempt.ordinal]
                    ordered_attempt = attempt.model_copy(update={"ordinal": work_item.ordinal})
                    done(
                        place, TaskAttempt(work_item.row, work_item.ordinal, ordered_attempt, policies.pop(place).trace)
                    )
        finally:
            watch.cancel()


def require_roles(work: Sequence[Try], user: AskedModel | None, judge: AskedModel | None, judges_user: bool) -> None:
    """Raise InputError if no model plays a role that the attempts need."""
    talks = any(one.row.setting == "conversation" for one in work)
    if any(one.row.rollout.asks_judge for one in work) and judge is None:
        raise InputError("judge: tasks that are judged by a rubric need a model that judges; name one")
    if talks and user is None:
        raise InputError("user: tasks in the setting `conversation` need a model that plays the user; name one")
    if talks and judges_user and judge is None:
        raise InputError(
            "judge: whether simulated users erred is to be judged (masking.meu, attempts.judges_user); name a model "
            "that judges, or turn both off"
        )


def build_attempt_setting(limits: Attempts, one: Try, judges_user: bool) -> AttemptSetting:
    """Return the rollout setting of a try."""
    talks = one.row.setting == "conversation"
    return AttemptSetting(
        conversational=talks,
        user_tools=tuple(tool.name for tool in one.row.rollout.pick_tools(limits.user_tools)) if talks else (),
        max_turns=one.turns,
        deadline_s=limits.deadline_s,
        max_unusable=limits.unusable,
        max_answer_mends=limits.answer_mends,
        judges_user=judges_user,
        disturbance=limits.disturbance,
    )


async def _watch_stop(stopped: Callable[[], bool], stop: asyncio.Event) -> None:
    while not stopped():
        await asyncio.sleep(POLL_S)
    stop.set()


def make_simulated_user(
    limits: Attempts, row: TaskRow, player: ChatModel | None, role: AskedModel | None
) -> User | None:
    """Return the user of a conversation, or None for a task without one."""
    if row.setting != "conversation" or player is None or role is None:
        return None
    tools = row.rollout.pick_tools(limits.user_tools)
    return SimulatedUser(player, row.rollout.instruction, limits.user, tools, temperature=role.temperature)


def list_tries(rows: Iterable[TaskRow], each: int) -> list[tuple[TaskRow, int]]:
    """Return each row `each` times, side by side, numbered from 0."""
    return [(row, number) for row in rows for number in range(each)]

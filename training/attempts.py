"""Attempts at the dataset's tasks, through the one loop of `synthesis.rollout`, with the tokens each is made of."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from synthesis.contracts import Attempt
from synthesis.errors import InputError
from synthesis.llm import AskedModel, ChatModel, connected
from synthesis.rollout import AttemptSetting, Plan, SimulatedUser, User, attempt_seed, run_attempts
from synthesis.runtime import Sandbox
from training.config import Attempts, Decoding, Thinking
from training.dataset import TaskRow
from training.policy import EngineSource, GenerationEngine, Renderings, TokenPolicy, Trace
from training.templates import Tokenizer
from training.turn_policy import TurnPolicy

POLL_S = 0.1


@dataclass(frozen=True)
class TaskAttempt:
    """One attempt. `group` names task and setting; `ordinal` counts the attempts at it within a step."""

    row: TaskRow
    ordinal: int
    attempt: Attempt
    trace: Trace

    @property
    def group(self) -> str:
        return f"{self.row.setting}:{self.row.id}"


@dataclass(frozen=True)
class Try:
    """An attempt that is to be made. `seed`, the row and `ordinal` decide its draws."""

    row: TaskRow
    ordinal: int
    turns: int
    seed: str


@dataclass(frozen=True)
class Table:
    """What attempts need beside tasks: the sandbox their tools run in, the tokenizer, limits, who plays the user, and
    who judges the facts of rubrics.

    `stopped` is asked ten times a second; when it says yes, attempts under way end as `cancelled`. `half`: the model
    computes in bf16. `engine` draws the tokens, if not the model itself. With `thinking` stripped turns are drawn
    behind histories without earlier reasoning. `judges_user`: the judge is asked whether simulated users erred. `seed`,
    the job's, decides with row and ordinal which calls are disturbed, in every step and at every horizon alike.
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


def run(
    table: Table,
    engine: GenerationEngine,
    tasks: Sequence[tuple[TaskRow, int]],
    *,
    turns: int,
    decoding: Decoding,
    seed: str,
) -> list[TaskAttempt]:
    """Attempts at (row, ordinal) in their order, at most `limits.at_once` at a time; none is missing. Each goes on when
    its own turn is done, and the next one begins when one has ended: nobody waits for the others.

    One that was never begun, since the job was stopped, is left out. `seed` and (row, ordinal) decide the draws.
    Raises InputError: a conversation and nobody plays the user, or a rubric and nobody judges.
    """
    done: dict[int, TaskAttempt] = {}
    flow(table, engine, [Try(row, number, turns, seed) for row, number in tasks], decoding, done.__setitem__)
    return [done[place] for place in sorted(done)]


def flow(
    table: Table,
    engine: GenerationEngine,
    work: Sequence[Try],
    decoding: Decoding,
    done: Callable[[int, TaskAttempt], None],
    begins: Callable[[int], bool] = lambda place: True,
) -> None:
    """Make attempts as `run` does and hand each over (its place in the work, the attempt) when it has ended.

    `begins` is asked before each one, in the work's order; once it says no, none is begun any more. What `done` raises
    ends all. Raises as `run`.
    """
    require_roles(work, table.user, table.judge, table.judges_user)
    with _without_old_garbage():
        asyncio.run(_flow(table, engine, work, decoding, done, begins))


@contextlib.contextmanager
def _without_old_garbage() -> Iterator[None]:
    """For the block, what lives already is not looked through for garbage: with torch imported one look takes a
    quarter of a second, in which no attempt goes on."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


async def _flow(
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
    judged = any(one.row.rollout.asks_judge for one in work) or (talks and table.judges_user)
    asked = table.user if talks else None, table.judge if judged else None
    async with engine.open(), connected(asked[0]) as player, connected(asked[1]) as judge:

        def plans() -> Iterator[Plan]:
            for place, one in enumerate(work):
                if not begins(place):
                    return
                seed = f"{one.seed}:{one.row.id}:{one.ordinal}"
                policies[place] = kind(engine, table.tokenizer, decoding, seed, renderings)
                # The attempt comes back under its place; which try at the task it is stands beside it.
                yield Plan(
                    one.row.rollout,
                    policies[place],
                    attempt_setting(table.limits, one, table.judges_user),
                    simulated_user(table.limits, one.row, player, table.user),
                    ordinal=place,
                    judge=judge,
                    disturbance_seed=attempt_seed(table.seed, one.row.id, one.ordinal),
                )

        watch = asyncio.create_task(_watch(table.stopped, stop))
        try:
            async with contextlib.aclosing(
                run_attempts(table.sandbox, plans(), at_once=table.limits.at_once, stop=stop)
            ) as made:
                async for attempt in made:
                    place, one = attempt.ordinal, work[attempt.ordinal]
                    told = attempt.model_copy(update={"ordinal": one.ordinal})
                    done(place, TaskAttempt(one.row, one.ordinal, told, policies.pop(place).trace))
        finally:
            watch.cancel()


def require_roles(work: Sequence[Try], user: AskedModel | None, judge: AskedModel | None, judges_user: bool) -> None:
    """Raises InputError: nobody plays a role that the attempts need."""
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


def attempt_setting(limits: Attempts, one: Try, judges_user: bool) -> AttemptSetting:
    """How a try is carried out."""
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


async def _watch(stopped: Callable[[], bool], stop: asyncio.Event) -> None:
    while not stopped():
        await asyncio.sleep(POLL_S)
    stop.set()


def simulated_user(limits: Attempts, row: TaskRow, player: ChatModel | None, role: AskedModel | None) -> User | None:
    """The user of a conversation; None for a task without one."""
    if row.setting != "conversation" or player is None or role is None:
        return None
    tools = row.rollout.pick_tools(limits.user_tools)
    return SimulatedUser(player, row.rollout.instruction, limits.user, tools, temperature=role.temperature)


def tries(rows: Iterable[TaskRow], each: int) -> list[tuple[TaskRow, int]]:
    """Each row `each` times, side by side, numbered from 0."""
    return [(row, number) for row in rows for number in range(each)]

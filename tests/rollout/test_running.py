"""Many attempts at once: what one loses, the others do not notice; what is stopped, stops."""

from __future__ import annotations

import asyncio
import gc
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from synthesis.collector import RARELY
from synthesis.contracts import Attempt, Limits, Message, State, ToolCall, TrajectoryStep, Turn, Verdict
from synthesis.rollout import AttemptSetting, Conversation, Plan, ReferencePolicy, attempt_pool, run_attempts
from synthesis.rollout.shared_verdicts import SharedVerdicts
from synthesis.runtime import Sandbox
from tests.fixtures.llm import DROP, Request, Scripted, call, html, llm_server, message, refuse, say
from tests.rollout.support import REFERENCE, chat_attempts, gather, task


class Calls:
    """Makes the same call for ever, with a pause before each."""

    name = "calls"

    def __init__(self, tool: str, seconds: float = 0.0) -> None:
        self.tool = tool
        self.seconds = seconds

    async def act(self, observation: Conversation) -> Turn:
        await asyncio.sleep(self.seconds)
        return Turn(message=Message(role="assistant", tool_calls=(ToolCall(name=self.tool),)))


class Broken:
    name = "broken"

    async def act(self, observation: Conversation) -> Turn:
        raise ZeroDivisionError


def plans(count: int) -> list[Plan]:
    return [Plan(task(), ReferencePolicy(REFERENCE), ordinal=n) for n in range(count)]


@pytest.mark.parametrize("at_once", [1, 3, 16])
def test_every_attempt_is_made_once_whatever_the_number_at_once(sandbox: Sandbox, at_once: int) -> None:
    made = gather(sandbox, plans(20), at_once=at_once)
    assert sorted(one.ordinal for one in made) == list(range(20))
    assert {one.outcome for one in made} == {"solved"}


def test_no_more_attempts_act_at_once_than_asked_and_plans_are_read_as_they_start(sandbox: Sandbox) -> None:
    read: list[int] = []
    acting: set[int] = set()
    most = 0

    def lazily() -> Iterator[Plan]:
        for plan in plans(12):
            read.append(plan.ordinal)
            yield plan

    async def started(plan: Plan, state: State) -> None:
        nonlocal most
        acting.add(plan.ordinal)
        most = max(most, len(acting))

    async def run() -> None:
        ended = 0
        made = run_attempts(
            sandbox, lazily(), at_once=3, on_start=started, on_acted=lambda plan: acting.discard(plan.ordinal)
        )
        async for _ in made:
            ended += 1
            # Three that act, and at most three that are verified or wait here.
            assert len(read) - ended <= 6

    asyncio.run(run())
    assert most <= 3
    assert len(read) == 12


def test_an_attempt_that_is_verified_makes_room_for_the_next(sandbox: Sandbox) -> None:
    """One place: the second attempt has acted before the first one's verification ends."""
    order: list[str] = []
    go_on = threading.Event()

    class HeldVerdicts(SharedVerdicts):
        def evaluate_checks(self, *given: Any, **rest: Any) -> list[Verdict]:
            assert go_on.wait(20), "no other attempt acted while this one was verified"
            return super().evaluate_checks(*given, **rest)

    def acted(plan: Plan) -> None:
        order.append(f"acted {plan.ordinal}")
        if plan.ordinal == 1:
            go_on.set()

    async def run() -> None:
        async for made in run_attempts(sandbox, plans(3), at_once=1, on_acted=acted):
            order.append(f"ended {made.ordinal}")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attempt_pool, "SharedVerdicts", HeldVerdicts)
        asyncio.run(run())
    assert order.index("acted 1") < order.index("ended 0")


def test_the_first_turn_is_drawn_while_the_episode_begins(sandbox: Sandbox) -> None:
    asked = asyncio.Event()

    class Asked(ReferencePolicy):
        async def act(self, observation: Conversation) -> Turn:
            asked.set()
            return await super().act(observation)

    async def started(plan: Plan, state: State) -> None:
        await asyncio.wait_for(asked.wait(), 20)

    (made,) = gather(sandbox, [Plan(task(), Asked(REFERENCE))], on_start=started)
    assert made.outcome == "solved"


def test_where_a_program_cannot_begin_nobody_waits_for_the_turn(sandbox: Sandbox) -> None:
    whole = task()
    broken = whole.program.source.replace("self.log = []", "raise RuntimeError('no shelf')")
    given = whole.model_copy(update={"program": whole.program.model_copy(update={"source": broken})})
    (made,) = gather(sandbox, [Plan(given, Calls("burn", seconds=60.0))])
    assert (made.ending, made.reward, made.turns) == ("program_ended", None, ())
    assert "no shelf" in made.note


def test_steps_are_told_in_their_order_with_the_state_they_start_from(sandbox: Sandbox) -> None:
    told: dict[int, list[TrajectoryStep]] = {}
    states: dict[int, State] = {}

    async def started(plan: Plan, state: State) -> None:
        await asyncio.sleep(0.05)  # the first turn is there before
        states[plan.ordinal] = state

    async def stepped(plan: Plan, step: TrajectoryStep) -> None:
        assert plan.ordinal in states
        told.setdefault(plan.ordinal, []).append(step)

    made = gather(sandbox, plans(5), on_start=started, on_step=stepped)
    assert {one.ordinal: list(one.steps) for one in made} == told
    assert states[0]["boxes"]["B-1"] == {"owner": "Ada", "open": False}


def test_what_a_callback_raises_ends_the_run_and_comes_out(sandbox: Sandbox) -> None:
    async def stepped(plan: Plan, step: TrajectoryStep) -> None:
        if plan.ordinal == 2:
            raise PermissionError("the claim is gone")

    with pytest.raises(PermissionError, match="the claim is gone"):
        gather(sandbox, plans(6), on_step=stepped)


def test_a_fault_in_a_policy_is_not_taken_for_an_attempt(sandbox: Sandbox) -> None:
    with pytest.raises(ZeroDivisionError):
        gather(sandbox, [Plan(task(), Broken()), *plans(3)])


def test_one_attempts_lost_sandbox_leaves_its_neighbours_alone() -> None:
    short = Sandbox(limits=Limits(memory_mib=128, call_seconds=0.3))
    try:
        made = gather(short, [Plan(task(key="hangs"), Calls("think")), *plans(4)])
    finally:
        short.close()
    by_key = {one.key: one for one in made if one.key == "hangs"}
    assert by_key["hangs"].outcome == "program_error"
    assert by_key["hangs"].reward is None
    assert "time" in by_key["hangs"].note
    assert [one.outcome for one in made if one.key != "hangs"] == ["solved"] * 4


@pytest.mark.kill
def test_a_child_killed_from_outside_in_mid_episode_costs_nothing(sandbox: Sandbox) -> None:
    """SIGKILL once, while four other attempts go on: its calls are made again in a fresh process."""
    killed: list[int] = []

    async def stepped(plan: Plan, step: TrajectoryStep) -> None:
        if plan.task.key == "victim" and step.kind == "call" and not killed:
            # Through the child's own handle: its number counts inside the sandbox's namespace alone.
            for link in [link for link in sandbox._links if link.lost is None and link.number == 3]:
                signal.pidfd_send_signal(link.child.handle, signal.SIGKILL)
                killed.append(link.child.pid)

    victim = Plan(task(key="victim"), Calls("burn", 0.05), AttemptSetting(max_turns=4))
    waiting = [Plan(task(key="waits"), Calls("burn", 1.0), AttemptSetting(max_turns=2), ordinal=n) for n in range(4)]
    made = gather(sandbox, [victim, *waiting], on_step=stepped)
    assert killed
    went_on = next(one for one in made if one.key == "victim")
    assert (went_on.outcome, went_on.ending, len(went_on.steps)) == ("truncated", "turn_limit", 5)
    assert [one.outcome for one in made if one.key == "waits"] == ["truncated"] * 4
    assert gather(sandbox, plans(1))[0].outcome == "solved", "the sandbox goes on"


@pytest.mark.kill
def test_a_killed_zygote_costs_no_running_attempt_more_than_itself(sandbox: Sandbox) -> None:
    async def stepped(plan: Plan, step: TrajectoryStep) -> None:
        zygote = sandbox._pool.zygote
        if plan.ordinal == 0 and step.tool == "find_box" and zygote is not None:
            zygote.process.kill()

    made = gather(sandbox, plans(4), at_once=2, on_step=stepped)
    assert len(made) == 4
    assert all(one.reward is None for one in made if one.outcome != "solved")
    assert {one.outcome for one in made} <= {"solved", "infra_error"}
    assert [one.outcome for one in gather(sandbox, plans(2))] == ["solved"] * 2


@pytest.mark.parametrize("reply", [refuse(500, "down"), DROP, html(), refuse(401, "no")])
def test_a_lost_llm_is_never_a_reward_of_0(sandbox: Sandbox, reply: Scripted) -> None:
    def script(request: Request) -> Scripted:
        return reply if len(request["messages"]) > 2 else call("open_box", box_id="B-1")

    with llm_server(script) as server:
        (made,) = chat_attempts(sandbox, server.url)
    assert (made.outcome, made.reward, made.final_hash) == ("infra_error", None, "")
    assert [step.tool for step in made.steps] == ["", "open_box"]
    assert (made.usage.requests, made.usage.lost) == (2, 1)
    assert "endpoint scripted" in made.note
    assert "sk-secret" not in made.model_dump_json()


def test_one_attempts_lost_llm_leaves_its_neighbours_alone(sandbox: Sandbox) -> None:
    def script(request: Request) -> Scripted:
        turns = len([item for item in request["messages"] if item["role"] == "assistant"])
        if request["_number"] == 0:
            return refuse(500, "down")
        return [call("open_box", box_id="B-1"), say("Open.")][min(turns, 1)]

    with llm_server(script) as server:
        made = chat_attempts(sandbox, server.url, count=6)
    assert sorted(one.outcome for one in made) == ["infra_error"] + ["solved"] * 5


def test_an_attempt_past_its_deadline_is_no_failure_of_the_agent(sandbox: Sandbox) -> None:
    with llm_server([message("late", seconds=20)]) as server:
        (made,) = chat_attempts(sandbox, server.url, setting=AttemptSetting(deadline_s=0.3))
    assert (made.outcome, made.reward) == ("infra_error", None)
    assert "0.3 seconds" in made.note


def alive(sandbox: Sandbox) -> int:
    return len([link for link in sandbox._links if link.lost is None])


def test_stop_ends_what_runs_as_cancelled_and_starts_no_more(sandbox: Sandbox) -> None:
    async def run() -> list[Attempt]:
        stop = asyncio.Event()
        steps = 0

        async def stepped(plan: Plan, step: TrajectoryStep) -> None:
            nonlocal steps
            steps += step.kind == "call"
            if steps >= 6:
                stop.set()

        endless = (Plan(task(), Calls("burn", 0.02), ordinal=n) for n in range(100))
        return [one async for one in run_attempts(sandbox, endless, at_once=3, on_step=stepped, stop=stop)]

    made = asyncio.run(run())
    assert 1 <= len(made) <= 3
    assert {(one.outcome, one.reward) for one in made} == {("cancelled", None)}
    assert all(one.steps for one in made)
    assert alive(sandbox) == 0


def test_a_finished_attempt_keeps_its_reward_when_the_rest_is_stopped(sandbox: Sandbox) -> None:
    async def run() -> list[Attempt]:
        stop = asyncio.Event()
        made = []
        todo = [*plans(1), Plan(task(key="endless"), Calls("burn", 0.05))]
        async for one in run_attempts(sandbox, todo, stop=stop):
            made.append(one)
            stop.set()
        return made

    made = asyncio.run(run())
    assert [one.outcome for one in made] == ["solved", "cancelled"]


def test_leaving_the_loop_kills_every_episode(sandbox: Sandbox) -> None:
    async def run() -> None:
        endless = [Plan(task(), Calls("burn", 0.02), ordinal=n) for n in range(4)]
        running = run_attempts(sandbox, [*plans(1), *endless], at_once=8)
        async for _ in running:
            break
        await running.aclose()

    asyncio.run(run())
    until = time.monotonic() + 5
    while alive(sandbox) and time.monotonic() < until:
        # One that a thread was just making is closed by that thread.
        time.sleep(0.02)
    assert alive(sandbox) == 0


def test_a_call_that_hangs_is_killed_at_once_when_stopped(sandbox: Sandbox) -> None:
    async def run() -> list[Attempt]:
        stop = asyncio.Event()
        asyncio.get_running_loop().call_later(0.3, stop.set)
        return [one async for one in run_attempts(sandbox, [Plan(task(), Calls("think"))], stop=stop)]

    (made,) = asyncio.run(run())
    assert made.outcome == "cancelled"
    assert alive(sandbox) == 0


def test_a_program_that_does_not_start_is_named_and_judged_by_nobody(sandbox: Sandbox) -> None:
    broken = task().program.model_copy(update={"source": "class Shelf:\n    def __init__(self, c):\n        1 / 0"})
    (made,) = gather(sandbox, [Plan(task(program=broken), ReferencePolicy(REFERENCE))])
    assert (made.outcome, made.reward) == ("program_error", None)
    assert "division by zero" in made.note


def test_a_task_without_checks_is_judged_by_nobody(sandbox: Sandbox) -> None:
    (made,) = gather(sandbox, [Plan(task(checks=()), ReferencePolicy(REFERENCE))])
    assert (made.outcome, made.reward) == ("infra_error", None)
    assert "check" in made.note


def test_the_collector_is_as_before_once_all_attempts_have_ended(sandbox: Sandbox) -> None:
    before, during = gc.get_threshold(), set()

    async def stepped(plan: Plan, step: TrajectoryStep) -> None:
        during.add(gc.get_threshold())

    gather(sandbox, plans(4), at_once=2, on_step=stepped)
    assert during == {RARELY}
    assert gc.get_threshold() == before

"""Requests that wait at an endpoint: the longest chain first, equal ones as they came, and no turn is lost."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from synthesis.contracts import Message
from synthesis.llm import Reply
from synthesis.llm.asker import Asker
from synthesis.llm.calls import StageCall
from synthesis.llm.store import MemoryStore
from synthesis.llm.turn_gate import UNKNOWN, TurnGate, expecting_calls
from synthesis.runtime import get_default_sandbox
from synthesis.stages import Kit
from tests.llm_layer.support import said, site


async def take_turns(gate: TurnGate, ahead: dict[str, int | None], cancelled: tuple[str, ...] = ()) -> list[str]:
    """Let these requests wait behind one that holds the only turn; return the order in which they had theirs."""
    served: list[str] = []

    async def request(name: str, calls: int | None) -> None:
        with contextlib.nullcontext() if calls is None else expecting_calls(calls):
            async with gate.turn():
                served.append(name)
                await asyncio.sleep(0)

    async with gate.turn():
        tasks = {name: asyncio.create_task(request(name, calls)) for name, calls in ahead.items()}
        await asyncio.sleep(0)
        for name in cancelled:
            tasks[name].cancel()
    await asyncio.wait_for(asyncio.gather(*tasks.values(), return_exceptions=True), 5)
    return served


def test_the_longest_chain_goes_first_and_equal_ones_as_they_came() -> None:
    served = asyncio.run(take_turns(TurnGate(1), {"a": 2, "b": 12, "c": None, "d": 12, "e": 0, "f": None}))
    assert served == ["c", "f", "b", "d", "a", "e"]


def test_a_request_that_is_cancelled_takes_no_turn_with_it() -> None:
    async def run() -> list[str]:
        gate = TurnGate(1)
        served = await take_turns(gate, {"a": 3, "b": 2, "c": 1}, cancelled=("a", "c"))
        async with asyncio.timeout(5), gate.turn():
            return served

    assert asyncio.run(run()) == ["b"]


def test_a_turn_that_is_handed_over_and_not_used_goes_to_the_next() -> None:
    """The one whose turn it became is cancelled before it could run."""

    async def run() -> bool:
        gate, reached = TurnGate(1), asyncio.Event()

        async def wait(event: asyncio.Event | None) -> None:
            async with gate.turn():
                if event is not None:
                    event.set()

        async with gate.turn():
            first = asyncio.create_task(wait(None))
            second = asyncio.create_task(wait(reached))
            await asyncio.sleep(0)
        first.cancel()  # it has the turn, and has not run since
        await asyncio.wait_for(asyncio.gather(first, second, return_exceptions=True), 5)
        return reached.is_set()

    assert asyncio.run(run())


def test_no_more_than_its_size_are_inside() -> None:
    async def run() -> int:
        gate, inside, most = TurnGate(3), 0, 0

        async def enter(ahead: int) -> None:
            nonlocal inside, most
            with expecting_calls(ahead):
                async with gate.turn():
                    inside += 1
                    most = max(most, inside)
                    await asyncio.sleep(0)
                    inside -= 1

        await asyncio.gather(*(enter(number % 5) for number in range(40)))
        return most

    assert asyncio.run(run()) == 3


def test_an_attempt_has_one_call_less_ahead_of_it_with_each_turn() -> None:
    class Model:
        name = "m"

        async def answer(self, call: StageCall) -> Reply:
            ahead.append(call.calls_ahead)
            return said("Go on.")

    ahead: list[int] = []
    chat = Asker({"author": Model()}, MemoryStore()).chat(site(), calls_ahead=2)
    messages = [Message(role="user", content="Begin.")]
    for _ in range(4):
        messages.append(asyncio.run(chat.complete(messages)).message)
    assert ahead == [2, 1, 0, 0]
    ahead.clear()
    unknown = Asker({"author": Model()}, MemoryStore()).chat(site())
    for count in (1, 3):
        asyncio.run(unknown.complete(messages[:count]))
    assert ahead == [UNKNOWN, UNKNOWN], "it does not fall behind those that began after it"
    plain = StageCall(site=site(), messages=(messages[0],))
    estimated = StageCall(site=site(), messages=(messages[0],), calls_ahead=2)
    assert plain.key("m") == estimated.key("m"), "a stored reply is found whatever was expected"


def test_audits_run_by_what_waits_for_them_and_one_on_each_processor() -> None:
    """A batch's tasks come to their audits at about the same time; the one before the longest chain goes first."""
    running, most, order = 0, 0, list[int]()
    lock = threading.Lock()

    def audit(ahead: int) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
            order.append(ahead)
        time.sleep(0.02)
        with lock:
            running -= 1

    async def run(kit: Kit) -> None:
        await asyncio.gather(*(kit.run_audit(ahead, audit, ahead) for ahead in (1, 5, 3, 9, 7, 2)))

    with ThreadPoolExecutor(8) as threads:
        asker = Asker({}, MemoryStore())
        asyncio.run(run(Kit(asker, get_default_sandbox(), "a", "a", threads, audits=TurnGate(1))))
        assert order == [1, 9, 7, 5, 3, 2]
        order.clear()
        processors = len(os.sched_getaffinity(0))
        asyncio.run(run(Kit(asker, get_default_sandbox(), "a", "a", threads)))
        assert sorted(order) == [1, 2, 3, 5, 7, 9]
        assert most == min(processors, 6)

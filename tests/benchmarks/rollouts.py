"""How many attempts a second the loop makes, and how little of their time the environment takes.

    python -m tests.benchmarks.rollouts --json [--latency 0.2] [--episodes 16] [--at 1 16 64]

A local OpenAI-compatible server, a process of its own, plays the bundled tasks' references as tool calls and takes
`--latency` seconds for each reply. The *ideal* is what that latency alone would allow: `of_ideal` compares both in one
run, and is therefore what to look at on a slow machine. Attempts are of 5 to 21 turns, so at the end some places stay
empty whatever the loop does: `of_ideal_without_cost` is what a loop that takes no time reaches with the same attempts
in the same order (0.62 with two for each of 64 places, 0.94 with sixteen). `processor_ms` is this process's processor
time a turn, with everything that a turn needs; `of_stock_client` divides it by what `openai`'s client alone takes in
this run to post first turns to the same server. `environment_share` is AutoForge's comparison (Table 3): seconds in the
environment over seconds in environment, agent and verification. Every attempt must earn its full reward, or there is no
figure. The last line of output is one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import functools
import heapq
import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import openai

from synthesis.contracts import Attempt, Reference, ReferenceCall
from synthesis.formats.answer_form import SUBMIT_ANSWER
from synthesis.llm import Endpoint
from synthesis.llm.client import connect_to_endpoint
from synthesis.llm.wire import build_request_tools
from synthesis.rollout import ChatPolicy, Plan, RolloutTask, format_documentation, run_attempts
from synthesis.runtime import Sandbox, encode_state, get_default_sandbox
from synthesis.starter import list_folders, read_environment, read_references, read_tasks
from synthesis.starter.record import build_program
from synthesis.verifiers.checks import mark_checks

LEAST_EPISODES = 8
POSTED = 500
"""Requests by the stock client."""


@functools.cache
def material() -> list[tuple[RolloutTask, Reference]]:
    """Every bundled task with its reference."""
    found = []
    for folder in list_folders():
        if not (folder / "references.json").is_file():
            continue
        about, known = read_environment(folder), read_references(folder)
        program = build_program(about)
        for task in read_tasks(folder):
            if task.key not in known:
                continue
            made = RolloutTask(
                key=task.key,
                program=program,
                initial=encode_state(task.initial_state),
                instruction=task.instruction,
                answer_form=task.answer_form,
                documentation=format_documentation(about.introduction, about.rules),
                verifier=task.verifier.model_copy(update={"frame": None}),
            )
            found.append((made, task.reference))
    return found


class Player:
    """The server: knows a task by its instruction and plays the call that is due."""

    def __init__(self, latency: float) -> None:
        self.latency = latency
        self.due = {task.instruction: _list_calls(known) for task, known in material()}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
                size = next(int(line[15:]) for line in head.splitlines() if line.startswith("content-length:"))
                body = json.loads(await reader.readexactly(size))
                await asyncio.sleep(self.latency)
                sent = json.dumps(self.reply(body["messages"])).encode()
                fields = f"content-type: application/json\r\ncontent-length: {len(sent)}\r\n\r\n"
                writer.write(f"HTTP/1.1 200 OK\r\n{fields}".encode() + sent)
        writer.close()

    def reply(self, messages: list[dict[str, Any]]) -> dict[str, Any]:
        known = self.due[messages[1]["content"]]
        turn = sum(message["role"] == "assistant" for message in messages)
        said: dict[str, Any] = {"role": "assistant", "content": "Done."}
        if turn < len(known):
            call = known[turn]
            function = {"name": call.tool, "arguments": json.dumps(call.arguments)}
            said = {"role": "assistant", "content": None}
            said["tool_calls"] = [{"id": f"call_{turn}", "type": "function", "function": function}]
        choice = {"index": 0, "finish_reason": "stop", "message": said}
        return {"object": "chat.completion", "model": "reference", "choices": [choice]}


def _list_calls(known: Reference) -> list[ReferenceCall]:
    """The calls of a reference, and behind them the one that submits its answer."""
    submitted = json.loads(known.answer) if known.answer else None
    last = [ReferenceCall(tool=SUBMIT_ANSWER, arguments=submitted)] if submitted is not None else []
    return [*known.calls, *last]


async def serve(latency: float) -> None:
    server = await asyncio.start_server(Player(latency).serve, "127.0.0.1", 0, limit=1 << 24, backlog=512)
    print(server.sockets[0].getsockname()[1], flush=True)
    # Ends with its parent, whose end of this pipe closes.
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


@contextlib.contextmanager
def player(latency: float) -> Iterator[str]:
    command = [sys.executable, "-m", "tests.benchmarks.rollouts", "--serve", str(latency)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
    finally:
        process.communicate()


@functools.cache
def prepared(sandbox: Sandbox) -> list[RolloutTask]:
    """The tasks with what each check is on the initial state, which the product keeps with a task."""
    found = []
    for task, _ in material():
        with sandbox.reset(task.program, task.initial, seed=task.seed, now=task.now) as episode:
            start = episode.state()
        sources = [check.source for check in task.verifier.checks]
        verifier = task.verifier.model_copy(update={"marks": tuple(mark_checks(sandbox, sources, start))})
        found.append(task.model_copy(update={"verifier": verifier}))
    return found


async def attempts(sandbox: Sandbox, url: str, count: int, at_once: int) -> tuple[list[Attempt], float]:
    """`count` attempts, spread over all bundled tasks, and the seconds they took together."""
    known = prepared(sandbox)
    endpoint = Endpoint(name="player", base_url=url, max_concurrency=at_once)
    async with connect_to_endpoint(endpoint) as connection:
        policy = ChatPolicy(connection.chat("reference"))
        plans = (Plan(known[number % len(known)], policy, ordinal=number) for number in range(count))
        started = time.perf_counter()
        made = [one async for one in run_attempts(sandbox, plans, at_once=at_once)]
        return made, time.perf_counter() - started


def processor_seconds() -> float:
    """Processor time of this process, without its children."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def post_by_stock_client(url: str, count: int, at_once: int) -> float:
    """Post the first turn of `count` attempts by `openai`'s own client; return its processor time a turn in ms."""
    tasks = [task for task, _ in material()]
    bodies = [
        {
            "model": "reference",
            "messages": [
                {"role": "system", "content": task.documentation},
                {"role": "user", "content": task.instruction},
            ],
            "tools": build_request_tools(task.program.tools),
        }
        for task in tasks
    ]
    gate = asyncio.Semaphore(at_once)
    async with openai.AsyncOpenAI(api_key="none", base_url=url, max_retries=0) as client:

        async def post(body: Any) -> None:
            async with gate:
                await client.chat.completions.create(**body)

        await post(bodies[0])
        started = processor_seconds()
        await asyncio.gather(*(post(bodies[number % len(bodies)]) for number in range(count)))
    return (processor_seconds() - started) / count * 1e3


def schedule(seconds: list[float], at_once: int) -> float:
    """Return the time that attempts of these lengths take if each starts in the first place that is free."""
    places = [0.0] * at_once
    for length in seconds:
        heapq.heapreplace(places, places[0] + length)
    return max(places)


def measure(sandbox: Sandbox, url: str, latency: float, episodes: int, at_once: int) -> dict[str, float]:
    count = max(LEAST_EPISODES, episodes * at_once)
    before = processor_seconds()
    made, seconds = asyncio.run(attempts(sandbox, url, count, at_once))
    spent = processor_seconds() - before
    unsolved = [f"{one.key}: {one.outcome} {one.note}" for one in made if one.outcome != "solved"]
    if unsolved:
        raise SystemExit(
            f"{len(unsolved)} of {count} attempts were not solved, so nothing was measured: {unsolved[:3]}"
        )
    parts = {
        "environment": sum(one.timing.environment_s for one in made),
        "agent": sum(one.timing.agent_s for one in made),
        "verification": sum(one.timing.verification_s for one in made),
    }
    waits = [len(one.turns) * latency for one in made]
    ideal = max(sum(waits) / at_once, max(waits))
    by_start = sorted(made, key=lambda one: one.ordinal)
    turns = sum(len(one.turns) for one in made)
    processor_ms = spent / turns * 1e3
    return {
        "episodes": count,
        "turns": turns / count,
        "processor_ms": processor_ms,
        "of_stock_client": processor_ms / asyncio.run(post_by_stock_client(url, min(turns, POSTED), at_once)),
        "episodes_per_s": count / seconds,
        "environment_share": parts["environment"] / sum(parts.values()),
        "verification_share": parts["verification"] / sum(parts.values()),
        "environment_ms": parts["environment"] / count * 1e3,
        "ideal_episodes_per_s": count / ideal,
        "of_ideal": ideal / seconds,
        "of_ideal_without_cost": ideal / schedule([len(one.turns) * latency for one in by_start], at_once),
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--latency", type=float, default=0.2)
    parser.add_argument("--episodes", type=int, default=16, help="attempts for each one at once")
    parser.add_argument("--at", type=int, nargs="+", default=[1, 16, 64])
    parser.add_argument("--serve", type=float, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve is not None:
        asyncio.run(serve(options.serve))
        return
    found: dict[str, Any] = {"latency_ms": options.latency * 1e3, "tasks": len(material())}
    sandbox = get_default_sandbox()
    found["mode"] = sandbox.report().mode
    with player(options.latency) as url:
        asyncio.run(attempts(sandbox, url, 2, 2))
        for at_once in options.at:
            for name, value in measure(sandbox, url, options.latency, options.episodes, at_once).items():
                found.setdefault(name, {})[str(at_once)] = round(value, 4)
    if not options.json:
        for name, value in found.items():
            print(f"{name:24} {value}")
    print(json.dumps(found))


if __name__ == "__main__":
    main()

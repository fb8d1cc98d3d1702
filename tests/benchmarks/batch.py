"""How well a batch uses the calls it may make at once, and what a lane's memory does meanwhile.

    python -m tests.benchmarks.batch --json [--items 200] [--at-once 64] [--latency 1.0] [--variant NAME]

A local OpenAI-compatible server, a process of its own, takes `--latency` seconds for each reply and may be asked
`--at-once` times at once. The batch has `--items` items, one theme and the scenarios below it; each asks five times in
a row in a short pipeline. The machine is the real one: calls are stored before they are used, drafts kept, rows saved.
`ideal_s` is what the latency alone would allow: the theme's calls in a row, as nothing can be done beside them, and
then the other calls x latency / at once. Whether the machine is up to it is measured in the same run: `floor_s` is what
the batch's own requests (as many, as large, as many at once, the theme's in a row first) take a bare HTTP client that
does nothing else, and `of_floor` compares the batch with that. `cpu_s` is this process's, `server_cpu_s` the server's.
With `--variant` the batch goes through the real pipeline of that variant, over bundled themes under many names: a first
run in this process records what the scripted provider replies and what each call waits for, then the server gives the
same replies to the same batch. `ratio_to_ideal` is `ideal_s` / `actual_s`, where `ideal_s` is what a machine needs for
these calls that knows the whole batch and takes no time itself: the list schedule by critical path. `bound_s` is a time
below which no schedule comes: the largest of d x latency + (calls deeper than d) x latency / at once over all d, where
a call's depth counts the calls that must end before it in its item and the items above, and itself. Programs, audits
and rows are in `actual_s` alone. Without a variant `ratio_to_ideal` is `efficiency`, whose ideal is the bound for rows
of calls.
A database of its own on the server of DATABASE_URL is made and dropped. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil

from synthesis.pipeline import PIPELINES
from tests.benchmarks.batch_parts.recording import Replies, label_requests
from tests.benchmarks.batch_parts.variants import VariantRun
from tests.benchmarks.databases import own_database

ROW = 5
"""Calls of an item, one after the other."""


async def serve(latency: float, recorded: str) -> None:
    replies = Replies(recorded) if recorded else None
    plain = {"role": "assistant", "content": json.dumps({"words": "Something that was said. " * 40})}

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
                size = next(int(line[15:]) for line in head.splitlines() if line.startswith("content-length:"))
                body = await reader.readexactly(size)
                began = time.perf_counter()
                said = replies.message(json.loads(body)) if replies is not None else plain
                await asyncio.sleep(latency - (time.perf_counter() - began))
                usage = {"prompt_tokens": 400, "completion_tokens": 200, "total_tokens": 600}
                finish = "tool_calls" if said.get("tool_calls") else "stop"
                choice = {"index": 0, "finish_reason": finish, "message": said}
                sent = json.dumps({"object": "chat.completion", "model": "m", "choices": [choice], "usage": usage})
                fields = f"content-type: application/json\r\ncontent-length: {len(sent)}\r\n\r\n"
                writer.write(f"HTTP/1.1 200 OK\r\n{fields}{sent}".encode())
        writer.close()

    server = await asyncio.start_server(one, "127.0.0.1", 0, limit=1 << 24, backlog=512)
    print(server.sockets[0].getsockname()[1], flush=True)
    # Ends with its parent, whose end of this pipe closes.
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


@contextlib.contextmanager
def server(latency: float, recorded: str = "") -> Iterator[tuple[str, psutil.Process]]:
    """Its address and its process. `recorded` is a file of replies."""
    command = [sys.executable, "-m", "tests.benchmarks.batch", "--serve", str(latency), "--recorded", recorded]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1", psutil.Process(process.pid)
    finally:
        process.communicate()


class Memory:
    """The resident memory of this process: when it was first working, and at most afterwards."""

    def __init__(self) -> None:
        self.process = psutil.Process()
        self.first = self.most = 0
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._look, daemon=True)

    def _look(self) -> None:
        while not self.ended.wait(0.2):
            self.most = max(self.most, self.process.memory_info().rss)

    def __enter__(self) -> Memory:
        self.first = self.most = self.process.memory_info().rss
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self.thread.join()

    @property
    def growth_mib(self) -> float:
        return (self.most - self.first) / 2**20


def pipeline(items: int) -> Any:
    """The machine's own short pipeline down to scenarios, of which there are `items - 1`, asking `ROW` times each."""
    from dataclasses import replace

    from synthesis.drafts import AssembledProgram, ScenarioDraft
    from synthesis.stages import ItemPart, ItemSpec, Kit, Stage
    from tests.batches.table import TABLE, ask

    async def state(kit: Kit, spec: ItemSpec, made: AssembledProgram) -> ScenarioDraft:
        words = [await ask(kit, "author", "initial_state", sample) for sample in range(ROW)]
        return ScenarioDraft(name=words[-1][:100], state={"n": spec.ordinal})

    def parts(level: str, settings: object) -> list[ItemPart]:
        if level != "theme":
            return []
        return [ItemPart("scenario", f"scenario-{one}", ItemSpec(ordinal=one)) for one in range(items - 1)]

    scenario = Stage("state", "scenario", ("author",), ("assemble",), ScenarioDraft, state)
    return replace(TABLE, stages=(*TABLE.of("theme"), scenario), parts=parts)


async def floor(url: str, bodies: list[bytes], at_once: int) -> float:
    """Seconds that the same requests take a bare client: the theme's in a row, then all others, `at_once` at once."""
    limits = httpx.Limits(max_connections=8, max_keepalive_connections=8)
    # A pool looks at all its connections with each request: several small ones are quicker.
    clients = [httpx.AsyncClient(limits=limits, timeout=60, trust_env=False) for _ in range((at_once + 7) // 8)]
    waiting = iter(bodies[ROW:])
    headers = {"content-type": "application/json"}

    async def ask(client: httpx.AsyncClient, body: bytes) -> None:
        answer = await client.post(f"{url}/chat/completions", content=body, headers=headers)
        assert answer.json()["choices"]

    async def row(number: int) -> None:
        for body in waiting:
            await ask(clients[number % len(clients)], body)

    async with contextlib.AsyncExitStack() as stack:
        for client in clients:
            await stack.enter_async_context(client)
        await asyncio.gather(*(ask(client, bodies[0]) for client in clients for _ in range(8)))
        began = time.perf_counter()
        for body in bodies[:ROW]:
            await ask(clients[0], body)
        await asyncio.gather(*(row(number) for number in range(at_once)))
        return time.perf_counter() - began


def sent_by(batch: Any) -> list[bytes]:
    """The bodies of a batch's requests."""
    from synthesis.llm.calls import StageCall
    from webapp.batches.models import Body, LLMCall
    from webapp.common.content_store import load_value

    keys = LLMCall.objects.filter(batch=batch).order_by("id").values_list("request", flat=True)
    return [
        json.dumps({"model": "m"} | StageCall.model_validate(load_value(Body, key)).body()).encode() for key in keys
    ]


def measure(url: str, process: psutil.Process, items: int, at_once: int, latency: float) -> dict[str, float]:
    """Warm up with a small batch (imports, pools, the sandbox), then measure another, and the floor."""
    from synthesis.runtime import get_default_sandbox
    from tests.batches import support, table
    from tests.rollouts_web.support import endpoint_at
    from webapp.batches.engine.lane import run_lane
    from webapp.batches.models import LLMCall
    from webapp.batches.services import build_theme_spec, create_batch
    from webapp.jobs.registry import KINDS, JobKind

    endpoint_at(url, max_concurrency=at_once)
    settings = support.settings_at(url, at_once=256)

    def batch(name: str, count: int) -> Any:
        short = pipeline(count)
        KINDS["run_batch"] = JobKind("run_batch", "llm", lambda job: run_lane(get_default_sandbox(), job, short))
        return create_batch(None, name, [build_theme_spec(table.theme(name))], settings, short)

    support.work_off(batch("warm", at_once))
    made = batch("measured", items)
    before = LLMCall.objects.count()
    with Memory() as memory:
        began, cpu, theirs = time.perf_counter(), time.process_time(), process.cpu_times()
        support.work_off(made)
        actual, cpu, now = time.perf_counter() - began, time.process_time() - cpu, process.cpu_times()
    if made.state != "done" or made.items.exclude(state="kept").exists():
        raise SystemExit(f"The batch ended as {made.state}, so nothing was measured: {made.note}")
    calls = LLMCall.objects.count() - before
    ideal = ROW * latency + max((calls - ROW) * latency / at_once, ROW * latency)
    bare = asyncio.run(floor(url, sent_by(made), at_once))
    return {
        "items": items,
        "at_once": at_once,
        "latency_s": latency,
        "llm_calls": calls,
        "ideal_s": round(ideal, 3),
        "actual_s": round(actual, 3),
        "floor_s": round(bare, 3),
        "cpu_s": round(cpu, 3),
        "server_cpu_s": round(now.user + now.system - theirs.user - theirs.system, 3),
        "efficiency": round(ideal / actual, 4),
        "ratio_to_ideal": round(ideal / actual, 4),
        "of_floor": round(bare / actual, 4),
        "rss_growth_mib": round(memory.growth_mib, 1),
    }


def run(given: argparse.Namespace) -> dict[str, Any]:
    """Measure what the arguments ask for, on the database that is set up."""
    if given.variant is None:
        with server(given.latency) as (base, process):
            return measure(base, process, given.items, given.at_once, given.latency)
    made = VariantRun(given.variant, given.items)
    with label_requests(), tempfile.TemporaryDirectory() as folder:
        made.record(given.latency)
        file = Path(folder, "replies.json")
        made.model.save(file)
        with server(given.latency, str(file)) as (base, process):
            began = process.cpu_times()
            figures = made.measure(base, given.at_once, given.latency)
            now = process.cpu_times()
    served = now.user + now.system - began.user - began.system
    return figures | {"server_cpu_s": round(served, 3), "load": [round(value, 1) for value in os.getloadavg()]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print the figures as one JSON object (they always are)")
    parser.add_argument("--items", type=int, default=200)
    parser.add_argument("--at-once", type=int, default=64)
    parser.add_argument("--latency", type=float, default=1.0)
    parser.add_argument("--variant", choices=tuple(PIPELINES), help="the real pipeline of this variant")
    parser.add_argument("--serve", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--recorded", default="", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve is not None:
        asyncio.run(serve(given.serve, given.recorded))
        return
    with own_database("batch") as url:
        os.environ |= {
            "DATABASE_URL": url,
            "DJANGO_SETTINGS_MODULE": "webapp.settings",
            "ENVARIUM_LOG_LEVEL": "WARNING",
        }
        import django

        django.setup()
        from django.core.management import call_command
        from django.db import connection, connections

        from webapp.jobs import services

        services.wake_job = lambda job_id, queue: None  # type: ignore[assignment]
        call_command("migrate", verbosity=0)
        try:
            print(json.dumps(run(given)))
        finally:
            connections.close_all()
            connection.close_pool()


if __name__ == "__main__":
    main()

"""How close attempts come to what their generation engine allows, and what the loop costs a turn.

    python -m tests.benchmarks.engine --json [--attempts 512] [--turns 15] [--at-once 64] [--latency-ms 200]
                                             [--tokens-per-s 0] [--prompt-tokens 1000]

A local server, a process of its own, answers vLLM's completions with token ids: a reply takes `--latency-ms`, and each
of its tokens 1 / `--tokens-per-s` seconds more (0: none). It plays one of the demo's tasks in `--turns` turns, so that
every attempt earns its full reward, or there is no figure. `ideal_s` is what the server alone would take with
`--at-once` attempts under way; `efficiency` is ideal over actual. `cpu_ms_a_turn` is processor time of the process with
the loop (a rank), which depends less than seconds do on who else uses the machine.
`rank_mib` is the rank's peak memory above what it had before the attempts. The last line of output is one JSON object.
"""

from __future__ import annotations

import argparse
import contextlib
import cProfile
import json
import math
import os
import pstats
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

from synthesis.contracts import Message, ToolCall
from synthesis.llm import Endpoint
from synthesis.runtime import get_default_sandbox
from training.attempts import Table, TaskAttempt, list_tries, make_attempts
from training.config import Attempts, Decoding
from training.dataset import TaskRow
from training.demo.model import build_tokenizer
from training.engines.served import ServedEngine
from training.examples.datasets import build_task_row, make_demonstrations
from training.examples.tasks import DemoTask, draw_tasks
from training.templates import render_conversation, serialize_message

MODEL = "policy"


@contextlib.contextmanager
def server(told: dict[str, Any]) -> Iterator[tuple[str, int]]:
    """(address, process) of a server that plays `turns` (ids), for the block."""
    command = [sys.executable, "-m", "tests.benchmarks.engine_parts.server"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps(told) + "\n")
        process.stdin.flush()
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1", process.pid
    finally:
        process.communicate()


def played(turns: int) -> tuple[DemoTask, list[Message]]:
    """A task of the demo and the agent's messages that solve it in so many turns: it looks up again and again."""
    task = next(task for task in draw_tasks(3, 2) if task.environment == "depot")
    look, *rest = task.reference.calls
    calls = [look] * (turns - 1 - len(rest)) + rest
    asked = [Message(role="assistant", tool_calls=(ToolCall(name=c.tool, arguments=c.arguments),)) for c in calls]
    return task, [*asked, Message(role="assistant", content="Done.")]


def long_row(task: DemoTask, tokenizer: Any, tokens: int) -> TaskRow:
    """The task with a documentation of so many tokens."""
    word = " The depot keeps its books by item and by buyer."
    each = len(tokenizer.encode(word, add_special_tokens=False))
    row = build_task_row(task)
    documentation = row.rollout.documentation + word * math.ceil(tokens / each)
    return row.model_copy(update={"rollout": row.rollout.model_copy(update={"documentation": documentation})})


def written(tokenizer: Any, message: Message) -> list[int]:
    """The ids that a model would have to write for a message."""
    before = render_conversation(tokenizer, [{"role": "user", "content": "x"}], (), prompt=True)
    whole = render_conversation(
        tokenizer, [{"role": "user", "content": "x"}, serialize_message(message)], (), prompt=False
    )
    return list(tokenizer.encode(whole[len(before) :].removesuffix("\n"), add_special_tokens=False))


def attempts(table: Table, url: str, row: TaskRow, options: argparse.Namespace, count: int) -> list[TaskAttempt]:
    engine = ServedEngine(
        Endpoint(name="vllm", base_url=url, max_retries=0), MODEL, ends={table.tokenizer.eos_token_id}, temperature=1.0
    )
    decoding = Decoding(turn_tokens=256, trajectory_tokens=100_000)
    work = list_tries([row], count)
    return make_attempts(table, engine, work, turns=options.turns, decoding=decoding, seed="s")


def processor() -> float:
    """Seconds of processor time of this process."""
    spent = resource.getrusage(resource.RUSAGE_SELF)
    return spent.ru_utime + spent.ru_stime


def processor_of(process: int) -> float:
    """Seconds of processor time of another process."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(options: argparse.Namespace) -> dict[str, Any]:
    sandbox = get_default_sandbox()
    tokenizer = build_tokenizer(
        [lesson.trl() for lesson in make_demonstrations(sandbox, draw_tasks(7, 6), 7, careless=0.5)]
    )
    task, said = played(options.turns)
    row = long_row(task, tokenizer, options.prompt_tokens)
    turns = [written(tokenizer, message) for message in said]
    latency = options.latency_ms / 1e3
    told = {
        "turns": turns, "end": tokenizer.eos_token_id, "latency_s": latency, "tokens_per_s": options.tokens_per_s
    }  # fmt: skip
    table = Table(sandbox, tokenizer, Attempts(at_once=options.at_once, deadline_s=600))
    with server(told) as (url, process):
        attempts(table, url, row, options, min(options.attempts, 8))
        before, spent, served, started = resident(), processor(), processor_of(process), time.perf_counter()
        profile = cProfile.Profile(time.thread_time) if options.profile else contextlib.nullcontext()
        with profile:
            made = attempts(table, url, row, options, options.attempts)
        seconds = time.perf_counter() - started
        spent, served = processor() - spent, processor_of(process) - served
    if options.profile:
        pstats.Stats(profile).sort_stats(options.profile).print_stats(45)  # type: ignore[arg-type]
    unsolved = [f"{one.attempt.outcome} {one.attempt.note}" for one in made if one.attempt.outcome != "solved"]
    if unsolved:
        raise SystemExit(f"{len(unsolved)} of {len(made)} attempts were not solved: {unsolved[:3]}")
    count = sum(len(one.attempt.turns) for one in made)
    rate = options.tokens_per_s
    one_s = sum(latency + (len(ids) / rate if rate else 0.0) for ids in turns)
    ideal = math.ceil(options.attempts / options.at_once) * one_s
    return {
        "attempts": options.attempts,
        "turns": count,
        "at_once": options.at_once,
        "latency_ms": options.latency_ms,
        "tokens_an_attempt": sum(one.trace.length for one in made) / len(made),
        "turns_per_s": count / seconds,
        "ideal_s": ideal,
        "actual_s": seconds,
        "efficiency": ideal / seconds,
        "cpu_ms_a_turn": spent / count * 1e3,
        "server_cpu_ms_a_turn": served / count * 1e3,
        "rank_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 - before,
    }


def resident() -> float:
    """MiB that this process has in memory now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--attempts", type=int, default=512)
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--at-once", type=int, default=64)
    parser.add_argument("--latency-ms", type=float, default=200.0)
    parser.add_argument("--tokens-per-s", type=float, default=0.0)
    parser.add_argument("--prompt-tokens", type=int, default=1_000)
    parser.add_argument("--profile", help="a column of pstats to sort by: where the loop's time goes")
    options = parser.parse_args()
    if options.turns < 4:
        raise SystemExit("--turns: the task takes at least 4 turns")
    found = {name: round(value, 4) if isinstance(value, float) else value for name, value in measure(options).items()}
    if not options.json:
        for name, value in found.items():
            print(f"{name:24} {value}")
    print(json.dumps(found))


if __name__ == "__main__":
    main()

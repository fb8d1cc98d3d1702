"""What an episode costs, beside the same work without any sandbox and beside a bare socket.

    python -m tests.benchmarks.runtime --json [--envs FILE --scenarios FILE | --small] [--episodes 300]
        [--growth 20000]

Both sides of every ratio are timed in turns in one run, because the machine's speed varies. Without options the
bundled environments are used: every task of theirs, with the calls that solve it. `--small` uses a program built in
here that does next to nothing, so that almost all of its cost is ours. The last line of output is one JSON object.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import socket
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from synthesis.contracts import Limits, Program, Tool
from synthesis.runtime import Sandbox, derive_working_schema, encode_state, get_default_sandbox, outline_program
from synthesis.starter import list_folders, read_environment, read_references, read_tasks

CALLS = 10
LIVE = 200
BUILT_IN = '''
import uuid
from datetime import datetime
from typing import Dict, List, Optional, TypedDict


class SlotInfo(TypedDict):
    slot_id: str
    room: str
    day: str
    status: str


class BookingSystem:
    """Bookings of rooms."""

    def __init__(self, init_config: dict):
        self.slots: Dict[str, SlotInfo] = {}
        self.people: Dict[str, dict] = {}
        self.log: List[dict] = []
        self.init_config = init_config
%s
'''
_METHOD = '''
    def {verb}_{number}(self, slot_id: str, person: Optional[str] = None) -> dict:
        """{verb} a slot by its id, rule {number}."""
        slot = self.slots.get(slot_id)
        if slot is None:
            return {{"success": False, "error": "no such slot"}}
        if person is not None and person not in self.people:
            return {{"success": False, "error": "no such person"}}
        {body}
        return {{"success": True, "data": slot}}
'''


@dataclass
class Case:
    """One program with a state to start from and calls to make."""

    program: Program
    state: dict[str, Any]
    calls: list[tuple[str, dict[str, Any]]]


def bundled() -> list[Case]:
    """One case a bundled task: its scenario, and its reference's calls, begun again until there are enough."""
    cases: list[Case] = []
    for folder in list_folders():
        about = read_environment(folder)
        program = _program(about.source, about.class_name)
        solved = read_references(folder)
        for task in read_tasks(folder):
            steps = solved[task.key]["calls"]
            repeated = [steps[n % len(steps)] for n in range(CALLS)]
            calls = [(step["tool"], step["arguments"]) for step in repeated]
            cases.append(Case(program, encode_state(task.initial_state), calls))
    return cases


def small() -> list[Case]:
    change = 'slot["status"] = "booked"; self.log.append({"id": str(uuid.uuid4()), "at": str(datetime.now())})'
    methods = "".join(_METHOD.format(verb="read", number=n, body="pass") for n in range(12))
    methods += "".join(_METHOD.format(verb="book", number=n, body=change) for n in range(7))
    source = BUILT_IN % methods
    slots = {
        f"S{n}": {"slot_id": f"S{n}", "room": f"R{n % 4}", "day": f"2025-01-{n + 1:02}", "status": "free"}
        for n in range(24)
    }
    people = {
        f"P{n}": {"name": f"Person {n}", "mail": f"p{n}@example.org", "phone": "555-010" + str(n)} for n in range(9)
    }
    calls = [(f"{'book' if n % 3 == 0 else 'read'}_{n % 6}", {"slot_id": f"S{n}"}) for n in range(CALLS)]
    return [Case(_program(source), {"slots": slots, "people": people, "log": []}, calls)]


def _program(source: str, class_name: str | None = None) -> Program:
    found = outline_program(source, class_name)
    tools = tuple(
        Tool(name=m.name, description=m.docstring, parameters=derive_working_schema(m)) for m in found.methods
    )
    return Program(source=source, class_name=found.class_name, tools=tools)


def from_files(envs: Path, scenarios: Path, most: int = 16) -> list[Case]:
    """One case an environment: its first scenario, and calls whose arguments are picked from the state's ids."""
    listed = json.loads(envs.read_text())
    by_id = listed if isinstance(listed, dict) else {item["env_id"]: item for item in listed}
    cases: dict[str, Case] = {}
    for scenario in json.loads(scenarios.read_text()):
        name = scenario["env_id"]
        if name in by_id and name not in cases and len(cases) < most:
            state = scenario["init_config"]
            state = json.loads(state) if isinstance(state, str) else state
            program = _program(by_id[name]["env_class_code"])
            cases[name] = Case(program, state, _calls(program, state))
    return list(cases.values())


def _calls(program: Program, state: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    ids = [key for value in state.values() if isinstance(value, dict) for key in value] or ["none"]
    texts = [key for key in ids if isinstance(key, str)]
    calls = []
    for index in range(CALLS):
        tool = program.tools[index % len(program.tools)]
        arguments: dict[str, Any] = {}
        for place, name in enumerate(tool.parameters["required"]):
            wanted = tool.parameters["properties"][name].get("type")
            plain = {"integer": 1, "number": 1.5, "boolean": True, "array": [], "object": {}}
            key = wanted if isinstance(wanted, str) else "string"
            arguments[name] = plain.get(key, texts[(index + place) % len(texts)])
        calls.append((tool.name, arguments))
    return calls


def unsandboxed(case: Case) -> Any:
    """EnvScaler's own loop: the class executed anew, built, called, its state copied."""
    space: dict[str, Any] = {"__name__": "environment"}
    exec(case.program.source, space)
    cls = space[case.program.class_name]
    try:
        environment = cls(copy.deepcopy(case.state))
    except TypeError:
        environment = cls()
    for key, value in case.state.items():
        setattr(environment, key, copy.deepcopy(value))
    for name, arguments in case.calls:
        try:
            str(getattr(environment, name)(**arguments))
        except Exception:
            continue
    return copy.deepcopy(vars(environment))


def sandboxed(sandbox: Sandbox, case: Case) -> Any:
    with sandbox.reset(case.program, case.state) as episode:
        for name, arguments in case.calls:
            episode.call(name, arguments)
        return episode.state()


def milliseconds(work: Any, *args: Any) -> float:
    started = time.perf_counter()
    work(*args)
    return (time.perf_counter() - started) * 1e3


def episodes(sandbox: Sandbox, cases: list[Case], count: int) -> dict[str, float]:
    for case in cases:
        sandboxed(sandbox, case)
    ours: list[float] = []
    theirs: list[float] = []
    for index in range(count):
        case = cases[index % len(cases)]
        ours.append(milliseconds(sandboxed, sandbox, case))
        theirs.append(milliseconds(unsandboxed, case))
    episode, loop = statistics.median(ours), statistics.median(theirs)
    return {"episode_ms": episode, "exec_loop_ms": loop, "episode_ratio": episode / loop}


class Echo:
    """A child process that sends every datagram back: the least that talking to a process costs."""

    def __init__(self) -> None:
        kind = getattr(socket, "SOCK_SEQPACKET", socket.SOCK_STREAM)
        self.sock, theirs = socket.socketpair(socket.AF_UNIX, kind)
        self.pid = os.fork()
        if self.pid == 0:
            self.sock.close()
            while data := theirs.recv(65536):
                theirs.send(data)
            os._exit(0)
        theirs.close()

    def floor(self, state: Any) -> None:
        self.sock.send(b'{"id":1,"op":"call"}')
        self.sock.recv(65536)
        json.dumps(state)

    def close(self) -> None:
        self.sock.close()
        os.waitpid(self.pid, 0)


def calls(sandbox: Sandbox, cases: list[Case], rounds: int = 30) -> dict[str, float]:
    echo = Echo()
    ours: list[float] = []
    floor: list[float] = []
    ratios: list[float] = []
    for case in cases:
        with sandbox.reset(case.program, case.state) as episode:
            state = episode.state()
            mine: list[float] = []
            bare: list[float] = []
            for _ in range(rounds):
                for name, arguments in case.calls:
                    bare.append(milliseconds(echo.floor, state) * 1e3)
                    mine.append(milliseconds(episode.call, name, arguments) * 1e3)
            ratios.append(statistics.median(mine) / statistics.median(bare))
            ours += mine
            floor += bare
    echo.close()
    p50, least = statistics.median(ours), statistics.median(floor)
    return {
        "call_p50_us": p50,
        "socket_floor_us": least,
        "call_ratio": p50 / least,
        "call_ratio_worst_case": max(ratios),
    }


def processes_below(root: int) -> list[int]:
    parents: dict[int, int] = {}
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            try:
                with open(f"/proc/{entry}/stat") as stat:
                    parents[int(entry)] = int(stat.read().rpartition(")")[2].split()[1])
            except OSError:
                continue
    found, waiting = [], [root]
    while waiting:
        here = waiting.pop()
        below = [pid for pid, parent in parents.items() if parent == here]
        found += below
        waiting += below
    return found


def pss_kib(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/smaps_rollup") as rollup:
            return next((int(line.split()[1]) for line in rollup if line.startswith("Pss:")), 0)
    except OSError:
        return 0


def memory(sandbox: Sandbox, cases: list[Case]) -> dict[str, float]:
    live = [sandbox.reset(case.program, case.state) for case in (cases * LIVE)[:LIVE]]
    for index, episode in enumerate(live):
        episode.call(*cases[index % len(cases)].calls[0])
    time.sleep(0.5)
    below = processes_below(os.getpid())
    total = sum(map(pss_kib, below)) / 1024
    for episode in live:
        episode.close()
    return {"pss_200_episodes_mib": total, "processes_200_episodes": len(below)}


def footprint() -> tuple[float, int, int]:
    """(PSS in MiB of this process and all below, open descriptors, processes)."""
    time.sleep(1.0)
    below = processes_below(os.getpid())
    kib = sum(map(pss_kib, [os.getpid(), *below]))
    return kib / 1024, len(os.listdir("/proc/self/fd")), len(below)


def growth(sandbox: Sandbox, case: Case, count: int) -> dict[str, float]:
    name, arguments = case.calls[0]

    def short() -> None:
        with sandbox.reset(case.program, case.state) as episode:
            episode.call(name, arguments)

    for _ in range(min(500, count)):
        short()
    before = footprint()
    for _ in range(count):
        short()
    after = footprint()
    return {
        f"growth_mib_{count}": after[0] - before[0],
        f"growth_fds_{count}": after[1] - before[1],
        f"growth_processes_{count}": after[2] - before[2],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--envs", type=Path)
    parser.add_argument("--scenarios", type=Path)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--episodes", type=int, default=300)
    parser.add_argument("--growth", type=int, default=20_000)
    options = parser.parse_args()
    if options.envs and options.scenarios:
        cases = from_files(options.envs, options.scenarios)
    else:
        cases = small() if options.small else bundled()
    sandbox = get_default_sandbox() if options.growth else Sandbox(limits=Limits())
    found: dict[str, Any] = {"mode": sandbox.report().mode, "programs": len(cases)}
    found |= episodes(sandbox, cases, options.episodes)
    found |= calls(sandbox, cases)
    found |= memory(sandbox, cases)
    if options.growth:
        found |= growth(sandbox, cases[0], options.growth)
    rounded = {key: round(value, 3) if isinstance(value, float) else value for key, value in found.items()}
    if not options.json:
        for key, value in rounded.items():
            print(f"{key:28} {value}")
    print(json.dumps(rounded))


if __name__ == "__main__":
    main()

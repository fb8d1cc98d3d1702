"""Runs every attack against one shared sandbox, beside a neighbour that must not notice. Prints JSON.

    python -m tests.runtime.arena MODE

Run as a process of its own, so that the attacked host can be root, an ordinary user or root without capabilities.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from synthesis.contracts import Limits, Program, Tool
from synthesis.errors import EpisodeLost, ProgramError
from synthesis.runtime import Sandbox
from tests.benchmarks.runtime import processes_below
from tests.runtime.hostile import ATTACKS, Attack

LIMITS = Limits(memory_mib=96, call_seconds=1.0, cpu_seconds=3, frame_bytes=4 * 1024 * 1024)
SECRET = "the-secret-of-the-host"
CALM = '''
class Env:
    def __init__(self, init_config):
        self.n = 0

    def count(self):
        """Count up."""
        self.n += 1
        return self.n
'''
ALIVE = """
def alive(f):
    try: sys.modules["os"].lseek(f, 0, 1)
    except OSError as e: return e.errno == 29
"""


def program(attack: Attack, world: dict[str, Any]) -> Program:
    facts = "".join(f"{name} = {value!r}\n" for name, value in world.items())
    body = attack.code if attack.where == "tool" else "out = a"
    init = attack.code if attack.where == "init" else "pass"
    module = attack.code if attack.where == "module" else ""
    parts = (
        "import sys\n" + facts + ALIVE,
        module,
        "class Env:\n    def __init__(self, init_config):\n",
        textwrap.indent("self.n = 0\n" + init, " " * 8),
        "\n    def attack(self, a='a'):\n        out = None\n",
        textwrap.indent(body, " " * 8),
        "\n        return out\n",
    )
    schema: dict[str, Any] = {}
    if attack.where == "schema":
        schema = json.loads(attack.code)
    return Program(
        source="\n".join(parts[:2]) + "\n" + "".join(parts[2:]),
        class_name="Env",
        tools=(Tool(name="attack", parameters=schema),),
    )


def attempt(sandbox: Sandbox, attack: Attack, world: dict[str, Any]) -> dict[str, Any]:
    started = time.monotonic()
    said = ""
    if attack.where == "check":
        source = "def check_func(final_state):\n" + textwrap.indent(attack.code, "    ")
        after = "def check_func(final_state):\n    return len([1]) == 1 and final_state == {'n': 1}"
        verdicts = sandbox.evaluate_checks([after, source, after], {"n": 0}, {"n": 1})
        neighbours = verdicts[0].passed and verdicts[2].passed
        outcome = ("passed" if verdicts[1].passed else "failed") if neighbours else "harmed another check"
        said = verdicts[1].error
    else:
        outcome, said = _episode(sandbox, attack, world)
    return {"name": attack.name, "outcome": outcome, "said": said[:400], "seconds": time.monotonic() - started}


def _episode(sandbox: Sandbox, attack: Attack, world: dict[str, Any]) -> tuple[str, str]:
    try:
        with sandbox.reset(program(attack, world), {}) as episode:
            if attack.where in ("module", "init"):
                return "ready", ""
            value = "a" * 40 + "b" if attack.where == "schema" else "a"
            result = episode.call("attack", {"a": value})
            if result.ok:
                return "result", json.dumps(result.result)[:400]
            assert result.error is not None
            return f"error:{result.error.kind}", f"{result.error.type}: {result.error.message}"
    except EpisodeLost as error:
        return f"lost:{error.reason}", error.detail
    except ProgramError as error:
        return "program", str(error)


def listening(address: Any, family: int) -> socket.socket:
    server = socket.socket(family, socket.SOCK_STREAM)
    server.bind(address)
    server.listen()
    server.setblocking(False)
    return server


def connected(server: socket.socket) -> bool:
    try:
        server.accept()
        return True
    except BlockingIOError:
        return False


def run(mode: str) -> dict[str, Any]:
    os.environ["SECRET"] = SECRET
    with tempfile.TemporaryDirectory() as folder:
        secret, target = Path(folder, "secret"), Path(folder, "target")
        secret.write_text(SECRET)
        secret.chmod(0o644)
        Path(folder).chmod(0o777)
        tcp = listening(("127.0.0.1", 0), socket.AF_INET)
        unix = listening(str(Path(folder, "unix")), socket.AF_UNIX)
        canary = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        world = {"SECRET": str(secret), "TARGET": str(target), "PORT": tcp.getsockname()[1]}
        world |= {"UNIX": str(Path(folder, "unix")), "CANARY": canary.pid, "NODE": os.uname().nodename}
        sandbox = Sandbox(mode=mode, limits=LIMITS)
        report = sandbox.report()
        calm = Program(source=CALM, class_name="Env", tools=(Tool(name="count"),))
        neighbour = sandbox.reset(calm, {})
        zygote = sandbox._pool.zygote
        with ThreadPoolExecutor(3) as pool:
            outcomes = list(pool.map(lambda attack: attempt(sandbox, attack, world), ATTACKS))
        after = neighbour.call("count", {})
        found = {
            "report": report.model_dump(),
            "outcomes": outcomes,
            "neighbour": after.ok and after.result == 1,
            "same_zygote": sandbox._pool.zygote is zygote and sandbox._pool.generation == 1,
            "canary_alive": canary.poll() is None,
            "connected": connected(tcp) or connected(unix),
            "written": target.exists(),
            "secret_intact": secret.read_text() == SECRET,
            "leaked": SECRET in json.dumps(outcomes),
        }
        neighbour.close()
        canary.send_signal(signal.SIGKILL)
        canary.wait()
        time.sleep(0.3)
        # What is left: the zygote, its parent, and the children that wait.
        found["left"] = len(processes_below(os.getpid())) - len(sandbox._pool.spare)
        sandbox.close()
        time.sleep(0.2)
        found["left_after_close"] = len(processes_below(os.getpid()))
        return found


if __name__ == "__main__":
    print(json.dumps(run(sys.argv[1])))

"""An installed package under `verifiers`' own commands, against a scripted server."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.llm import ScriptedServer, llm_server, refuse
from tests.portable.portable_support import NAMED, TASKS, idle, packaged, solving

pytestmark = pytest.mark.slow
SERVED = """
import asyncio, json, multiprocessing
import verifiers.v1 as vf
from verifiers.v1.serve import EnvClient, env_config_data, serve_env

async def rollouts(env, address):
    client = EnvClient(address)
    await client.wait_for_server_startup()
    model = vf.EvalClientConfig(base_url={url!r}), "scripted-1", vf.SamplingConfig(temperature=0.5)
    tasks = [task.data.model_dump() for task in env.taskset]
    episodes = await asyncio.gather(*(client.run(*model, data) for data in tasks))
    await client.close()
    return [[episode.ok, episode.traces[0].reward, episode.traces[0].task.data.id] for episode in episodes]

if __name__ == "__main__":
    env = vf.load_environment(vf.resolve_env_config({{"taskset": {{"id": {package!r}}}}}))
    spawn = multiprocessing.get_context("spawn")
    addresses = spawn.Queue()
    told = dict(max_workers=2, elastic=False, address="tcp://127.0.0.1:0", address_queue=addresses)
    server = spawn.Process(target=serve_env, kwargs=dict(config_data=env_config_data(env.config), **told))
    server.start()
    print(json.dumps(asyncio.run(rollouts(env, addresses.get(timeout=120)))))
    server.terminate()
    server.join(30)
"""


@pytest.fixture(scope="module")
def installed(verifiers_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pip put the package: nothing of the named Python changes."""
    folder = tmp_path_factory.mktemp("package")
    command = [verifiers_python, "-m", "pip", "install", "-q", "--no-deps", "--target", folder / "site"]
    subprocess.run([*command, packaged(folder)], check=True, capture_output=True, timeout=120)
    return folder / "site"


def told(python: Path, installed: Path, *command: str, cwd: Path) -> str:
    environment = {"PATH": os.environ["PATH"], "HOME": str(cwd), "PYTHONPATH": str(installed)}
    done = subprocess.run(
        [python, *command], cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3_000:]
    return done.stdout


def evaluated(python: Path, installed: Path, server: ScriptedServer, cwd: Path, *more: str) -> list[dict[str, Any]]:
    """The traces that `vf-eval` leaves."""
    asked = ["-m", "scripted-1", "--client.base-url", server.url, "--no-rich", "--no-push", "-o", "out"]
    script = str(python.with_name("vf-eval"))
    told(python, installed, script, NAMED.id, *asked, "--run.name", "run", *more, cwd=cwd)
    lines = (cwd / "out" / "run" / "traces.jsonl").read_text().splitlines()
    return [trace for line in lines for trace in json.loads(line)["traces"]]


def test_its_evaluation_rewards_what_solves_and_nothing_else(
    verifiers_python: Path, installed: Path, tmp_path: Path
) -> None:
    """Every learnt task with 1, the held-out one too; doing nothing with 0; a broken server with an error and none."""
    found = {}
    cases = {"solving": (solving, []), "held out": (solving, ["--env.taskset.side", "test"]), "idle": (idle, [])}
    cases["broken"] = (lambda request: refuse(500, "Out of order."), ["-n", "1"])
    cases["one turn"] = (solving, ["-n", "1", "--env.agent.harness.max-turns", "1"])
    for name, (script, more) in cases.items():
        (tmp_path / name).mkdir()
        with llm_server(script) as server:
            found[name] = evaluated(verifiers_python, installed, server, tmp_path / name, *more)
    for name, reward in {"solving": 1.0, "held out": 1.0, "idle": 0.0}.items():
        assert {trace["rewards"]["reward"]["score"] for trace in found[name]} == {reward}
        assert all(trace["ok"] and trace["metrics"]["solved"] == reward for trace in found[name])
    ids = [task.rollout.key for task in TASKS]
    assert sorted(trace["task"]["data"]["id"] for trace in found["solving"]) == sorted(ids[:-1])
    assert [trace["task"]["data"]["id"] for trace in found["held out"]] == ids[-1:]
    (stopped,) = found["one turn"]
    assert (stopped["info"]["envarium"]["ending"], stopped["metrics"]["calls"]) == ("turn_limit", 1.0)
    (broken,) = found["broken"]
    assert (broken["ok"], broken["rewards"]) == (False, {})
    assert broken["errors"][-1]["type"] == "ProviderError"


def test_its_env_servers_run_it_as_prime_rl_does(verifiers_python: Path, installed: Path, tmp_path: Path) -> None:
    """Tasks are sent to worker processes, which have but the package."""
    with llm_server(solving) as server:
        (tmp_path / "served.py").write_text(SERVED.format(package=NAMED.id, url=server.url))
        said = json.loads(told(verifiers_python, installed, "served.py", cwd=tmp_path).splitlines()[-1])
        assert {request["temperature"] for request in server.requests} == {0.5}
    assert said == [[True, 1.0, task.rollout.key] for task in TASKS[:-1]]


def test_its_validation_finds_that_doing_nothing_solves_nothing(
    verifiers_python: Path, installed: Path, tmp_path: Path
) -> None:
    script = str(verifiers_python.with_name("vf-validate"))
    told(
        verifiers_python, installed, script, NAMED.id, "--runtime.type", "subprocess", "--no-rich",
        "-o", "out", "--run.name", "run", cwd=tmp_path,
    )  # fmt: skip
    lines = (tmp_path / "out" / "run" / "results.jsonl").read_text().splitlines()
    found = [json.loads(line)["noop"] for line in lines]
    assert [(row["valid"], row["reward"]) for row in found] == [(True, 0.0)] * (len(TASKS) - 1)

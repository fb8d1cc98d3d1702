"""Real environments, scenarios and recorded runs; only where ENVARIUM_TEST_DATA names their folder."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from synthesis.contracts import Program, Tool
from synthesis.runtime import Sandbox, check_program, derive_working_schema, outline_program
from tests.verifier_fields import score_checks

pytestmark = pytest.mark.data
Data = tuple[dict[str, Program], list[dict[str, Any]], list[dict[str, Any]]]


@pytest.fixture(scope="module")
def data() -> Data:
    folder = os.environ.get("ENVARIUM_TEST_DATA")
    if not folder:
        pytest.skip("ENVARIUM_TEST_DATA does not name the folder of the real data")
    place = Path(folder)
    place = place / "envscaler" if (place / "envscaler").is_dir() else place
    envs, scenarios, runs = (
        json.loads((place / f"{name}.json").read_text()) for name in ("env_metadata", "rl_scenarios", "trajectories")
    )
    programs = {}
    for name, env in envs.items():
        found = outline_program(env["env_class_code"], env["env_class_name"])
        wanted = [tool["function"]["name"] for tool in env["tools"]]
        assert not [f for f in check_program(env["env_class_code"], found.class_name, wanted) if f.severity == "fatal"]
        tools = tuple(Tool(name=m.name, parameters=derive_working_schema(m)) for m in found.methods if m.name in wanted)
        assert len(tools) == len(wanted)
        programs[name] = Program(source=env["env_class_code"], class_name=found.class_name, tools=tools)
    return programs, scenarios, runs


def test_every_program_loads(sandbox: Sandbox, data: Data) -> None:
    for program in data[0].values():
        with sandbox.reset(program, None) as episode:
            assert isinstance(episode.state(), dict)


def test_every_scenario_constructs_as_it_says(sandbox: Sandbox, data: Data) -> None:
    for scenario in data[1]:
        with sandbox.reset(data[0][scenario["env_id"]], scenario["init_config"]) as episode:
            state = episode.state()
        assert {key: state[key] for key in scenario["init_config"]} == scenario["init_config"]


def test_recorded_runs_give_their_rewards(sandbox: Sandbox, data: Data) -> None:
    scenarios = {scenario["task_id"]: scenario for scenario in data[1]}
    for run in data[2]:
        scenario = scenarios[run["task_info"]["task_id"]]
        checks = [item["check_func"] for item in scenario["checklist_with_func"]]
        with sandbox.reset(data[0][scenario["env_id"]], scenario["init_config"], validation="source") as episode:
            for step in run["trajectory"]:
                if step.get("observation", {}) and isinstance(step["observation"], dict) and "action" in step:
                    episode.call(step["action"]["name"], step["action"]["arguments"])
            final = episode.state()
        reward = score_checks(sandbox, checks, scenario["init_config"], final, rule="proportion").reward
        assert round(reward, 4) == run["total_reward"]


def test_doing_nothing_scores_what_is_known(sandbox: Sandbox, data: Data) -> None:
    rewards = []
    for scenario in data[1]:
        checks = [item["check_func"] for item in scenario["checklist_with_func"]]
        start = scenario["init_config"]
        rewards.append(score_checks(sandbox, checks, start, start, rule="proportion").reward)
    assert len(rewards) == 52
    assert sum(reward > 0 for reward in rewards) == 35
    assert round(sum(rewards) / 52, 3) == 0.139
    assert round(max(rewards), 3) == 0.989

"""Real states and instructions; only where ENVARIUM_TEST_DATA names their folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from synthesis.formats.envscaler import parse_environments, parse_scenarios
from synthesis.formats.files import read_entries
from synthesis.formats.records import EnvironmentRecord, TaskRecord
from synthesis.scenarios.references import find_reference_faults
from synthesis.tasks.leak import collect_names, find_leaks

pytestmark = pytest.mark.data


@pytest.fixture(scope="module")
def pairs() -> list[tuple[EnvironmentRecord, TaskRecord]]:
    folder = os.environ.get("ENVARIUM_TEST_DATA")
    if not folder:
        pytest.skip("ENVARIUM_TEST_DATA does not name the folder of the real data")
    place = Path(folder)
    place = place / "envscaler" if (place / "envscaler").is_dir() else place
    environments = [one for _, one in parse_environments(read_entries(place / "env_metadata.json"))]
    known = {one.key: one for one in environments if isinstance(one, EnvironmentRecord)}
    tasks = [one for _, one in parse_scenarios(read_entries(place / "rl_scenarios.json"))]
    return [(known[one.environment_key], one) for one in tasks if isinstance(one, TaskRecord)]


def test_sound_references_are_not_complained_of(pairs: list[tuple[EnvironmentRecord, TaskRecord]]) -> None:
    assert len(pairs) > 40
    assert [
        found for about, task in pairs if (found := find_reference_faults(task.initial_state, about.state_schema))
    ] == []


def test_released_instructions_leak_where_they_are_written_like_code(
    pairs: list[tuple[EnvironmentRecord, TaskRecord]],
) -> None:
    found = [find_leaks(task.instruction, collect_names(about, task.initial_state)) for about, task in pairs]
    assert 10 < sum(map(bool, found)) < len(pairs)
    assert all("_" in leak.word or leak.kind == "id" or leak.word == "SleepLog" for one in found for leak in one)

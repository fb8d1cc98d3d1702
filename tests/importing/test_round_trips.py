"""What the site exports comes in again, into a home that has nothing, without help; parts of a split task differ."""

from __future__ import annotations

import json

import pytest

from synthesis.formats.envscaler import parse_scenarios
from synthesis.formats.envscaler_export import runs_to_jsonl
from synthesis.formats.files import parse_entries
from synthesis.formats.records import TaskRecord
from synthesis.runtime import default_sandbox
from synthesis.starter import load as bundled
from tests.importing import samples
from tests.importing.test_importer import load
from webapp.scenarios.models import Task
from webapp.scenarios.services import exported_scenarios
from webapp.trajectories.importer import import_runs
from webapp.trajectories.models import Trajectory
from webapp.trajectories.services import exported_runs


@pytest.mark.django_db
def test_a_run_of_a_bundled_environment_brings_it_along() -> None:
    raw = bundled()[2][0].raw
    told = "".join(runs_to_jsonl([raw])).encode()
    first = import_runs(default_sandbox(), parse_entries(told, "runs.jsonl"))
    assert (first["created"], first["failed"]) == (1, [])
    row = Trajectory.objects.get()
    assert (row.source, row.environment and row.environment.key) == ("starter", raw["task_info"]["env_id"])
    again = "".join(runs_to_jsonl(exported_runs())).encode()
    assert again == told
    assert import_runs(default_sandbox(), parse_entries(again, "runs.jsonl"))["unchanged"] == 1


@pytest.mark.django_db
def test_parts_of_a_split_task_leave_under_their_own_ids() -> None:
    load([samples.environment()], [samples.scenario("a"), samples.scenario("b")])
    first, second = Task.objects.order_by("id")
    # What a split leaves: the other part's record still has the id of the task that it was part of.
    record = {**second.current.record, "task_id": first.key}
    type(second.current).objects.filter(pk=second.current.pk).update(record=record)
    told = list(exported_scenarios(Task.objects.all()))
    assert [one["task_id"] for one in told] == [first.key, second.key]
    read = [record for _, record in parse_scenarios(parse_entries(json.dumps(told).encode()))]
    assert [one.key for one in read if isinstance(one, TaskRecord)] == [first.key, second.key]

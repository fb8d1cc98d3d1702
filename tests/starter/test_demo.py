"""`manage.py demo` loads the starter set once; a second call changes nothing."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from django.core.management import call_command

from synthesis.contracts import Reference
from synthesis.runtime import Sandbox
from synthesis.starter import load
from webapp.environments.services import save_environment
from webapp.scenarios.models import Task, TaskRevision
from webapp.scenarios.references import reference_of, save_reference
from webapp.scenarios.services import Start, save_task
from webapp.scenarios.starter_set import load_starter


def demo() -> str:
    out = io.StringIO()
    call_command("demo", stdout=out)
    return out.getvalue()


@pytest.mark.slow
@pytest.mark.django_db
def test_the_demo_is_loaded_once(tmp_path: Path):
    from webapp.environments.models import Environment, Finding
    from webapp.trajectories.models import Score, Trajectory

    environments, tasks, runs = load()
    said = f"{len(environments)} environments, {len(tasks)} tasks, {len(runs)} trajectories"
    assert said in demo()
    assert not Finding.objects.exists()
    assert set(Task.objects.values_list("do_nothing", flat=True)) == {0.0}
    assert set(Trajectory.objects.values_list("replay", flat=True)) == {"identical"}
    assert not Trajectory.objects.filter(matrix__isnull=True).exists()
    counts = [model.objects.count() for model in (Environment, Task, Trajectory, Score)]
    records = tmp_path / "train.jsonl"
    call_command("export_sft", records, stderr=io.StringIO())
    roles = [[one["role"] for one in json.loads(line)["messages"]] for line in records.read_text().splitlines()]
    assert len(roles) == Trajectory.objects.filter(outcome="solved").count() >= 8, "they can be learnt from"
    assert all(one[:3] == ["system", "user", "assistant"] for one in roles)
    assert "nothing changed" in demo()
    assert counts == [model.objects.count() for model in (Environment, Task, Trajectory, Score)]


@pytest.mark.django_db
def test_what_people_made_of_a_bundled_record_outlives_the_next_start(sandbox: Sandbox) -> None:
    environments, tasks, _ = load()
    environment, record = environments[0], next(one for one in tasks if one.environment_key == environments[0].key)
    load_starter(sandbox, [environment], [record])
    task = Task.objects.select_related("current", "scenario__version", "scenario__initial").get()
    assert task.current is not None
    other = Reference(calls=(), answer="By another way.")
    save_reference(task.current, other, "fork")
    load_starter(sandbox, [environment], [record])
    kept = reference_of(TaskRevision.objects.get())
    assert kept is not None
    assert kept.answer == "By another way."
    edited = record.model_copy(update={"instruction": "Be quick.", "raw": {**record.raw, "task": "Be quick."}})
    version, initial = task.scenario.version, task.scenario.initial
    made = save_task(edited, version, initial, Start(), "starter").row
    fixed = environment.model_copy(update={"raw": {**environment.raw, "fixed": True}})
    _, there, newest = save_environment(fixed, [], "starter")
    load_starter(sandbox, [environment], [record])
    task.refresh_from_db()
    there.refresh_from_db()
    assert (task.current_id, task.current.number) == (made.current_id, 2)
    assert there.current_id == newest.pk

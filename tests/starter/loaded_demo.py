"""What `manage.py demo` makes of the starter set, once; for the test that goes on with it."""

from __future__ import annotations

import io
import json
from pathlib import Path

from django.core.management import call_command

from synthesis.starter import load_bundle
from webapp.environments.models import Environment, Finding
from webapp.scenarios.models import Task
from webapp.trajectories.models import Score, Trajectory


def demo() -> str:
    out = io.StringIO()
    call_command("demo", stdout=out)
    return out.getvalue()


def require_demo_loaded_once(folder: Path) -> None:
    """Load the demo, and load it again."""
    environments, tasks, runs = load_bundle()
    said = f"{len(environments)} environments, {len(tasks)} tasks, {len(runs)} trajectories"
    assert said in demo()
    assert not Finding.objects.exists()
    assert set(Task.objects.values_list("do_nothing", flat=True)) == {0.0}
    assert set(Trajectory.objects.values_list("replay", flat=True)) == {"identical"}
    assert not Trajectory.objects.filter(matrix__isnull=True).exists()
    counts = [model.objects.count() for model in (Environment, Task, Trajectory, Score)]
    records = folder / "demo.jsonl"
    call_command("export_sft", records, stderr=io.StringIO())
    roles = [[one["role"] for one in json.loads(line)["messages"]] for line in records.read_text().splitlines()]
    assert len(roles) == Trajectory.objects.filter(outcome="solved").count() >= 8, "they can be learnt from"
    assert all(one[:3] == ["system", "user", "assistant"] for one in roles)
    assert "nothing changed" in demo()
    assert counts == [model.objects.count() for model in (Environment, Task, Trajectory, Score)]

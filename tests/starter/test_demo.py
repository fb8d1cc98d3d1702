"""The starter set is loaded again at each start; `loaded_demo.py` has what `manage.py demo` makes of it."""

from __future__ import annotations

import pytest

from synthesis.contracts import Reference
from synthesis.runtime import Sandbox
from synthesis.starter import load_bundle
from webapp.environments.services import save_environment
from webapp.scenarios.models import Task, TaskRevision
from webapp.scenarios.references import find_reference, save_reference
from webapp.scenarios.services import Start, save_task
from webapp.scenarios.starter_set import load_starter


@pytest.mark.django_db
def test_what_people_made_of_a_bundled_record_outlives_the_next_start(sandbox: Sandbox) -> None:
    environments, tasks, _ = load_bundle()
    environment, record = environments[0], next(one for one in tasks if one.environment_key == environments[0].key)
    load_starter(sandbox, [environment], [record])
    task = Task.objects.select_related("current", "scenario__version", "scenario__initial").get()
    assert task.current is not None
    other = Reference(calls=(), answer="By another way.")
    save_reference(task.current, other, "fork")
    load_starter(sandbox, [environment], [record])
    kept = find_reference(TaskRevision.objects.get())
    assert kept is not None
    assert kept.answer == "By another way."
    edited = record.model_copy(update={"instruction": "Be quick.", "raw": {**record.raw, "task": "Be quick."}})
    version, initial = task.scenario.version, task.scenario.initial
    made = save_task(edited, version, initial, Start(), "starter", asked=True).row
    fixed = environment.model_copy(update={"raw": {**environment.raw, "fixed": True}})
    _, there, newest = save_environment(fixed, [], "starter")
    load_starter(sandbox, [environment], [record])
    task.refresh_from_db()
    there.refresh_from_db()
    assert (task.current_id, task.current.number) == (made.current_id, 2)
    assert there.current_id == newest.pk

"""Edits of tasks that a rubric judges: criteria as lines, and what stored attempts earn by a verdict that is kept."""

from __future__ import annotations

import json

import pytest

from synthesis.errors import InputError
from synthesis.runtime import Sandbox
from tests.fixtures.llm import llm_server, say
from tests.rollouts_web.support import endpoint_at, make_task, person
from tests.rollouts_web.test_jobs import run
from webapp.edits import services
from webapp.edits.effects.run_effects import effect
from webapp.edits.effects.task_effects import prepared, settings_of
from webapp.edits.proposals import proposed_task, reading
from webapp.edits.saved_edit import save_edit
from webapp.endpoints.services import set_roles
from webapp.scenarios.models import Task
from webapp.trajectories.models import Trajectory
from webapp.trajectories.rollouts.services import start_rollout
from webapp.trajectories.rollouts.spec import Spec
from webapp.trajectories.stored_runs import stored_run

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webapp.jobs.services.wake", lambda job_id, queue: None)


def test_criteria_are_edited_as_lines_and_verdicts_hold_for_the_same_question(sandbox: Sandbox) -> None:
    form = {"answer_form": [{"name": "box", "type": "id", "required": False}], "expected_answer": {"box": "B-1"}}
    task = make_task(checks=False, criteria=("The box is open.",), **form)
    verdict = {"verdicts": [{"criterion": 1, "passed": True, "quote": '"call": '}]}
    with llm_server(lambda request: say(json.dumps(verdict))) as server:
        endpoint = endpoint_at(server.url, models=("judge-1",))
        set_roles(None, {"judge": f"{endpoint.pk}/judge-1"})
        run(start_rollout(person("operator"), task, Spec(policy="reference", attempts=1)))
        asked = len(server.requests)
    row = Trajectory.objects.get()
    assert (row.reward, asked) == (1.0, 1)
    editor = person("adjudicator", "eve")
    edit = services.start_task_edit(editor, task)
    for lines, known, earns in (
        (["The box is open."], True, 1.0),
        (["Ada's box is open."], False, None),
        (["The box is open.", "schema total: A number."], None, None),
        (["The box is open.", "completeness box: The box was told."], None, None),
    ):
        edit = services.keep_draft(editor, edit.pk, {"title": "Open it", "criteria": lines}, edit.serial)
        if known is None:
            continue
        proposed, start = prepared(sandbox, proposed_task(edit, edit.task, None))
        found = effect(sandbox, *settings_of(proposed, start), stored_run(row, proposed.revision))
        assert (found.known, found.after) == (known, earns), lines
    assert reading(edit) == ()
    save_edit(sandbox, editor, edit.pk, None)
    current = Task.objects.get(pk=task.pk).current
    assert current is not None
    told = {"text": "The box was told.", "dimension": "completeness", "field": "box"}
    assert current.criteria == ["The box is open.", told]
    assert current.record["criteria"] == current.criteria
    assert not current.checks.exists()
    draft = services.start_task_edit(editor, Task.objects.get(pk=task.pk))
    draft = services.keep_draft(editor, draft.pk, {"criteria": ["schema total: A number."]}, draft.serial)
    assert "the answer form has no field 'total'" in reading(draft)[0]
    with pytest.raises(InputError, match="no field 'total'"):
        save_edit(sandbox, editor, draft.pk, None)

"""Edits of tasks that a rubric judges: criteria as lines, and what stored attempts earn by a verdict that is kept."""

from __future__ import annotations

import json
from uuid import uuid4

import pytest

from synthesis.errors import InputError
from synthesis.runtime import Sandbox
from tests.fixtures.llm import llm_server, say
from tests.rollouts_web.support import endpoint_at, make_task, person
from tests.rollouts_web.test_jobs import run
from webapp.edits import services
from webapp.edits.draft_problems import list_draft_problems
from webapp.edits.effects.run_effects import RunEffect, compute_run_effect
from webapp.edits.effects.task_effects import build_settings, prepare_task
from webapp.edits.forecasts import TOO_OLD, compute_task_effect
from webapp.edits.models import Edit
from webapp.edits.proposals import propose_task
from webapp.edits.saved_edit import save_edit
from webapp.endpoints.services import set_roles
from webapp.scenarios.audits.rubric_judge import find_registered_judge
from webapp.scenarios.models import Task
from webapp.trajectories.models import Trajectory
from webapp.trajectories.rollouts.services import start_rollout
from webapp.trajectories.rollouts.spec import Spec
from webapp.trajectories.stored_runs import load_stored_run

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webapp.jobs.services.wake_job", lambda job_id, queue: None)


def forecast_with(sandbox: Sandbox, edit: Edit, row: Trajectory, passed: bool | None) -> RunEffect:
    """What the attempt would earn by a judge that says so of each fact; None gives no usable verdict."""
    said = {"verdicts": [{"criterion": 1, "passed": passed, "quote": '"call": '}]}
    services.keep_draft(edit.author, edit.pk, {"title": "Open it", "criteria": ["Ada's box is open."]}, edit.serial)
    edit.refresh_from_db()
    with llm_server(lambda request: say(json.dumps(said))) as server:
        endpoint = endpoint_at(server.url, name=uuid4().hex, models=("judge-1",))
        set_roles(None, {"judge": f"{endpoint.pk}/judge-1"})
        found = compute_task_effect(sandbox, edit, edit.task, None, [row.pk], find_registered_judge(), lambda: None)
    return found.runs[0]


def test_criteria_are_edited_as_lines_and_verdicts_hold_for_the_same_question(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
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
        proposed, start = prepare_task(sandbox, propose_task(edit, edit.task, None))
        found = compute_run_effect(sandbox, *build_settings(proposed, start), load_stored_run(row, proposed.revision))
        assert (found.known, found.after) == (known, earns), lines
    assert list_draft_problems(edit) == ()
    for passed, earns in ((True, 1.0), (False, 0.0)):
        found = forecast_with(sandbox, edit, row, passed)
        assert (found.known, found.before, found.after) == (True, 1.0, earns)
        assert found.same if passed else found.why.startswith("Criterion 1 does not hold any more. ")
        assert found.why.endswith("judge-1 judged it anew.") or passed
    with monkeypatch.context() as patched:
        patched.setattr("webapp.edits.forecasts.MOST_JUDGED", 0)
        older = forecast_with(sandbox, edit, row, True)
    assert (older.known, older.why) == (False, TOO_OLD)
    unusable = forecast_with(sandbox, edit, row, None)
    assert (unusable.known, unusable.after) == (False, None)
    assert "Not judged: " in unusable.why
    edit.refresh_from_db()
    body = {"title": "Open it", "criteria": ["The box is open.", "completeness box: The box was told."]}
    services.keep_draft(editor, edit.pk, body, edit.serial)
    save_edit(sandbox, editor, edit.pk, None)
    current = Task.objects.get(pk=task.pk).current
    assert current is not None
    told = {"text": "The box was told.", "dimension": "completeness", "field": "box"}
    assert current.criteria == ["The box is open.", told]
    assert current.record["criteria"] == current.criteria
    assert not current.checks.exists()
    draft = services.start_task_edit(editor, Task.objects.get(pk=task.pk))
    draft = services.keep_draft(editor, draft.pk, {"criteria": ["schema total: A number."]}, draft.serial)
    assert "the answer form has no field 'total'" in list_draft_problems(draft)[0]
    with pytest.raises(InputError, match="no field 'total'"):
        save_edit(sandbox, editor, draft.pk, None)

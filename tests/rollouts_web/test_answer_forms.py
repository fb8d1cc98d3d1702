"""A bundled task that asks for its answer in a form: on its page, over the API, and beside what an agent gave."""

from __future__ import annotations

import html
import json
import re

import pytest
from django.template.loader import render_to_string
from django.test import Client

from synthesis import starter
from synthesis.contracts import AnswerField
from synthesis.runtime import default_sandbox
from tests.rollouts_web.support import person
from tests.rollouts_web.test_jobs import run
from webapp.environments.services import program_of, save_environment
from webapp.scenarios.answer_form import form_rows, given_rows
from webapp.scenarios.importer import import_task
from webapp.scenarios.references import save_reference
from webapp.trajectories.models import Trajectory
from webapp.trajectories.rollouts.services import start_rollout
from webapp.trajectories.rollouts.spec import Spec

pytestmark = pytest.mark.django_db(transaction=True)
FOLDER = starter.HERE / "school_timetable"
RECORD = next(task for task in starter.tasks(FOLDER) if task.key == "school-french-exam")


def text(page: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", html.unescape(page)).split())


def test_the_form_stands_on_the_task_and_beside_the_answer() -> None:
    _, _, version = save_environment(starter.environment(FOLDER), [], "test")
    task = import_task(default_sandbox(), RECORD, version, program_of(version), "test").row
    assert task.current is not None
    assert RECORD.reference is not None
    save_reference(task.current, RECORD.reference, "test")
    reader = Client()
    reader.force_login(user := person())
    page = text(reader.get(f"/tasks/{task.pk}/").content.decode())
    assert "The answer is asked for in a form" in page
    assert "begins time HH:MM yes when it begins" in page
    told = reader.get(f"/api/v1/tasks/{task.pk}").json()["current"]
    assert [field["name"] for field in told["answer_form"]] == ["date", "begins", "ends"]
    run(start_rollout(user, task, Spec(policy="reference", attempts=1)))
    row = Trajectory.objects.get()
    assert row.outcome == "solved"
    steps = [text(reader.get(f"/trajectories/{row.pk}/?step={n}").content.decode()) for n in (0, row.step_count - 1)]
    assert ["The answer, in the form that the task asks for" in page for page in steps] == [False, True]
    assert "begins time HH:MM 10:30 10:30" in steps[1]


def test_what_is_given_is_read_as_its_checks_read_it() -> None:
    form = RECORD.answer_form
    rows, problem = given_rows(form, json.dumps({"date": "3 March 2027", "begins": "half ten", "ends": ["x"]}))
    assert [(row.given, row.read) for row in rows] == [
        ("3 March 2027", "2027-03-03"), ("half ten", "10:30"), ('["x"]', ""),
    ]  # fmt: skip
    assert problem == ""
    assert given_rows(form, "On the third.")[1] == "The answer is not in this form."
    twice = '{"date": "2027-03-03", "date": "2027-03-04"}'
    assert "given twice" in given_rows(form, twice)[1]


def test_a_field_that_may_be_left_out_is_told_as_such_and_compared_where_a_check_asks() -> None:
    form = (AnswerField(name="day", type="date"), AnswerField(name="tip", type="money", required=False))
    page = render_to_string("scenarios/task/answer_form.html", {"form_rows": form_rows(form)})
    assert text(page).endswith("day date YYYY-MM-DD yes tip money two decimals no")
    rows, problem = given_rows(form, '{"day": "2027-03-03"}')
    assert ([row.read for row in rows], problem) == (["2027-03-03", ""], "")

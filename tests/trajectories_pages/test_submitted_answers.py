"""Submitted answers beside what is expected: in the replay, in a comparison, on review pages, and given by hand."""

from __future__ import annotations

import html
import json
import re
from typing import Any

import pytest
from django.http import QueryDict
from django.test import Client

from synthesis.formats.answer_form import read_form
from synthesis.runtime import Sandbox
from tests.edits.seed import SeedLibrary, remembered_library
from tests.review import seed
from webapp.review.models import QueueItem
from webapp.scenarios.answers.answer_inputs import list_answer_inputs, read_answer
from webapp.scenarios.models import TaskRevision
from webapp.trajectories.models import Trajectory
from webapp.trajectories.replay.queries import find_answer_step

pytestmark = pytest.mark.django_db
HOSTILE = "<img src=x onerror=alert(1)>\u202e"
FORM = [
    {"name": "left", "type": "number", "unit": "packets", "tolerance": 0.5},
    {"name": "who", "type": "name", "description": f"who has them {HOSTILE}"},
    {"name": "stops", "type": "list", "items": {"name": "stop", "type": "text"}, "required": False},
]
EXPECTED = {"left": 11, "who": "Olga"}


def text(page: Any) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", html.unescape(page.content.decode())).split())


def submit(row: Trajectory, **given: Any) -> None:
    """End a stored attempt by an answer in the form, as a rollout records it, behind one that was refused."""
    known = TaskRevision.objects.get(pk=row.revision_id)
    record = known.record | {"answer_form": FORM, "expected_answer": EXPECTED}
    TaskRevision.objects.filter(pk=known.pk).update(record=record)
    for number, (arguments, ok) in enumerate((({"left": "eleven"}, False), (given, True))):
        error = {"kind": "malformed", "message": "not accepted: left: expected a number"}
        row.steps.create(
            index=row.step_count + number, kind="answer" if ok else "call", tool="submit_answer", arguments=arguments,
            ok=ok, result="The answer was submitted." if ok else error, error_kind="" if ok else "malformed",
        )  # fmt: skip
    row.answer, row.step_count = json.dumps(given), row.step_count + 2
    row.save()


def desk_of(row: Trajectory) -> str:
    """The review page of an attempt."""
    seed.queue(seed.people("adjudicator")[0], "Runs", "trajectory")
    return f"/review/items/{QueueItem.objects.get(trajectory=row).pk}/"


@pytest.fixture
def made(db: None, sandbox: Sandbox) -> SeedLibrary:
    return remembered_library(sandbox)


@pytest.fixture
def browser(db: None) -> Client:
    client = Client()
    client.force_login(seed.people("annotator")[0])
    return client


def test_each_field_is_shown_with_what_is_expected_and_whether_it_is_right(browser: Client, made: SeedLibrary) -> None:
    first, second = made.runs("three")
    submit(first, left=11.4, who=HOSTILE, stops=[f"stop {number}" for number in range(200)])
    submit(second, left=9, who="OLGA")
    last = first.step_count - 1
    assert find_answer_step(first) == last
    page = browser.get(f"/trajectories/{first.pk}/?step={last}")
    assert "left 11 ± 0.5 packets 11.4 ✓ right" in text(page)
    assert "✕ wrong" in text(page)
    assert "not compared" in text(page)
    assert "<img src=x" not in page.content.decode()
    refused = text(browser.get(f"/trajectories/{first.pk}/?step={last - 1}"))
    assert "It was refused, so it is not the answer" in refused
    assert "The submitted answer" not in text(browser.get(f"/trajectories/{first.pk}/?step=0"))
    beside = browser.get(f"/trajectories/compare/?ids={first.pk},{second.pk}")
    assert "≠ left expected 11 ✓ right 11.4 ✕ wrong 9" in text(beside)
    assert "✓ right OLGA" in text(beside)
    assert "<img src=x" not in beside.content.decode()
    desk = browser.get(desk_of(second))
    assert "left 11 ± 0.5 packets 9 ✕ wrong" in text(desk)


def test_an_attempt_that_submitted_nothing_says_so(browser: Client, made: SeedLibrary) -> None:
    [row, _] = made.runs("three")
    submit(row, left=11, who="Olga")
    Trajectory.objects.filter(pk=row.pk).update(answer="")
    desk = text(browser.get(desk_of(row)))
    assert "nothing was submitted" in desk
    assert "✓ right" not in desk


FIELDS: list[tuple[dict[str, Any], str, str, str]] = [
    ({"type": "number"}, "11", "", "11"),
    ({"type": "money"}, "5.999", "two decimals", ""),
    ({"type": "duration"}, "5,5", "Write a number", ""),
    ({"type": "date"}, "2027-02-30", "YYYY-MM-DD", ""),
    ({"type": "time"}, "08:15", "", '"08:15"'),
    ({"type": "boolean"}, "true", "", "true"),
    ({"type": "enumeration", "choices": ["a", "b"]}, '"b"', "", '"b"'),
    ({"type": "list", "items": {"name": "i", "type": "number"}}, "[1, 2", "not valid JSON", ""),
    ({"type": "name"}, " ", "This field is needed.", ""),
    ({"type": "name", "required": False}, "", "", ""),
]


@pytest.mark.parametrize(("raw", "given", "error", "value"), FIELDS)
def test_an_answer_by_hand_is_read_by_type_with_its_error_at_the_field(
    raw: dict[str, Any], given: str, error: str, value: str
) -> None:
    form = read_form({"answer_form": [{"name": "x", **raw}]}, "")
    post = QueryDict(mutable=True)
    post.update({"arg.x": given})
    [item], answer = read_answer(form, post)
    assert error in item.error
    assert bool(item.error) == bool(error)
    assert answer == ("" if error else f'{{"x": {value}}}' if value else "{}")
    wanted = raw["type"] if raw["type"] in ("date", "time") else "text"
    assert [one.input_type for one in list_answer_inputs(form)] == [wanted]

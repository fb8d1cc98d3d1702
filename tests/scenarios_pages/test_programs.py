"""The program of a task on its page: scripts, assertions, calls, rounds, answers elsewhere; bad and hostile records."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from tests.scenarios_pages import golden_desk as desk
from tests.scenarios_pages.test_golden import again, page
from webapp.scenarios.models import Task, TaskRevision
from webapp.scenarios.references import save_reference, to_reference

pytestmark = pytest.mark.django_db
VERIFY = f"def verify(answer, expected, initial_state, final_state):\n    return {{}}  # {desk.EVIL}\n"
PROGRAM: dict[str, Any] = {
    "solution": f"def solve(call):\n    return call('visit')  # {desk.EVIL}\n",
    "rounds": [
        {"script": "solution"},
        {"script": "verification", "fault": f"it lets pass what is wrong {desk.EVIL}"},
        {"script": "verification"},
    ],
    "siblings": [f'{{"room": "{desk.EVIL}"}}'],
}


CONSISTENCY = {"runs": 5, "solved": 3, "agree": 2, "turn_limit": 12, "turns": [4, 5, 6, 7, 12]}


def make(program: Any) -> Task:
    task = desk.make_task()
    verifier = {"source": VERIFY, "assertions": [f"The room is right {desk.EVIL}", "Nothing else was changed"]}
    rows = TaskRevision.objects.filter(pk=task.current_id)
    record = rows.get().record | {"programmatic": program}
    rows.update(verifier_kind="script", verifier=verifier, record=record, consistency=CONSISTENCY)
    return again(task)


def test_scripts_calls_rounds_and_answers_elsewhere_stand_on_the_tab(client: Client) -> None:
    task = make(PROGRAM)
    assert "tab=program" in page(client, task)
    text = page(client, task, "?tab=program")
    for words in (
        "1 for the solution, 2 for the verification",
        "3 of 5 runs solved it, needs 2",
        "Calls that the solution made",
        "Nothing else was changed",
        "sent back",
        "/visits/V-",
        "It ends with this answer",
    ):
        assert words in text, words
    assert "4, 5, 6, 7, 12" in text


def test_another_reference_and_an_older_record_are_told(client: Client) -> None:
    task = make({"solution": "def solve(call):\n    return {}\n", "consistency": None})
    revision = task.current
    assert revision is not None
    text = page(client, task, "?tab=program")
    assert "The rounds of this task were not kept with it" in text
    reference = to_reference(revision.references.get())
    save_reference(revision, reference.model_copy(update={"calls": reference.calls[:1]}), "human")
    assert "Another reference took the place" in page(client, task, "?tab=program")


@pytest.mark.parametrize("bad", ["text", {"solution": 5}, {**PROGRAM, "rounds": [{"script": "other"}]}])
def test_a_record_that_cannot_be_read_says_so(client: Client, bad: Any) -> None:
    assert "cannot be read" in page(client, make(bad), "?tab=program")


def test_a_task_without_a_program_has_no_such_tab(client: Client) -> None:
    assert "tab=program" not in page(client, desk.make_task())

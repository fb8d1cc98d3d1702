"""The answer form of a task: edited without a script, saved with what follows from it, shown, superseded."""

from __future__ import annotations

import html
import importlib
import json
import re
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from synthesis.formats.files import Entry
from synthesis.runtime import Sandbox
from tests.edits.seed import SeedLibrary, scenario_record
from tests.edits.test_pages import carried_out
from tests.fixtures.api import program
from webapp.accounts.models import User
from webapp.common.errors import ChangedMeanwhile
from webapp.edits import services
from webapp.edits.models import Edit
from webapp.edits.stale_edit import build_stale_sides
from webapp.review.task_gate import list_obstacles
from webapp.scenarios.importer import import_entries
from webapp.scenarios.models import Task, TaskRevision
from webapp.scenarios.references import find_reference
from webapp.trajectories.rollouts.services import find_obstacle

pytestmark = pytest.mark.django_db
HOSTILE = "<img src=x onerror=alert(1)>\u202e"
SAYS = "def check(initial_state, final_state, answer):\n    return says_number(answer, 11, 'packet')\n"


def text(page: Any) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", html.unescape(page.content.decode())).split())


def typed(context: Any) -> dict[str, Any]:
    """What a browser sends of a task's draft as its page shows it."""
    found: dict[str, Any] = {"form_sent": "1", "form_row": [row.key for row in context["form_rows"]]}
    for row in context["form_rows"]:
        texts = ("level", "name", "type", "description", "unit", "tolerance", "choices", "expected")
        found |= {f"form-{row.key}-{name}": getattr(row, name) for name in texts}
        found |= {f"form-{row.key}-optional": "1"} if not row.required else {}
    return found | {
        "title": context["title"],
        "instruction": context["instruction"],
        "check_label": [check["label"] for check in context["checks"]],
        "check_source": [check["source"] for check in context["checks"]],
        "calls": context["calls_text"],
        "answer": context["answer"],
        "serial": context["edit"].serial,
    }


def test_a_person_gives_a_task_an_answer_form_and_everything_follows(browser: Client, made: SeedLibrary) -> None:
    task = made.task("three")
    address = browser.post(f"/edits/task/{task.pk}/")["Location"]
    page = browser.get(address)
    assert "The task asks for no answer in a form." in text(page)
    drawn = browser.post(f"{address}keep/", typed(page.context) | {"act": "form_add"})
    assert Edit.objects.get().serial == 0, "nothing is kept by drawing a row"
    [row] = drawn.context["form_rows"]
    sent = typed(drawn.context) | {
        f"form-{row.key}-name": "left", f"form-{row.key}-type": "number", f"form-{row.key}-unit": "packets",
        f"form-{row.key}-description": f"how many of S-1 are left {HOSTILE}", f"form-{row.key}-expected": "eleven",
    }  # fmt: skip
    refused = browser.post(f"{address}keep/", sent | {"act": "keep"})
    assert refused.status_code == 422
    assert f'id="form-{row.key}-error" role="alert"' in refused.content.decode()
    assert "Expected: write a number, such as 5.9." in text(refused)
    part = browser.post(
        f"{address}keep/", sent | {"act": "keep"}, headers={"HX-Request": "true", "HX-Target": "edit-kept"}
    )
    assert f'href="#form-{row.key}"' in part.content.decode()
    assert 'hx-swap-oob="true"' in part.content.decode(), "the error reaches the field while one types elsewhere"
    good = sent | {f"form-{row.key}-expected": "11", f"form-{row.key}-tolerance": "0.5", "act": "keep"}
    assert browser.post(f"{address}keep/", good).status_code == 302
    page = browser.get(address)
    assert "1 check from the answer form, which only its fields change" in text(page)
    assert page.context["answer"] == '{"left": 11}', "the reference answers what is expected"
    assert "<img src=x" not in page.content.decode()
    assert browser.post(f"{address}keep/", typed(page.context) | {"act": "save"}).status_code == 302
    assert carried_out("save_edit").state == "succeeded"
    task = made.task("three")
    assert task.current is not None
    assert [check.label.split(":")[0] for check in task.current.checks.all()] == [
        "Three of S-1 are lent", "The answer is right",
    ]  # fmt: skip
    assert task.audit_state == "green"
    shown = browser.get(f"/tasks/{task.pk}/")
    assert "a number packets ± 0.5 packets 11" in text(shown)
    assert "from the answer form" in text(shown)
    assert "<img src=x" not in shown.content.decode()
    told = browser.get(f"/api/v1/tasks/{task.pk}").json()["current"]
    assert (told["answer_form"][0]["unit"], told["expected_answer"]) == ("packets", {"left": 11})
    assert "left" in text(browser.get(f"/tasks/{task.pk}/reference/"))
    number = task.current.number
    moved = text(browser.get(f"/tasks/{task.pk}/diff/{number - 1}/{number}/"))
    assert "Answer form" in moved
    assert "Expected answer" in moved


def form(**changes: Any) -> dict[str, Any]:
    fields = [{"name": "left", "type": "number", **changes}, {"name": "who", "type": "name", "required": False}]
    return {"answer_form": fields, "expected_answer": {"left": 11}}


def test_a_stale_draft_says_what_became_of_the_form_and_keeps_its_own_fields(
    person: User, made: SeedLibrary, sandbox: Sandbox
) -> None:
    from webapp.edits.saved_edit import save_edit

    task = made.task("three")
    mine, theirs = (services.start_task_edit(user, task) for user in (person, User.objects.create(username="other")))
    services.keep_draft(person, mine.pk, form(description="mine"), 0)
    services.keep_draft(theirs.author, theirs.pk, form() | {"expected_answer": {"left": 11, "who": "Li"}}, 0)
    save_edit(sandbox, theirs.author, theirs.pk, None)
    with pytest.raises(ChangedMeanwhile):
        save_edit(sandbox, person, mine.pk, None)
    sides = build_stale_sides(services.find_edit(mine.pk), None)
    assert [part.title for part in sides.theirs][:2] == ["Theirs: Answer form", "Theirs: Expected answer"]
    assert [part.title for part in sides.mine][:2] == ["Mine: Answer form", "Mine: Expected answer"]
    renewed = services.renew_base(person, mine.pk)
    assert renewed.body["answer_form"][0]["description"] == "mine"
    assert renewed.body.get("expected_answer", {"left": 11, "who": "Li"}) == {"left": 11, "who": "Li"}


def test_the_api_takes_a_form_and_refuses_one_that_judges_nothing(person: User, made: SeedLibrary) -> None:
    caller = program(person, "read", "review")
    draft = caller.post("/edits", {"task": made.task("three").pk}).json()["id"]

    def put(body: dict[str, Any]) -> Any:
        headers = {**caller.headers, "If-Match": caller.get(f"/edits/{draft}").headers["ETag"]}
        return caller.client.put(f"/api/v1/edits/{draft}", json.dumps(body), "application/json", headers=headers)

    bad: list[tuple[dict[str, Any], str]] = [
        ({"answer_form": [{"name": "left", "type": "enumeration"}]}, "choices"),
        ({"answer_form": [{"name": "left"}, {"name": "left"}]}, "two fields are named"),
        (form() | {"expected_answer": {"left": "11"}}, "expected a number"),
        ({"expected_answer": {"left": 11}}, "no field of this name"),
        ({"checks": []}, "Nothing judges the task"),
        (form() | {"reference": {"calls": [], "answer": "Eleven."}}, "no answer in the form"),
        ({"answer_form": [{"name": f"f{n}"} for n in range(21)]}, "20"),
    ]
    for body, words in bad:
        answer = put(body)
        assert (answer.status_code, words in answer.content.decode()) == (422, True), (body, answer.content)
    assert put(form() | {"checks": []}).status_code == 200, "a form judges alone too"
    told = caller.get(f"/edits/{draft}").json()["body"]
    assert (told["answer_form"][1]["required"], told["checks"]) == (False, [])


def test_what_an_imported_task_wants_said_is_kept_as_a_weak_check(
    browser: Client, made: SeedLibrary, sandbox: Sandbox
) -> None:
    facts = {"contains": ["It's 73.30", HOSTILE, "It's 73.30"]}
    record = scenario_record("three") | {"task_id": "told"} | facts
    report = import_entries(sandbox, [], [Entry("[0]", record)], "envscaler")
    assert not report["tasks"]["failed"], report
    task = Task.objects.select_related("current").get(key="told")
    shown = browser.get(f"/tasks/{task.pk}/")
    assert text(shown).count("weak: a substring of what was said") == 2
    assert "<img src=x" not in shown.content.decode()
    assert task.current is not None
    source = task.current.checks.get(label="The agent said: It's 73.30").source
    known: dict[str, Any] = {}
    exec(source, known)
    said = ("Well, IT'S 73.30.", "73.30", "", None)
    assert [known["check"]({}, {}, words) for words in said] == [True, False, False, False]
    from webapp.scenarios.audits.audit_job import audit_tasks

    audit_tasks(sandbox, [task.pk])
    kinds = list(Task.objects.get(pk=task.pk).audit.faults.values_list("kind", flat=True))  # type: ignore[union-attr]
    assert kinds.count("weak_check") == 2
    both = scenario_record("three") | {"task_id": "both"} | facts | form()
    refused = import_entries(sandbox, [], [Entry("[0]", both)], "envscaler")
    assert "nothing that is said counts" in str(refused["tasks"]["failed"])


def test_a_home_of_the_last_version_marks_what_read_words_and_proposes_a_form(
    browser: Client, made: SeedLibrary, person: User
) -> None:
    task, other = made.task("three"), made.task("eight")
    assert task.current is not None
    before = list(made.runs("three")[0].scores.values())
    task.current.checks.create(position=1, label="It says how many are left", source=SAYS, mark="goal")
    migration = importlib.import_module("webapp.scenarios.migrations.0010_superseded")
    with connection.cursor() as cursor:
        cursor.execute(migration.MARK)
        cursor.execute(migration.COPY)
    task, other = made.task("three"), made.task("eight")
    revision = TaskRevision.objects.get(pk=task.current_id)
    assert (task.superseded, other.superseded) == (True, False)
    assert "by says_number(), which" in revision.superseded
    assert "This task is superseded." in find_obstacle(revision)
    assert [one.code for one in list_obstacles(task)] == ["superseded"]
    assert list(made.runs("three")[0].scores.values()) == before
    listed = browser.get("/tasks/?review=superseded")
    assert [row.pk for row in listed.context["page"].rows] == [task.pk]
    assert "superseded" in text(listed)
    page = text(browser.get(f"/tasks/{task.pk}/"))
    assert "This revision can no longer be attempted" in page
    assert "number It says how many are left a number packet 11" in page
    told = browser.get(f"/api/v1/tasks/{task.pk}").json()
    assert (told["superseded"], told["current"]["superseded"]) == (True, revision.superseded)
    address = browser.post(f"/edits/task/{task.pk}/")["Location"]
    assert Task.objects.get(pk=task.pk).current_id == revision.pk, "nothing is applied unasked"
    draft = browser.get(address)
    assert [row.expected for row in draft.context["form_rows"]] == ["11"]
    assert draft.context["answer"] == '{"number": 11}'
    assert [check["label"] for check in draft.context["checks"]] == ["Three of S-1 are lent"]
    browser.post(f"{address}keep/", typed(draft.context) | {"act": "save"})
    assert carried_out("save_edit").state == "succeeded"
    saved = made.task("three")
    assert (saved.superseded, saved.audit_state) == (False, "green")
    assert saved.current is not None
    assert find_reference(saved.current).answer == '{"number": 11}'  # type: ignore[union-attr]
    assert TaskRevision.objects.get(pk=revision.pk).superseded == revision.superseded


def test_a_check_that_names_no_value_is_written_anew_before_it_is_saved(browser: Client, made: SeedLibrary) -> None:
    task = made.task("three")
    assert task.current is not None
    denied = SAYS.replace("says_number(answer, 11, 'packet')", "not denies(answer, 'lent')")
    task.current.checks.create(position=1, label="It is not denied", source=denied, mark="guard")
    TaskRevision.objects.filter(pk=task.current_id).update(superseded="Its checks read words.")
    assert "No expected value can be read from its checks" in text(browser.get(f"/tasks/{task.pk}/"))
    address = browser.post(f"/edits/task/{task.pk}/")["Location"]
    assert "Check 2 calls denies(), which reads the words of an answer" in text(browser.get(address))

"""A task is changed from checks to a verification script and back: on its page, over the API, restored, stale."""

from __future__ import annotations

import html
import json
import re
from typing import Any

import pytest
from django.test import Client

from synthesis.runtime import Sandbox
from tests.edits.seed import SeedLibrary
from tests.edits.test_answer_forms import text, typed
from tests.fixtures.api import program
from webapp.accounts.models import User
from webapp.edits import services
from webapp.edits.draft_problems import list_draft_problems
from webapp.edits.models import Edit
from webapp.edits.saved_edit import save_edit
from webapp.edits.stale_edit import build_stale_sides
from webapp.scenarios.models import Task

pytestmark = pytest.mark.django_db
HOSTILE = "<img src=x onerror=alert(1)>"
SCRIPT = f'''"""{HOSTILE}"""
def verify(answer, expected, initial_state, final_state):
    lots = final_state["lots"]
    return {{"eleven are left": lots["S-1"]["packets"] == 11, "{HOSTILE}": lots["S-2"]["packets"] == 10}}
'''
ASSERTIONS = ["eleven are left", HOSTILE]
CHECK = "def check_func(final_state):\n    return final_state['lots']['S-1']['packets'] == 11\n"


def sent(context: Any, **changes: Any) -> dict[str, Any]:
    """What a browser sends of a task's draft as its page shows it."""
    verifier = context["verifier"]
    script = {"script_source": verifier.get("source", ""), "assertions": context["assertions_text"]}
    return typed(context) | {"verifier_kind": verifier["kind"]} | script | changes


def test_a_task_is_given_a_script_and_its_page_says_so(browser: Client, made: SeedLibrary, sandbox: Sandbox) -> None:
    task = made.task("three")
    before = [row.reward for row in made.runs("three")]
    address = browser.post(f"/edits/task/{task.pk}/")["Location"]
    drawn = browser.post(
        f"{address}keep/", sent(browser.get(address).context, verifier_kind="script", act="verifier_kind")
    )
    assert Edit.objects.get().serial == 0, "nothing is kept by drawing the inputs"
    assert "def verify(answer, expected, initial_state, final_state):" in html.unescape(drawn.content.decode())
    assert drawn.context["checks"], "the checks go along, to be chosen again"
    for changes, said in (
        ({"script_source": ""}, "The script is empty."),
        ({"script_source": "def verify(a, b, c, d)\n    pass"}, "line 1: expected ':'"),
        ({"script_source": "def judge(): pass"}, "it defines no function `verify("),
        ({"script_source": "import os\n" + SCRIPT}, "line 1: "),
        ({"script_source": "#" * 20_001}, "The script may have 20,000 characters"),
        ({"assertions": "done\n\n done"}, "Two assertions are named 'done'."),
        ({"assertions": ""}, "No assertion is named"),
        ({"assertions": "\n".join(map(str, range(51)))}, "A script has at most 50 assertions; here are 51."),
    ):
        page = browser.post(f"{address}keep/", sent(drawn.context, act="keep", **changes), follow=True)
        field = "assertions" if "assertions" in changes else "script"
        shown = re.search(rf'id="edit-{field}-error"[^>]*>([^<]*)<', page.content.decode())
        assert said in html.unescape(shown[1] if shown else ""), changes
        drawn.context["edit"].serial = Edit.objects.get().serial
    good = sent(drawn.context, script_source=SCRIPT, assertions="\n".join(ASSERTIONS), act="keep")
    part = browser.post(f"{address}keep/", good, headers={"HX-Request": "true", "HX-Target": "edit-kept"})
    assert 'id="edit-script-error"' in part.content.decode(), "a field's error goes as soon as it is mended"
    edit = Edit.objects.get()
    assert list_draft_problems(edit) == ()
    changed = text(browser.get(address))
    assert "Assertions" in changed
    save_edit(sandbox, edit.author, edit.pk, None)
    task = made.task("three")
    assert task.current is not None
    assert (task.verifier_kind, task.check_count, task.audit_state) == ("script", 2, "green")
    assert list(task.current.checks.values_list("label", flat=True)) == ASSERTIONS
    assert [row.reward for row in made.runs("three")] == before == [1.0, 0.0]
    page = browser.get(f"/tasks/{task.pk}/")
    assert HOSTILE not in page.content.decode()
    assert re.sub(r"<[^>]+>", "", page.content.decode()).count("def verify(") == 1
    assert "Verification script 2 assertions" in text(page)
    assert "read_answer" not in text(page), "no generated source"
    row = task.current.checks.first()
    assert row is not None
    assert "read_answer" not in text(browser.get(f"/checks/{row.pk}/"))


def script_body(**changes: Any) -> dict[str, Any]:
    return {"verifier": {"kind": "script", "source": SCRIPT, "assertions": ASSERTIONS} | changes}


def test_the_api_takes_a_script_and_shows_it_whole(person: User, made: SeedLibrary, sandbox: Sandbox) -> None:
    caller = program(person, "read", "review")
    task = made.task("three")
    draft = caller.post("/edits", {"task": task.pk}).json()["id"]

    def put(body: dict[str, Any]) -> Any:
        headers = {**caller.headers, "If-Match": caller.get(f"/edits/{draft}").headers["ETag"]}
        return caller.client.put(f"/api/v1/edits/{draft}", json.dumps(body), "application/json", headers=headers)

    assert put(script_body(assertions=["a", "a"])).status_code == 422
    assert put({"verifier": {"kind": "golden"}}).status_code == 422
    assert put(script_body(source="import os\n" + SCRIPT)).status_code == 200, "a draft may be wrong"
    refused = save_refused(sandbox, person, draft)
    assert "line 1: " in refused
    assert put(script_body()).json()["body"] == script_body()
    save_edit(sandbox, person, draft, None)
    told = caller.get(f"/tasks/{task.pk}").json()
    assert told["verifier_kind"] == "script"
    verifier = told["current"]["verifier"]
    assert (verifier["kind"], verifier["source"], verifier["assertions"]) == ("script", SCRIPT, ASSERTIONS)
    assert [row["id"] for row in caller.get("/tasks?verifier=script").json()["data"]] == [task.pk]
    old = caller.get(f"/tasks/{task.pk}/revisions/1").json()["verifier"]
    assert (old["kind"], old["rule"], [check["source"] for check in old["checks"]]) == ("checks", "proportion", [CHECK])


def save_refused(sandbox: Sandbox, person: User, draft: int) -> str:
    from synthesis.errors import InputError

    with pytest.raises(InputError) as refused:
        save_edit(sandbox, person, draft, None)
    return str(refused.value)


def test_a_script_is_changed_back_compared_and_restored(
    browser: Client, person: User, made: SeedLibrary, sandbox: Sandbox
) -> None:
    task = made.task("three")
    edit = services.start_task_edit(person, task)
    services.keep_draft(person, edit.pk, script_body(), 0)
    other = services.start_task_edit(User.objects.create(username="other"), task)
    services.keep_draft(other.author, other.pk, {"verifier": script_body()["verifier"] | {"assertions": ["eleven"]}}, 0)
    save_edit(sandbox, person, edit.pk, None)
    sides = build_stale_sides(services.find_edit(other.pk), None)
    titles = ["Verifier", "Score rule", "Verification script", "Assertions", "Check 1"]
    assert [part.title for part in sides.theirs] == [f"Theirs: {title}" for title in titles]
    assert [part.title for part in sides.mine] == [f"Mine: {title}" for title in titles]
    script = made.task("three").current
    assert script is not None
    moved = text(browser.get(f"/tasks/{task.pk}/diff/{script.number - 1}/{script.number}/"))
    assert all(title in moved for title in titles)
    back = services.start_task_edit(person, made.task("three"))
    with pytest.raises(Exception, match="Nothing judges the task"):
        services.keep_draft(person, back.pk, {"verifier": {"kind": "checks"}}, 0)
    body = {"verifier": {"kind": "checks"}, "checks": [{"label": "Three of S-1 are lent", "source": CHECK}]}
    services.keep_draft(person, back.pk, body, 0)
    save_edit(sandbox, person, back.pk, None)
    task = Task.objects.select_related("current").get(pk=task.pk)
    assert task.current is not None
    assert (task.verifier_kind, task.current.score_rule, task.audit_state) == ("checks", "proportion", "green")
    assert "verifier" not in task.current.record
    assert json.dumps(task.current.record).count("read_answer") == 0
    first = services.start_task_restore(person, task.revisions.get(number=1))
    assert "revision" not in first.body["verifier"]
    restored = services.start_task_restore(person, script)
    assert restored.body["verifier"] == script_body()["verifier"]
    save_edit(sandbox, person, restored.pk, None)
    again = made.task("three").current
    assert again is not None
    assert again.verifier_hash == script.verifier_hash
    checks = services.start_task_restore(person, task.current)
    address = f"/edits/{checks.pk}/"
    assert browser.post(f"{address}keep/", typed(browser.get(address).context) | {"act": "keep"}).status_code == 302
    save_edit(sandbox, person, checks.pk, None)
    last = made.task("three").current
    assert last is not None
    assert last.verifier_hash == task.current.verifier_hash, "its rule comes back as well"


def test_a_check_outside_of_its_language_is_told_with_its_line(
    browser: Client, person: User, made: SeedLibrary, sandbox: Sandbox
) -> None:
    edit = services.start_task_edit(person, made.task("three"))
    swallowing = (
        "def check(final_state):\n    try:\n        return final_state['x']\n    except:\n        return True\n"
    )
    address, told = f"/edits/{edit.pk}/", "Check 2 cannot be run: line 4: a bare `except`; name what may be raised"
    assert "cannot be run" not in text(browser.get(address))
    checks = {"check_label": ["Three of S-1 are lent", "It lies"], "check_source": [CHECK, swallowing]}
    draft = sent(browser.get(address).context, act="keep") | checks
    part = browser.post(f"{address}keep/", draft, headers={"HX-Request": "true", "HX-Target": "edit-kept"})
    assert told in text(part)
    assert told in text(browser.get(address))
    save_edit(sandbox, person, edit.pk, None)
    assert made.task("three").audit_state == "red"

"""Pages of edits without a script: typed in, tried on its cases, worked out, and saved by a job."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from django.test import Client
from django.utils.html import escape

from synthesis.errors import InputError
from synthesis.formats.files import Entry
from tests.edits.seed import LOTS, PROGRAM, RIGHT, WRONG, SeedLibrary, assessed, environment_record
from tests.fixtures.api import program
from tests.review import seed
from webapp.accounts.models import User
from webapp.edits import services
from webapp.edits.case_runs import find_flaky_cases, list_cases
from webapp.edits.draft_body import read_calls, read_program_body, read_state
from webapp.edits.models import Edit
from webapp.edits.proposals import get_editable_source
from webapp.environments.models import Version
from webapp.environments.services import build_program
from webapp.jobs import services as jobs
from webapp.jobs.jobs import execute_job
from webapp.jobs.models import Job
from webapp.review.decisions import DecisionChoice, create_decision
from webapp.review.desk import list_history
from webapp.review.models import QueueItem, ReviewDecision
from webapp.review.subjects import build_entity_tag
from webapp.scenarios.importer import import_entries

if TYPE_CHECKING:
    from synthesis.runtime import Sandbox

pytestmark = pytest.mark.django_db
HOSTILE = "<img src=x onerror=alert(1)>\u202e"


def carried_out(kind: str) -> Job:
    """The newest job of a kind, as a worker does it."""
    job = jobs.claim_job(Job.objects.filter(kind=kind).order_by("-id")[0].pk, "a test")
    assert job is not None
    execute_job(job)
    job.refresh_from_db()
    return job


def opened(browser: Client, made: SeedLibrary) -> Edit:
    answer = browser.post(f"/edits/tool/{made.tool.pk}/")
    return Edit.objects.get(pk=int(answer["Location"].strip("/").split("/")[-1]))


def test_a_tool_is_mended_tried_on_its_cases_worked_out_and_saved(
    browser: Client, sandbox: Sandbox, made: SeedLibrary
) -> None:
    assessed(sandbox, made)
    edit = opened(browser, made)
    page = browser.get(f"/edits/{edit.pk}/").content.decode()
    assert "verdicts cite line 14" in page
    with pytest.raises(InputError, match="300,000 characters"):  # the site parses it itself
        read_program_body({"source": "a;" * 150_001})
    with pytest.raises(InputError, match="60,000 words and signs"):
        read_program_body({"source": "a;" * 40_000})
    text, _ = get_editable_source(edit.version, edit.tool)
    form = {"tool_source": text.replace(WRONG, RIGHT), "why": "Five stay.", "serial": edit.serial}
    tried = browser.post(f"/edits/{edit.pk}/keep/", form | {"act": "cases"}).content.decode()
    assert "<b>1</b> as expected now" in tried
    assert "as before" in tried
    assert 'value="1"' in tried, "the next form carries the draft's new serial"
    one = made.environment.current.assessments.get().cases.get(position=0)  # type: ignore[union-attr]
    single = browser.post(f"/edits/{edit.pk}/keep/", form | {"case": one.pk, "serial": 1}).content.decode()
    assert "1 ran in" in single
    edit.refresh_from_db()
    form["serial"] = edit.serial
    flaky = browser.post(f"/edits/{edit.pk}/keep/", form | {"act": "flaky", "serial": 2}).content.decode()
    assert "none is flaky" in flaky
    answer = browser.post(f"/edits/{edit.pk}/keep/", form | {"act": "forecast", "serial": 3})
    assert answer["Location"] == f"/edits/{edit.pk}/forecast/"
    assert "Being computed" in browser.get(answer["Location"]).content.decode()
    assert carried_out("forecast_edit").state == "succeeded"
    worked = browser.get(answer["Location"]).content.decode()
    assert "1 up, 1 down" in worked
    assert "Call 1, lend_packets, is refused now." in worked
    browser.post(f"/edits/{edit.pk}/save/", {"serial": 4})
    assert carried_out("save_edit").result["version"] == 2
    assert "Saved" in browser.get(f"/edits/{edit.pk}/").content.decode()
    assert Version.objects.filter(environment=made.environment).count() == 2


def test_a_tool_that_tosses_a_coin_or_looks_at_the_clock_is_flaky(sandbox: Sandbox, made: SeedLibrary) -> None:
    assessed(sandbox, made)
    tool = made.tool
    found = "        lot = self.lots.get(lot_id)\n"
    tosses = f'        if random.random() < 0.5:\n            return {{"success": False}}\n{found}'
    dated = f'        if datetime.datetime.now().year < 2025:\n            return {{"success": False}}\n{found}'
    cases = list_cases(tool.version.assessments.get(), tool.name)
    for words, inside in (("one seed", tosses), ("one moment", dated), ("", found)):
        source = "import datetime\nimport random\n" + tool.version.source.replace(found, inside)
        program = build_program(tool.version).model_copy(update={"source": source})
        flaky, ran = find_flaky_cases(sandbox, program, cases)
        assert ran == len(cases)
        assert {words in one.why for one in flaky} == ({True} if words else set())
    assert find_flaky_cases(sandbox, program, cases, seconds=-1) == ([], 0)


def test_a_program_too_long_to_be_read_between_two_pages_is_not_edited_here(browser: Client, made: SeedLibrary) -> None:
    version = made.tool.version
    Version.objects.filter(pk=version.pk).update(source=f"{version.source}\nLONG = [{'0,' * 40_000}]\n")
    edit = opened(browser, made)
    assert "60,000 words and signs" in browser.get(f"/edits/{edit.pk}/").content.decode()
    sent = {"tool_source": "def x(self): ...", "serial": edit.serial, "act": "cases"}
    refused = browser.post(f"/edits/{edit.pk}/keep/", sent)
    assert refused.status_code == 422
    assert "60,000 words and signs" in refused.content.decode()
    whole = browser.post(f"/edits/program/{version.pk}/")
    sent = {"source": f"{version.source}\n# mine", "serial": 0, "act": "keep"}
    assert browser.post(f"{whole['Location']}keep/", sent).status_code == 302, "a shorter one may take its place"


@pytest.mark.parametrize(
    ("value", "status", "said"),
    [
        ("1e999", 400, "a number too large to keep (1e999)"),
        ("9" * 1_001, 400, "a number of more than 1000 digits"),
        ("[" * 300 + "]" * 300, 422, "nested 100 levels deep at most"),
        ("[" * 800 + "]" * 800, 400, "450 levels"),
        ("[" * 90 + "]" * 90, 200, ""),
    ],
)
def test_what_no_call_can_hold_is_refused_before_it_is_kept(
    person: User, made: SeedLibrary, value: str, status: int, said: str
) -> None:
    caller = program(person, "read", "review")
    draft = caller.post("/edits", {"task": made.task("three").pk}).json()["id"]
    headers = {**caller.headers, "If-Match": caller.get(f"/edits/{draft}").headers["ETag"]}
    body = f'{{"reference": {{"calls": [{{"tool": "list_lots", "arguments": {{"a": {value}}}}}]}}}}'
    answer = caller.client.generic("PUT", f"/api/v1/edits/{draft}", body, "application/json", headers=headers)
    assert (answer.status_code, said in answer.content.decode()) == (status, True), answer.content


def test_a_state_that_is_typed_is_weighed_and_measured_before_it_is_read() -> None:
    with pytest.raises(InputError, match="24 MiB of memory"):
        read_state('{"lots": [' + "[]," * 400_000 + "[]]}")
    with pytest.raises(InputError, match="450 levels"):
        read_state('{"lots": ' + "[" * 500 + "]" * 500 + "}")
    with pytest.raises(InputError, match="100 levels"):
        read_calls("[" * 300 + "]" * 300)


def test_what_is_typed_wrongly_is_shown_again_with_what_is_wrong(browser: Client, made: SeedLibrary) -> None:
    task = made.task("three")
    answer = browser.post(f"/edits/task/{task.pk}/")
    address = answer["Location"]
    edit = Edit.objects.get()
    form = {
        "title": HOSTILE, "instruction": f"Do it {HOSTILE}",
        "check_label": ["One"], "check_source": ["def check_func("],
        "calls": "[{", "answer": "", "state": json.dumps({"lots": LOTS, "loans": {}}), "serial": 0, "act": "keep",
    }  # fmt: skip
    refused = browser.post(f"{address}keep/", form)
    page = refused.content.decode()
    assert refused.status_code == 422
    assert "The reference&#x27;s calls" in page
    assert "<img src=x" not in page
    assert "def check_func(" in page
    said = browser.post(f"{address}keep/", form | {"answer": "Three it is."}).content.decode()
    assert "Three it is." in said
    assert browser.post(f"{address}keep/", form | {"calls": "[]"}).status_code == 302
    assert browser.get(address).context["calls_text"] == "[]", "the draft takes the reference away"
    edit.refresh_from_db()
    assert edit.serial == 1
    assert browser.post(f"{address}keep/", form | {"calls": "[]"}).status_code == 302, "the same draft is no conflict"
    stale = browser.post(f"{address}keep/", form | {"calls": "[]", "title": "Another"})
    assert stale.status_code == 412
    assert "another tab" in stale.content.decode()
    assert "<img src=x" not in browser.get(address).content.decode()
    browser.post(f"{address}keep/", form | {"calls": "[]", "act": "save", "serial": 1})
    carried_out("save_edit")
    task.refresh_from_db()
    assert task.audit_state == "red", "a check that is not Python can be saved, and is red"


def test_a_stale_edit_of_a_tool_shows_mine_theirs_and_what_both_began_from(
    browser: Client, sandbox: Sandbox, made: SeedLibrary
) -> None:
    edit = opened(browser, made)
    text, _ = get_editable_source(edit.version, edit.tool)
    mine, theirs = text.replace("five stay", f"mine {HOSTILE}"), text.replace("five stay", "theirs of a tab")
    kept = browser.post(f"/edits/{edit.pk}/keep/", {"tool_source": theirs, "serial": 0, "act": "keep"})
    assert kept.status_code == 302
    answer = browser.post(f"/edits/{edit.pk}/keep/", {"tool_source": mine, "serial": 0, "act": "save"})
    page = answer.content.decode()
    assert answer.status_code == 412
    for words in ("<h2>Mine</h2>", "<h2>Theirs</h2>", "as another tab kept it", "version 1"):
        assert words in page
    side = page.split("<h2>Mine</h2>")[1].split("<h2>Theirs</h2>")
    assert "mine &lt;img" in side[0]
    assert "theirs of a tab" in side[1]
    assert "<img src=x" not in page
    other = other_version(sandbox, made)
    answer = browser.post(f"/edits/{edit.pk}/save/", {"serial": 1})
    page = answer.content.decode()
    assert answer.status_code == 412
    assert "theirs of a tab" in page.split("<h2>Mine</h2>")[1].split("<h2>Theirs</h2>")[0]
    assert escape(RIGHT) in page.split("<h2>Theirs</h2>")[1]
    assert f"Version {other}" in page
    assert "other tab" not in page, "another person changed it"
    refused = browser.post(f"/edits/{edit.pk}/keep/", {"tool_source": mine, "serial": 1, "act": "save"})
    assert refused.status_code == 412
    assert Version.objects.filter(environment=made.environment).count() == 2


def other_version(sandbox: Sandbox, made: SeedLibrary) -> int:
    """A further version of the environment, as somebody else's import makes it; its number."""
    import_entries(sandbox, [Entry("[0]", environment_record(PROGRAM.replace(WRONG, RIGHT)))], [], "envscaler")
    made.environment.refresh_from_db()
    assert made.environment.current is not None
    return made.environment.current.number


def test_a_decision_on_a_tool_that_was_changed_shows_mine_theirs_and_what_was_seen(
    browser: Client, sandbox: Sandbox, made: SeedLibrary
) -> None:
    assessed(sandbox, made)
    tool = made.tool
    seen = build_entity_tag("tool", tool)
    number = other_version(sandbox, made)
    form = {"verdict": "tool_bug", "comment": "Mine.", "seen": seen}
    answer = browser.post(f"/review/tool/{tool.pk}/decide/", form)
    page = answer.content.decode()
    assert (answer.status_code, number) == (412, 2)
    for words in (
        "Mine.",
        "What you saw",
        "five stay",
        "version 2 of its environment",
        escape(RIGHT),
    ):
        assert words in page
    assert not ReviewDecision.objects.exists()
    queue = seed.queue(seed.people("operator")[0], "Tools", kind="tool")
    desk = browser.get(
        f"/review/items/{QueueItem.objects.create(queue=queue, tool=tool, overlap=1, free=1).pk}/"
    ).content.decode()
    for words in ("as version 1 has it", "The tool in version 2", "its source is another"):
        assert words in " ".join(desk.split())


def test_what_cannot_be_saved_as_it_is_offers_no_save_and_who_else_edits_a_task_is_named(
    browser: Client, made: SeedLibrary
) -> None:
    wrong = opened(browser, made)
    browser.post(f"/edits/{wrong.pk}/keep/", {"tool_source": "def lend_packets(self:", "serial": 0, "act": "keep"})
    task, (other,) = made.task("three"), seed.people("adjudicator")
    theirs = services.start_task_edit(other, task)
    emptied = services.keep_draft(other, theirs.pk, {"reference": None}, theirs.serial)
    for pk, words in ((wrong.pk, "not Python"), (emptied.pk, "keeps the reference")):
        for address in (f"/edits/{pk}/", f"/edits/{pk}/forecast/"):
            page = browser.get(address).content.decode()
            assert "It cannot be saved as it is:" in page
            assert words in page
    client = Client()
    client.force_login(other)
    disabled = re.compile(r"<button[^>]*primary[^>]*disabled")
    for address in (f"/edits/{emptied.pk}/", f"/edits/{emptied.pk}/forecast/"):
        assert disabled.search(client.get(address).content.decode())
    mine = browser.post(f"/edits/task/{task.pk}/")["Location"]
    page = browser.get(mine).content.decode()
    assert not disabled.search(page)
    assert f'href="/edits/{theirs.pk}/"' in page.split("Other drafts of it")[1]


def test_an_earlier_revision_is_restored_as_a_draft(browser: Client, made: SeedLibrary) -> None:
    task = made.task("three")
    first = task.revisions.order_by("number")[0]
    answer = browser.post(f"/edits/task-revision/{first.pk}/restore/")
    assert answer.status_code == 302
    page = browser.get(answer["Location"]).content.decode()
    assert "Restores revision 1." in page


def test_only_its_author_changes_a_draft_and_others_may_copy_it(browser: Client, made: SeedLibrary) -> None:
    edit = opened(browser, made)
    other = Client()
    other.force_login(seed.people("adjudicator")[0])
    page = other.get(f"/edits/{edit.pk}/").content.decode()
    assert "Make your own copy" in page
    assert "readonly" in page
    refused = other.post(f"/edits/{edit.pk}/keep/", {"tool_source": "x", "serial": 0, "act": "keep"})
    assert refused.status_code == 409
    copied = other.post(f"/edits/{edit.pk}/copy/")
    assert Edit.objects.get(pk=int(copied["Location"].strip("/").split("/")[-1])).origin_id == edit.pk
    assert browser.get("/edits/?mine=1").content.decode().count("data-row-link") == 1


def test_the_desk_of_a_failing_tool_groups_its_cases_and_says_how_often_its_checker_was_right(
    browser: Client, sandbox: Sandbox, made: SeedLibrary, person: User
) -> None:
    assessed(sandbox, made)
    queue = seed.queue(seed.people("adjudicator")[0], "Failing tools", "tool")
    item = QueueItem.objects.get(queue=queue)
    page = browser.get(f"/review/items/{item.pk}/").content.decode()
    assert "Does what it should refuse" in page
    assert 'id="line-14"' in page
    assert "its accuracy is not known" in page
    create_decision(person, "tool", made.tool.pk, DecisionChoice("tool_bug"), build_entity_tag("tool", made.tool))
    assert "in 1 of 1 tool" in browser.get(f"/review/items/{item.pk}/").content.decode()


def test_a_group_of_cases_is_given_a_verdict_of_its_own(sandbox: Sandbox, made: SeedLibrary, person: User) -> None:
    tag = build_entity_tag("tool", made.tool)
    with pytest.raises(InputError, match="group"):
        create_decision(
            person, "tool", made.tool.pk, DecisionChoice("tool_bug", detail={"groups": {"accepts": "nonsense"}}), tag
        )
    choice = DecisionChoice("tool_bug", detail={"groups": {"accepts": "ambiguous_rule"}, "more": "dropped"})
    row = create_decision(person, "tool", made.tool.pk, choice, tag)
    assert row.detail == {"groups": {"accepts": "ambiguous_rule"}}
    [line], _ = list_history(person, "tool", made.tool.pk)
    assert line.groups == [("Does what it should refuse", "Ambiguous rule")]

"""Edits: what saving one would do is what it does, and an approval stays only where nothing under it moved."""

from __future__ import annotations

import json

import pytest
from django.test import Client

from synthesis.errors import InputError
from synthesis.formats.files import Entry
from synthesis.runtime import Sandbox
from tests.edits.seed import PROGRAM, RIGHT, WRONG, SeedLibrary, approve, environment_record
from tests.review import seed
from webapp.accounts.models import AuditEntry, User
from webapp.common.errors import ChangedMeanwhile, Conflict
from webapp.edits import services
from webapp.edits.effects.run_effects import count_left_out_attempts, list_evidence
from webapp.edits.forecasts import compute_forecast, is_forecast_valid
from webapp.edits.models import Edit, Forecast
from webapp.edits.page import build_task_diffs
from webapp.edits.proposals import get_base_parts, get_editable_source, merge_checks
from webapp.edits.saved_edit import save_edit
from webapp.edits.stale_edit import build_stale_sides
from webapp.environments.models import Version
from webapp.review.models import ReviewDecision
from webapp.scenarios.importer import import_entries
from webapp.scenarios.models import Task
from webapp.scenarios.states import load_state

pytestmark = pytest.mark.django_db


def fixed(person: User, made: SeedLibrary) -> Edit:
    """A draft in which the tool looks at what would stay."""
    edit = services.start_tool_edit(person, made.tool)
    text, _ = get_editable_source(edit.version, edit.tool)
    assert WRONG in text
    return services.keep_draft(
        person, edit.pk, {"tool_source": text.replace(WRONG, RIGHT)}, edit.serial, why="Five stay."
    )


def forecast_of(sandbox: Sandbox, edit: Edit) -> Forecast:
    return compute_forecast(sandbox, Forecast.objects.create(edit=edit, digest=edit.digest), None)


def test_a_forecast_names_the_attempts_that_flip_the_audits_that_change_and_the_approvals_that_stay(
    sandbox: Sandbox, made: SeedLibrary, person: User
) -> None:
    for name in ("three", "eight"):
        approve(person, made.task(name))
    edit = fixed(person, made)
    forecast = forecast_of(sandbox, edit)
    assert (forecast.tasks, forecast.stored, forecast.executed, forecast.sampled) == (3, 5, 5, False)
    lines = {line.task.key: line for line in forecast.lines.select_related("task")}
    three, eight, none = lines["three"], lines["eight"], lines["none"]
    assert (three.approval, three.flips_up, three.flips_down, three.runs.count()) == ("carries", 0, 0, 0)
    assert (eight.audit_before, eight.audit_after, eight.approval, eight.flips_down) == ("green", "red", "reopens", 1)
    run = eight.runs.get()
    assert (run.before, run.after, run.trajectory_id) == (1.0, 0.0, made.runs("eight")[0].pk)
    assert run.why == "Call 1, lend_packets, is refused now. Check 1 does not hold any more."
    assert (none.flips_up, none.approval) == (1, "")
    assert is_forecast_valid(forecast, edit)
    approve(person, made.task("none"), "reject")
    assert not is_forecast_valid(forecast, edit), "a forecast that knows nothing of a new approval must not be saved by"


def test_a_sample_is_executed_of_too_many_attempts_and_no_approval_rests_on_it(
    sandbox: Sandbox, made: SeedLibrary, person: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webapp.edits.forecasts.MOST_RUNS", 1)
    approve(person, made.task("three"))
    edit = fixed(person, made)
    forecast = forecast_of(sandbox, edit)
    assert (forecast.stored, forecast.executed, forecast.sampled) == (5, 1, True)
    three = forecast.lines.get(task=made.task("three").pk)
    assert (three.executed, three.approval) == (1, "reopens"), "those at approved tasks come first"
    assert three.approval_why == "1 of its 2 attempts were not executed again: too many."
    browser = Client()
    browser.force_login(person)
    assert "a sample of 5" in browser.get(f"/edits/{edit.pk}/forecast/").content.decode()


def test_saving_makes_a_version_and_carries_over_the_approvals_it_should_and_no_other(
    sandbox: Sandbox, made: SeedLibrary, person: User
) -> None:
    for name in ("three", "eight"):
        approve(person, made.task(name))
    before = made.task("three").current_id
    edit = fixed(person, made)
    done = save_edit(sandbox, person, edit.pk, None)
    assert done.report() == {"version": 2, "tasks": 3, "approvals_carried": 1, "approvals_reopened": 1}
    version = Version.objects.get(environment=made.environment, number=2)
    assert RIGHT in version.source
    assert RIGHT in version.record["env_class_code"]
    made.environment.refresh_from_db()
    assert made.environment.current_id == version.pk
    three, eight, none = (made.task(name) for name in ("three", "eight", "none"))
    assert (three.review_state, eight.review_state, none.review_state) == ("approved", "in_review", "draft")
    assert (three.audit_state, eight.audit_state) == ("green", "red")
    assert three.current_id != before
    assert three.current is not None
    assert three.current.scenario.version_id == version.pk
    carried = ReviewDecision.objects.get(task=three, revision=three.current_id, undone_at__isnull=True)
    assert carried.detail["carried_from"]
    assert carried.user_id == person.pk
    assert AuditEntry.objects.filter(action="edit.saved", object_id=str(edit.pk)).exists()
    log = AuditEntry.objects.filter(object_type="decision", object_id=str(carried.pk)).get()
    assert "Five stay." in log.detail["why"]
    assert save_edit(sandbox, person, edit.pk, None).report() == done.report(), "a job that runs twice saves once"
    assert Version.objects.filter(environment=made.environment).count() == 2


def test_a_second_edit_of_the_next_version_still_executes_the_attempts_at_the_first(
    sandbox: Sandbox, made: SeedLibrary, person: User
) -> None:
    save_edit(sandbox, person, fixed(person, made).pk, None)
    edit = services.start_tool_edit(person, made.tool)
    text, _ = get_editable_source(edit.version, edit.tool)
    edit = services.keep_draft(person, edit.pk, {"tool_source": text.replace(RIGHT, WRONG)}, edit.serial)
    forecast = forecast_of(sandbox, edit)
    flips = {line.task.key: (line.flips_up, line.flips_down) for line in forecast.lines.select_related("task")}
    assert flips == {"three": (0, 0), "eight": (1, 0), "none": (0, 1)}


def test_tasks_that_an_import_left_on_an_earlier_version_come_along(
    sandbox: Sandbox, made: SeedLibrary, person: User
) -> None:
    report = import_entries(sandbox, [Entry("[0]", environment_record(PROGRAM + "# a note"))], [], "envscaler")
    assert not report["environments"]["failed"], report
    edit = fixed(person, made)
    assert (edit.version.number, made.task("eight").scenario.version.number) == (2, 1)
    forecast = forecast_of(sandbox, edit)
    flips = {line.task.key: (line.flips_up, line.flips_down) for line in forecast.lines.select_related("task")}
    assert flips == {"three": (0, 0), "eight": (0, 1), "none": (1, 0)}
    assert save_edit(sandbox, person, edit.pk, None).version == 3
    assert {task.scenario.version.number for task in Task.objects.filter(environment=made.environment)} == {3}


def test_a_task_is_edited_in_place_and_its_approval_does_not_survive(
    sandbox: Sandbox, made: SeedLibrary, person: User
) -> None:
    task = made.task("three")
    approve(person, task)
    edit = services.start_task_edit(person, made.task("three"))
    source = "def check_func(final_state):\n    return final_state['lots']['S-1']['packets'] == 10\n"
    body = {
        "title": "Lend four", "instruction": "Lend four of S-1.",
        "checks": [{"label": "Four are lent", "source": source}],
        "reference": {"calls": [{"tool": "lend_packets", "arguments": {"lot_id": "S-1", "packets": 4}}], "answer": ""},
    }  # fmt: skip
    edit = services.keep_draft(person, edit.pk, body, edit.serial)
    line = forecast_of(sandbox, edit).lines.get()
    assert (line.audit_after, line.approval, line.flips_down) == ("green", "reopens", 1)
    assert save_edit(sandbox, person, edit.pk, None).revision == 3
    after = Task.objects.select_related("current").get(pk=task.pk)
    assert after.current is not None
    assert (after.title, after.current.instruction) == ("Lend four", "Lend four of S-1.")
    assert (after.review_state, after.audit_state) == ("in_review", "green")
    assert after.current.record["task"] == "Lend four of S-1."
    assert after.current.record["checklist_with_func"][0]["check_func"] == source
    assert after.current.references.get().source == "person"
    assert count_left_out_attempts([task.pk], len(list_evidence(after.current))) == len(made.runs("three")) > 0


def test_what_cannot_be_saved_says_so_and_loses_nothing(sandbox: Sandbox, made: SeedLibrary, person: User) -> None:
    edit = services.start_tool_edit(person, made.tool)
    kept = services.keep_draft(person, edit.pk, {"tool_source": "def lend_packets(self, lot_id:\n"}, edit.serial)
    with pytest.raises(InputError, match="not Python"):
        save_edit(sandbox, person, kept.pk, None)
    kept.refresh_from_db()
    assert kept.state == "draft"
    assert "lend_packets" in kept.body["tool_source"]
    with pytest.raises(ChangedMeanwhile):
        services.keep_draft(person, edit.pk, {"tool_source": "x"}, 0)
    other = seed.people("adjudicator")[0]
    with pytest.raises(Conflict, match="Make your own copy"):
        services.keep_draft(other, edit.pk, {"tool_source": "x"}, kept.serial)


def test_a_reference_is_not_taken_away_from_a_task_that_is_else_the_same(
    sandbox: Sandbox, made: SeedLibrary, person: User
) -> None:
    task, audit = made.task("three"), made.task("three").audit_id
    edit = services.start_task_edit(person, task)
    edit = services.keep_draft(person, edit.pk, {"reference": None}, edit.serial)
    with pytest.raises(InputError, match="keeps the reference"):
        save_edit(sandbox, person, edit.pk, None)
    edit.refresh_from_db()
    after = Task.objects.select_related("current").get(pk=task.pk)
    assert after.current is not None
    assert (edit.state, after.audit_id, after.current.audits.count()) == ("draft", audit, 1)
    edit = services.keep_draft(person, edit.pk, {"reference": None, "instruction": "Lend three."}, edit.serial)
    save_edit(sandbox, person, edit.pk, None)
    after.refresh_from_db()
    assert (after.current.references.count(), after.audit_state) == (0, "unproven")


def test_a_form_sends_all_parts_and_takes_back_none_that_another_person_saved_meanwhile(
    sandbox: Sandbox, made: SeedLibrary, person: User
) -> None:
    task, other = made.task("three"), seed.people("adjudicator")[0]
    mine, theirs = services.start_task_edit(person, task), services.start_task_edit(other, task)
    form = get_base_parts(mine)
    assert mine.reference is not None
    checks = [*form["checks"], {"label": "Also", "source": "def check_func(a, b, c):\n    return True"}]
    calls = {"calls": [*form["reference"]["calls"], *form["reference"]["calls"]], "answer": "Done twice."}
    theirs = services.keep_draft(other, theirs.pk, form | {"reference": calls}, theirs.serial)
    assert set(theirs.body) == {"reference"}
    mine = services.keep_draft(person, mine.pk, form | {"instruction": "Lend them all, please."}, mine.serial)
    assert set(mine.body) == {"instruction"}
    mine = services.keep_draft(person, mine.pk, form, mine.serial)
    assert not mine.body, "all as it was"
    mine = services.keep_draft(person, mine.pk, form | {"instruction": "Lend."}, mine.serial)
    save_edit(sandbox, other, theirs.pk, None)
    mine.refresh_from_db()
    told = build_stale_sides(services.find_edit(mine.pk), None)
    assert "Theirs: Reference" in {side.title for side in told.theirs}
    sent = form | {"instruction": "Lend.", "calls_text": json.dumps(form["reference"]["calls"]), "why": ""}
    told = build_stale_sides(services.find_edit(mine.pk), sent | {"answer": form["reference"]["answer"]})
    assert [side.title for side in told.mine] == ["Mine: Instruction"], "the reference is the other person's"
    renewed = services.renew_base(person, mine.pk)
    assert [one.title for one in build_task_diffs(renewed, task)] == ["Instruction"]
    save_edit(sandbox, person, renewed.pk, None)
    after = Task.objects.select_related("current").get(pk=task.pk)
    assert after.current is not None
    assert after.current.instruction.startswith("Lend.")
    assert after.current.references.order_by("-id")[0].answer == "Done twice."
    first, second = form["checks"][0], {"label": "New", "source": "x"}
    assert merge_checks([first, first], [second, first], [first, second]) == [second, second], "check by check"
    assert merge_checks([first], checks, [second]) == checks, "who adds one keeps all"


def test_a_title_conflict_shows_both_titles_and_what_both_began_from(
    sandbox: Sandbox, made: SeedLibrary, person: User
) -> None:
    task, other = made.task("three"), seed.people("adjudicator")[0]
    began = task.title
    mine, theirs = services.start_task_edit(person, task), services.start_task_edit(other, task)
    form = get_base_parts(mine)
    theirs = services.keep_draft(other, theirs.pk, form | {"title": "Their title"}, theirs.serial)
    mine = services.keep_draft(person, mine.pk, form | {"title": "My title"}, mine.serial)
    save_edit(sandbox, other, theirs.pk, None)
    task.refresh_from_db()
    assert task.title == "Their title", "a title alone is saved"
    with pytest.raises(ChangedMeanwhile):
        services.start_save(person, mine.pk, mine.serial)
    told = build_stale_sides(services.find_edit(mine.pk), None)
    assert [[row.text for row in side.rows if row.kind != "hunk"] for side in told.mine] == [[began, "My title"]]
    titles = [side for side in told.theirs if side.title == "Theirs: Title"]
    assert [row.text for row in titles[0].rows if row.kind != "hunk"] == [began, "Their title"]
    assert told.text.startswith(began)
    renewed = services.renew_base(person, mine.pk)
    assert renewed.body == {"title": "My title"}
    save_edit(sandbox, person, renewed.pk, None)
    task.refresh_from_db()
    assert task.title == "My title"
    last = services.start_task_edit(other, task)
    last = services.keep_draft(other, last.pk, get_base_parts(last) | {"title": "Once more"}, last.serial)
    save_edit(sandbox, other, last.pk, None)
    task.refresh_from_db()
    assert task.title == "Once more"


def test_two_saves_that_overlap_name_who_saved_what(sandbox: Sandbox, made: SeedLibrary, person: User) -> None:
    task, other = made.task("three"), seed.people("adjudicator")[0]
    mine, theirs = services.start_task_edit(person, task), services.start_task_edit(other, task)
    form = get_base_parts(mine)
    mine = services.keep_draft(person, mine.pk, form | {"instruction": "Mine."}, mine.serial)
    theirs = services.keep_draft(other, theirs.pk, form | {"instruction": "Theirs."}, theirs.serial)

    def meanwhile(done: int, total: int, note: str | None) -> None:
        if note == "Saving" and done == total and services.find_edit(theirs.pk).state == "draft":
            save_edit(sandbox, other, theirs.pk, None)

    with pytest.raises(ChangedMeanwhile, match=f"{other} saved edit {theirs.pk} of task {task.pk} meanwhile"):
        save_edit(sandbox, person, mine.pk, None, meanwhile)


def test_a_state_that_changes_alone_is_saved_with_each_edit(sandbox: Sandbox, made: SeedLibrary, person: User) -> None:
    """The record of an edited revision does not spell its state: the next state is another revision all the same."""
    task = made.task("three")
    assert task.current is not None
    first = task.current.scenario.initial_id
    state = load_state(first)
    for number, packets in ((3, 14), (4, 13), (5, 12)):
        edit = services.start_task_edit(person, made.task("three"))
        other = {**state, "lots": {**state["lots"], "S-2": {"packets": packets}}}
        edit = services.keep_draft(person, edit.pk, {"reference": None}, edit.serial, state=other)
        assert save_edit(sandbox, person, edit.pk, None).revision == number
        current = Task.objects.select_related("current__scenario").get(pk=task.pk).current
        assert current is not None
        assert load_state(current.scenario.initial_id) == other
    edit = services.start_task_edit(person, made.task("three"))
    edit = services.keep_draft(person, edit.pk, {"title": "Lend 3"}, edit.serial)
    assert save_edit(sandbox, person, edit.pk, None).revision == 5, "a title is no part of what is asked"


def test_a_draft_on_what_is_no_longer_current_is_not_saved_until_it_stands_on_that(
    sandbox: Sandbox, made: SeedLibrary, person: User
) -> None:
    mine, other = fixed(person, made), seed.people("adjudicator")[0]
    theirs = services.start_tool_edit(other, made.tool)
    text, _ = get_editable_source(theirs.version, theirs.tool)
    theirs = services.keep_draft(other, theirs.pk, {"tool_source": text.replace("All", "All the")}, theirs.serial)
    theirs = services.keep_draft(
        other, theirs.pk, {"tool_source": text.replace("Five stay.", "Five remain.")}, theirs.serial
    )
    save_edit(sandbox, other, theirs.pk, None)
    with pytest.raises(ChangedMeanwhile):
        save_edit(sandbox, person, mine.pk, None)
    renewed = services.renew_base(person, mine.pk)
    assert save_edit(sandbox, person, renewed.pk, None).version == 3

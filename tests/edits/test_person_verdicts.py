"""A person's verdict on a failing tool holds against its checker's, wherever cases are counted, run and told of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.test import Client

from tests.edits.seed import RIGHT, WRONG, SeedLibrary, assessed
from tests.edits.test_pages import opened
from tests.review import seed
from webapp.accounts.models import User
from webapp.edits.case_runs import list_cases, load_person_verdicts, run_cases
from webapp.edits.proposals import get_editable_source, propose_program
from webapp.edits.tool_repair import build_tool_brief
from webapp.environments.models import Assessment, ToolCase
from webapp.review.assignments import pull_next_assignment
from webapp.review.decisions import DecisionChoice, create_decision, undo_decision
from webapp.review.models import ReviewDecision
from webapp.review.queues import create_gold_item
from webapp.review.subjects import build_entity_tag
from webapp.review.tools.person_verdicts import count_cases, count_checker_record, find_person_verdict

if TYPE_CHECKING:
    from synthesis.runtime import Sandbox

pytestmark = pytest.mark.django_db
IN_PLACE = {"HX-Request": "true", "HX-Target": "tool-source"}


def say(user: User, made: SeedLibrary, verdict: str, **groups: str) -> ReviewDecision:
    detail = {"groups": groups} if groups else {}
    return create_decision(
        user, "tool", made.tool.pk, DecisionChoice(verdict, detail=detail), build_entity_tag("tool", made.tool)
    )


def test_a_persons_verdict_counts_and_the_checkers_is_kept(sandbox: Sandbox, made: SeedLibrary, person: User) -> None:
    assessed(sandbox, made)
    assessment = Assessment.objects.get()
    cases = list(assessment.cases.order_by("position"))
    assert find_person_verdict(made.tool.pk) is None
    assert [row.verdict for row in list_cases(assessment, "lend_packets", failing=True)] == ["fail"]
    decision = say(person, made, "judge_wrong")
    said = find_person_verdict(made.tool.pk)
    assert said is not None
    assert count_cases(cases, said) == {"pass": 3}
    assert count_cases(cases, None) == {"pass": 2, "fail": 1}
    assert list_cases(assessment, "lend_packets", load_person_verdicts(made.tool.version_id), failing=True) == []
    assert not build_tool_brief(made.tool).failed
    assert any("people say: Judge wrong" in text for text in build_tool_brief(made.tool).passed)
    assert count_checker_record("qwen3-32b") == (0, 1)
    assert count_checker_record("another") == (0, 0)
    browser = Client()
    browser.force_login(person)
    version = made.tool.version_id
    page = browser.get(f"/review/versions/{version}/").content.decode()
    assert '<s class="muted">1</s> <b>0</b>' in page, "one failed by the checker, none by what people say"
    assert (
        f"/review/versions/{version}/"
        in browser.get(f"/environments/{made.environment.pk}/?tab=assessment").content.decode()
    )
    told = browser.get(f"/api/v1/review/versions/{version}/tools").json()
    assert [(one["tool"], one["verdict"], one["people"]) for one in told] == [
        ("lend_packets", "judge_wrong", [person.username])
    ]
    assert ToolCase.objects.filter(verdict="fail").count() == 1, "what the checker said stays"
    undo_decision(person, decision.pk)
    assert find_person_verdict(made.tool.pk) is None


def test_another_result_of_a_case_that_people_took_for_right_is_no_success(
    browser: Client, sandbox: Sandbox, made: SeedLibrary, person: User
) -> None:
    assessed(sandbox, made)
    edit = opened(browser, made)
    text, _ = get_editable_source(edit.version, edit.tool)
    edit.body = {"tool_source": text.replace(WRONG, RIGHT)}
    program = propose_program(edit).program
    cases = list_cases(Assessment.objects.get(), "lend_packets")
    assert run_cases(sandbox, program, cases).mended == 1
    say(person, made, "test_bug", accepts="judge_wrong")
    runs = run_cases(sandbox, program, cases, load_person_verdicts(made.tool.version_id, "lend_packets"))
    assert (runs.mended, runs.other) == (0, 1)
    assert "people took" in next(run.word for run in runs.runs if run.changed)


def test_people_who_disagree_have_settled_nothing(sandbox: Sandbox, made: SeedLibrary, person: User) -> None:
    assessed(sandbox, made)
    judge, other = seed.people("adjudicator", "annotator")
    seed.queue(judge, "Failing tools", "tool", overlap=2)
    say(person, made, "tool_bug", accepts="ambiguous_rule")
    assert find_person_verdict(made.tool.pk) is None, "two have to decide"
    say(other, made, "test_bug")
    assert find_person_verdict(made.tool.pk) is None
    say(judge, made, "tool_bug")
    said = find_person_verdict(made.tool.pk)
    assert said is not None
    assert (said.verdict, said.groups, said.people) == ("tool_bug", {}, (judge.username,))


def test_a_known_answer_is_not_told_to_those_who_are_asked_for_it(
    browser: Client, sandbox: Sandbox, made: SeedLibrary, person: User
) -> None:
    assessed(sandbox, made)
    judge = seed.people("adjudicator")[0]
    queue = seed.queue(judge, "Failing tools", "tool")
    held = pull_next_assignment(judge, queue)
    assert held is not None
    choice = DecisionChoice("ambiguous_rule")
    decision = create_decision(
        judge, "tool", made.tool.pk, choice, build_entity_tag("tool", made.tool), assignment=held
    )
    assert "it holds" in browser.get(f"/review/items/{held.item_id}/").content.decode()
    create_gold_item(judge, decision.pk)
    page = browser.get(f"/review/items/{held.item_id}/").content.decode()
    assert "it holds" not in page
    assert "→</span> Ambiguous rule" not in page


def test_a_tool_is_edited_on_its_desk(browser: Client, sandbox: Sandbox, made: SeedLibrary) -> None:
    assessed(sandbox, made)
    pane = browser.post(f"/edits/tool/{made.tool.pk}/", headers=IN_PLACE).content.decode()
    assert 'id="tool-source"' in pane
    assert 'data-editor="python"' in pane
    assert "<html" not in pane
    edit = opened(browser, made)
    text, _ = get_editable_source(edit.version, edit.tool)
    form = {"tool_source": text.replace(WRONG, RIGHT), "serial": edit.serial, "act": "keep"}
    kept = browser.post(
        f"/edits/{edit.pk}/keep/", form, headers={**IN_PLACE, "HX-Target": "edit-kept"}
    ).content.decode()
    assert 'value="1"' in kept, "the next form carries the draft's new serial"
    assert '<tr class="add">' in kept, "what the draft changes comes along"
    other = form | {"tool_source": f"{form['tool_source']}\n# mine"}
    again = browser.post(f"/edits/{edit.pk}/keep/", other, headers={**IN_PLACE, "HX-Target": "edit-kept"})
    assert "another tab" in again.content.decode()

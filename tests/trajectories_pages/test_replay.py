from __future__ import annotations

import json
import re

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from synthesis.contracts import Reward, Verdict
from tests.fixtures import replay_seed as seed
from tests.fixtures.markup import markup
from tests.fixtures.replay_seed import Plan
from tests.review import seed as review_seed
from tests.trajectories_pages.test_list import streamed
from webapp.accounts.models import User
from webapp.jobs.models import Job
from webapp.trajectories.models import Trajectory
from webapp.trajectories.replay import timeline
from webapp.trajectories.steps import add_score

pytestmark = pytest.mark.django_db


@pytest.fixture
def reader(client: Client) -> Client:
    timeline.CACHE.clear()
    client.force_login(User.objects.create_user("ada", role="viewer"))
    return client


@pytest.fixture
def run() -> Trajectory:
    return seed.make(seed.ordinary())


def text(response) -> str:
    assert response.status_code == 200
    return markup(response)


def url(run: Trajectory, query: str = "") -> str:
    return f"/trajectories/{run.pk}/{query}"


def test_a_stranger_goes_to_the_login(client: Client, run):
    for path in ("/trajectories/", url(run), url(run, "steps/1/"), url(run, "search/?q=x"), url(run, "export.jsonl")):
        assert client.get(path).url.startswith("/account/login/")


def test_the_link_to_a_step_gives_the_whole_page_without_scripts(reader, run):
    page = text(reader.get(url(run, "?step=6")))
    assert 'aria-current="step"><span class="n">6</span>' in page
    assert "The old check-up has to go." in page
    assert "appointment_id = &quot;A-107&quot;" in page
    assert "now true" in page
    assert "no longer true" in page
    assert 'rel="prev" href="?step=5"' in page
    assert 'rel="next" href="?step=7"' in page
    assert "<b>0.714</b> recorded" in page
    assert "first divergence at step 8" in page
    for step in range(13):
        assert f'href="?step={step}"' in page


def test_a_change_shows_the_value_before_it(reader, run):
    page = text(reader.get(url(run, "?step=6")))
    assert '<span class="v">&quot;booked&quot;</span>' in page
    assert '<span class="v">&quot;cancelled&quot;</span>' in page


def test_a_record_taken_from_a_list_is_one_change_named_by_its_id(reader, run):
    page = text(reader.get(url(run, "steps/10/")))
    assert 'State <span class="muted">· 1 change</span>' in page
    assert "<i>W-1</i>" in page
    assert page.count('class="del"') == 1
    assert 'class="add"' not in page


def test_long_texts_differ_by_word(reader, run):
    page = text(reader.get(url(run, "steps/11/")))
    assert "<del>once</del><ins>twice</ins>" in page


def test_a_path_is_marked_and_has_a_history(reader, run):
    page = text(reader.get(url(run, "?step=6&path=/appointments/A-107/status")))
    assert '<li class="selected">' in page
    assert "Changed at" in page
    assert 'data-step="6" data-keep' in page
    gone = text(reader.get(url(run, "?step=6&path=/nowhere/at/all")))
    assert "It does not exist after this step." in gone
    assert "No step changed it." in gone


def test_the_whole_state_comes_branch_by_branch(reader, run):
    page = text(reader.get(url(run, "?step=6&view=state")))
    assert 'data-branch="/appointments"' in page
    part = text(reader.get(url(run, "steps/6/branch/?path=/rooms")))
    assert 'data-branch="/rooms/R1"' in part
    assert "This no longer exists." in text(reader.get(url(run, "steps/6/branch/?path=/none")))
    found = text(reader.get(url(run, "?step=6&view=state&find=cleo")))
    assert "/waiting/1/name" in found


def test_what_departs_from_the_record_is_shown_line_by_line(reader, run):
    page = text(reader.get(url(run, "steps/8/")))
    assert "differs from the record" in page
    assert "<del>31</del>" in page
    assert "<ins>00</ins>" in page


def test_an_error_has_its_kind(reader, run):
    page = text(reader.get(url(run, "steps/7/")))
    assert "raised" in page
    assert "no room R9" in page


def test_a_turn_that_was_cut_is_marked_in_the_list_and_on_its_page(reader, run):
    run.steps.filter(index=12).update(cut="length")
    page = text(reader.get(url(run, "?step=12")))
    assert page.count('<span class="warn">cut</span>') == 1
    assert "This turn was stopped at the token limit." in page


def test_the_matrix_shows_every_flip(reader, run):
    page = text(reader.get(url(run, "?step=6")))
    matrix = page[page.index('class="flips') : page.index("</table>", page.index('class="flips'))]
    assert matrix.count("▲") == 4
    assert matrix.count("▼") == 1
    assert "never holds" in matrix
    assert 'data-col="6" class="now"' in matrix
    assert "at step 6: 3 of 6 hold" in page


def test_the_current_call_comes_first_and_an_error_before_it_is_named_and_folded(reader, run):
    page = text(reader.get(url(run, "steps/8/")))
    call, before = page.index("<h3>Call</h3>"), page.index('data-remember="before"')
    assert call < before
    fold = " ".join(page[page.rindex("<details", 0, before) : page.index("</details>", before)].split())
    assert fold.startswith('<details class="block seen" data-remember="before">')
    assert "Before this: step 7, <code>release_room</code>, answered" in fold
    assert "an error of that step, not of this one" in fold
    assert "no room R9" in fold
    assert "no room R9" not in page[:before]
    told = text(reader.get(url(run, "steps/5/")))
    assert "Before this: step 4 the user said" in " ".join(told.split())
    assert "Before this" not in text(reader.get(url(run, "steps/4/")))


def on_the_answer(answer: str = "Done.") -> Plan:
    """The ordinary run with two checks that read the answer: the first is met by it, the other is not."""
    plan = seed.ordinary("answers", answer=answer)
    plan.checks += [
        ("the answer says that it is done", "def check(initial, final, answer):\n    return 'Done' in answer", "goal"),
        ("the answer names the room", "def check(initial, final, told):\n    return 'R1' in told", "goal"),
    ]
    rows = plan.matrix["checks"] if plan.matrix else []
    rows += [{"start": 1, "flips": []}, {"start": 0, "flips": []}]
    return plan


def test_a_check_on_the_answer_says_nothing_before_the_answer(reader):
    run = seed.make(on_the_answer())
    page = text(reader.get(url(run, "?step=6&matrix=all")))
    assert "at step 6: 3 of 6 hold, 2 without an answer yet" in page
    row = page[page.index("the answer says that it is done</span>") :]
    row = row[: row.index("</tr>")]
    assert row.count("no answer yet") == 2 * 6, "six columns before the answer, each with a title and words"
    assert "the answer meets it at step 12" in row
    assert "holds throughout" not in row
    assert "no answer yet: the check reads the answer" in page
    end = text(reader.get(url(run, "?step=12")))
    assert "at step 12: 5 of 8 hold" in end
    assert "the answer meets it" in end
    assert "the answer does not meet it" in end
    assert "5 of 8 hold" in text(reader.get(url(run, "steps/12/")))


def test_without_an_answer_a_check_on_it_is_judged_at_the_end(reader):
    plan = on_the_answer("")
    plan.acts = plan.acts[:-1]
    run = seed.make(plan)
    assert "without an answer yet" in text(reader.get(url(run, "?step=10")))
    assert "without an answer yet" not in text(reader.get(url(run, "?step=11")))


def scored(run: Trajectory, *passed: bool) -> None:
    row = Reward(reward=0.5, passed=1, total=len(passed), rule="goals", verdicts=[Verdict(passed=p) for p in passed])
    add_score(run, run.revision, row, "replay")


def test_a_score_that_the_matrix_contradicts_is_marked(reader, run):
    scored(run, True, True, True, True, False, False)
    page = text(reader.get(url(run)))
    assert "Do not trust this verifier" not in page
    assert "contradict" not in page
    scored(run, True, True, True, False, True, False)
    page = text(reader.get(url(run)))
    assert "2 checks contradict themselves" in page
    said = "passed when it was scored and fails in the matrix at the last step: it answers differently for the same"
    assert f"Check 5 {said}" in page
    assert "Check 4 failed when it was scored and passes in the matrix" in page
    assert said in text(reader.get(url(run, "matrix/?step=1")))
    answer = reader.get(f"/api/v1/trajectories/{run.pk}").json()
    assert [line.partition(" when")[0] for line in answer["contradictions"]] == ["Check 4 failed", "Check 5 passed"]
    newest, older = reader.get(f"/api/v1/trajectories/{run.pk}/scores").json()["data"]
    assert (len(newest["contradictions"]), older["contradictions"]) == (2, [])


def test_two_scores_that_disagree_are_marked_without_a_matrix(reader, run):
    Trajectory.objects.filter(pk=run.pk).update(matrix=None, matrix_hash="")
    scored(run, True, True)
    scored(run, True, False)
    page = text(reader.get(url(run)))
    assert "1 check contradicts itself" in page
    assert "Check 2 failed when it was scored and passes in score" in page


def test_what_was_not_evaluated_contradicts_nothing(reader, run):
    matrix = run.matrix | {"not_run": [4]}
    Trajectory.objects.filter(pk=run.pk).update(matrix=matrix)
    scored(run, True, True, True, True, True, False)
    assert "contradict" not in text(reader.get(url(run)))


def test_a_large_matrix_folds_what_never_changes(reader):
    run = seed.make(seed.large(steps=120, records=50, checks=90))
    page = text(reader.get(url(run, "?step=60")))
    assert "75 checks never change: 75 never hold." in page
    assert "Ward 1 is settled for patient group 1<" not in page
    whole = text(reader.get(url(run, "?step=60&matrix=all")))
    assert "Ward 1 is settled for patient group 1<" in whole


@pytest.mark.parametrize(("query", "said"), [("?step=99", "the last one is step 12"), ("?step=x", "no step number")])
def test_a_step_that_is_not_there_is_explained(reader, run, query, said):
    assert said in text(reader.get(url(run, query)))


def test_what_does_not_exist_is_404(reader, run):
    for path in (f"/trajectories/{run.pk + 1}/", url(run, "steps/13/"), url(run, "checks/99/")):
        assert reader.get(path).status_code == 404


def test_search_looks_into_every_field(reader, run):
    for wanted, step in (
        ("check-up has to go", 6),
        ("thursday, PLEASE", 4),
        ("find_pat", 1),
        ("thu-09", 5),
        ("A-101", 2),
    ):
        page = text(reader.get(url(run, f"search/?q={wanted}")))
        assert f'data-step="{step}"' in page, wanted
    assert "No step contains" in text(reader.get(url(run, "search/?q=100%25_nothing")))
    assert 'class="hits"' in text(reader.get(url(run, "?step=1&q=Ada")))


def test_filters_of_the_list_hide_other_steps_but_not_the_current_one(reader, run):
    page = text(reader.get(url(run, "?step=3&only=errors")))
    assert page.count("<li hidden>") == 11
    assert '<li><a href="?only=errors&amp;step=3" data-step="3"' in page
    assert text(reader.get(url(run, "?step=7&only=errors"))).count("<li hidden>") == 12
    assert text(reader.get(url(run, "?tool=release_room"))).count("<li hidden>") == 10


def test_hostile_text_stays_text(reader):
    run = seed.make(seed.hostile())
    for query in ("?step=1", "?step=2", "?step=3&view=state", "?step=1&q=img", "?step=1&view=state&find=img"):
        page = text(reader.get(url(run, query)))
        assert "<img" not in page
        assert "<script>" not in page
        assert "\u202e" not in re.sub(r'="[^"]*"', "", page)
        assert "\\u202e" in page
    assert "<img" not in text(reader.get(url(run, "checks/0/")))
    assert "<img" not in text(reader.get("/trajectories/"))


def test_states_of_a_run_are_explained(reader):
    page = text(reader.get(url(seed.make(seed.empty()))))
    assert "This run has no steps" in page
    assert "not been executed again yet" in page
    page = text(reader.get(url(seed.make(seed.failed()), "?step=6")))
    assert "could not be replayed" in page
    assert "took longer than 5 s" in page
    assert "There is no state to show." in page
    assert "not run" in page
    plan = seed.ordinary("none")
    plan.checks, plan.matrix = [], None
    assert "has no checks" in text(reader.get(url(seed.make(plan))))


def test_an_attempt_at_an_earlier_revision_says_so(reader, run):
    assert "which was changed since" not in reader.get(url(run)).content.decode()
    review_seed.revise(run.task)
    assert "judged at revision 1" in " ".join(reader.get(url(run)).content.decode().split())


def test_the_matrix_is_computed_on_request_by_those_who_review(reader, run):
    Trajectory.objects.filter(pk=run.pk).update(matrix=None, matrix_hash="")
    assert "Evaluate the checks at every step" not in text(reader.get(url(run)))
    assert reader.post(url(run, "check-again/")).status_code == 403
    assert not Job.objects.exists()
    reader.force_login(User.objects.create_user("ben", role="annotator"))
    assert "Evaluate the checks at every step" in text(reader.get(url(run)))
    assert reader.get(url(run, "check-again/")).status_code == 405
    answer = reader.post(url(run, "check-again/"), {"step": "4"})
    assert answer.url == url(run, "?step=4")
    assert Job.objects.filter(kind="compute_matrix").count() == 1


def test_a_fragment_is_answered_with_304_while_nothing_changed(reader, run):
    first = reader.get(url(run, "steps/3/"))
    assert "private" in first["Cache-Control"]
    assert reader.get(url(run, "steps/3/"), headers={"If-None-Match": first["ETag"]}).status_code == 304
    assert reader.get(url(run, "steps/4/"), headers={"If-None-Match": first["ETag"]}).status_code == 200


def test_the_number_of_queries_does_not_grow(reader, run):
    counts = []
    for made in (run, seed.make(seed.large(steps=150, records=50, checks=60))):
        with CaptureQueriesContext(connection) as queries:
            text(reader.get(url(made, "?step=9")))
        counts.append(len(queries))
    assert max(counts) <= 16
    assert abs(counts[0] - counts[1]) <= 1


def test_the_export_is_the_record_as_an_attachment(reader, run):
    answer = reader.get(url(run, "export.jsonl"))
    told = [json.loads(line) for line in streamed(answer).splitlines()]
    assert {name: value for name, value in told[-1].items() if name != "envarium"} == run.record
    assert answer["Content-Disposition"].startswith("attachment")
    assert answer["X-Content-Type-Options"] == "nosniff"


def test_checks_that_fail_in_the_end_come_first(reader, run):
    page = text(reader.get(url(run)))
    matrix = page[page.index('class="flips') : page.index("</table>", page.index('class="flips'))]
    listed = [int(position) for position in re.findall(r'checks/(\d+)/" data-check', matrix)]
    ends = [check["flips"][-1][1] if check["flips"] else check["start"] for check in run.matrix["checks"]]
    failing = [ends[position] != 1 for position in listed]
    assert True in failing
    assert failing == sorted(failing, reverse=True)

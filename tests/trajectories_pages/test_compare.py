"""The page that compares attempts, its ways in, and the same over the API."""

from __future__ import annotations

import re

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from synthesis.contracts import Reward, Verdict
from tests.fixtures import replay_seed as seed
from tests.fixtures.markup import markup, words
from webapp.accounts.models import User
from webapp.scenarios.models import TaskRevision
from webapp.trajectories.models import Step, Trajectory
from webapp.trajectories.replay import matrix_grid, panels
from webapp.trajectories.side_by_side import check_grid, queries, table
from webapp.trajectories.steps import add_score

pytestmark = pytest.mark.django_db
PAGE = "/trajectories/compare/"


@pytest.fixture
def reader(client: Client) -> Client:
    client.force_login(User.objects.create_user("ada", role="viewer"))
    return client


def another(run: Trajectory, **fields) -> Trajectory:
    """A second attempt at the task of a run, with copies of its steps."""
    steps = list(run.steps.all())
    copy = Trajectory.objects.get(pk=run.pk)
    count = Trajectory.objects.count()
    copy.pk, copy.content_hash = None, f"copy-{count}"
    for name, value in fields.items():
        setattr(copy, name, value)
    copy.save()
    for step in steps:
        step.pk, step.trajectory = None, copy
    Step.objects.bulk_create(steps)
    return copy


def ids(*runs: Trajectory) -> str:
    return f"{PAGE}?ids={','.join(str(run.pk) for run in runs)}"


def text(response) -> str:
    assert response.status_code == 200
    return markup(response)


def score(run: Trajectory, *passed: bool) -> None:
    verdicts = [Verdict(passed=one) for one in passed]
    add_score(run, run.revision, Reward(reward=0.5, passed=1, total=6, rule="goals", verdicts=verdicts), "replay")


def ticked(page: str) -> set[int]:
    boxes = re.findall(r"<input[^>]*name=\"ids\"[^>]*>", page)
    return {int(re.search(r"value=\"(\d+)\"", box)[1]) for box in boxes if " checked" in box}


@pytest.fixture
def pair() -> tuple[Trajectory, Trajectory]:
    """The second books another slot at step 5, and passes two checks fewer."""
    first = seed.make(seed.ordinary())
    second = another(first, outcome="solved", reward=1.0, answer="All is done.")
    second.steps.filter(index=5).update(arguments={"patient_id": "P-1", "slot": "fri-10"})
    score(first, True, True, True, True, False, False)
    score(second, True, True, False, True, True, False)
    return first, second


def test_the_page_says_where_they_part_and_leads_into_the_replays(reader, pair):
    first, second = pair
    page = text(reader.get(ids(*pair)))
    assert "They part at step 5: attempt" in page
    assert f'href="/trajectories/{first.pk}/?step=5"' in page
    assert f'href="/trajectories/{second.pk}/?step=5"' in page
    assert "<mark>slot=&quot;fri-10&quot;</mark>" in page
    assert "they differ from here" in page
    assert f"steps 0\u20134 of {first.pk}" in " ".join(page.split())
    assert page.count('id="parting"') == 1
    assert "▲ 1 2" in page


def test_checks_that_differ_come_first_and_say_so(reader, pair):
    page = text(reader.get(ids(*pair)))
    differing = page[page.index("Checks that differ") : page.index("say the same of every attempt")]
    assert differing.count('title="Differs"') == 2
    assert "a Monday appointment is cancelled" in differing
    assert "does not hold" in differing
    assert "blood test A-107 untouched" not in differing
    assert "4 say the same of every attempt" in page
    assert "All is done." in page
    assert "No answer." in page


def test_assertions_of_a_script_are_called_so(reader, pair):
    TaskRevision.objects.update(verifier_kind="script")
    for headers in ({}, {"HX-Request": "true", "HX-Target": "compare"}):
        page = text(reader.get(ids(*pair), headers=headers))
        assert "Assertions" in page
        assert ">Checks" not in page


def test_end_states_are_compared_and_each_attempt_can_be_forked_where_they_part(client, pair):
    _, second = pair
    client.force_login(User.objects.create_user("ann", role="annotator"))
    same = text(client.get(ids(*pair)))
    assert "= the same in all" in same[same.index("End states") : same.index("Final answers")]
    for run in pair:
        assert f'href="/trajectories/{run.pk}/fork/?step=5"' in same
    last = second.steps.get(index=second.step_count - 1)
    Step.objects.filter(pk=last.pk).update(patch=[*last.patch, {"op": "add", "path": "/extra", "value": "late"}])
    ends = text(client.get(ids(*pair)))
    ends = ends[ends.index("End states") : ends.index("Final answers")]
    assert "1 place where they differ" in words(ends)
    assert re.search(r"extra</th>.*not there.*late", ends)


def test_a_check_on_the_answer_says_nothing_before_the_answer(pair):
    """As in the replay: the check on the answer holds since the step that gave it, not since the start."""
    first, second = pair
    reading = first.revision.checks.order_by("position").first()
    source = "def check(initial_state, final_state, answer):\n    return bool(answer)"
    first.revision.checks.filter(pk=reading.pk).update(source=source)
    found = table.compare_attempts(queries.require_attempts([first.pk, second.pk]))
    names = {line.label.number: line for line in found.checks.lines if line.label.reads_answer}
    assert names
    matrix, labels = panels.load_followed_matrix(first)
    shown = {flip.label.number: flip.step for flip in matrix_grid.list_flips(matrix, labels) if flip.label.reads_answer}
    assert {flip.label.number: flip.step for flip in check_flips_of(first) if flip.label.reads_answer} == shown
    assert shown


def check_flips_of(run: Trajectory):
    return check_grid.list_check_flips(run, check_grid.load_labels({run.revision_id}))


def test_a_result_that_differs_parts_them(reader):
    first = seed.make(seed.ordinary())
    second = another(first)
    second.steps.filter(index=8).update(result={"id": "R1", "clock": "11:11"})
    page = text(reader.get(ids(first, second)))
    assert "They part at step 8: all call" in page
    assert "11:11" in page
    assert "another result" in page


def test_equal_attempts_and_the_order_of_arguments(reader):
    first = seed.make(seed.ordinary())
    second = another(first)
    second.steps.filter(index=6).update(arguments={"reason": "moved by patient", "appointment_id": "A-107"})
    assert "They do the same at every step." in text(reader.get(ids(first, second)))


@pytest.mark.parametrize("given", ["", "?ids=", "?ids=x,y", "?ids=-1", "?ids=99999999999999999999999", "?ids=999999"])
def test_without_two_attempts_the_page_says_what_to_do(reader, given):
    assert "Choose two to four attempts at one task" in text(reader.get(f"{PAGE}{given}"))


def test_one_attempt_is_offered_a_counterpart_and_the_others(reader, pair):
    first, second = pair
    third = another(first)
    page = text(reader.get(ids(first)))
    assert page.index(f'value="{first.pk}"') < page.index(f'value="{second.pk}"') < page.index(f'value="{third.pk}"')
    assert ticked(page) == {first.pk, second.pk}
    kept = text(reader.get(f"{ids(first, third)}&choose=1"))
    assert ticked(kept) == {first.pk, third.pk}
    lonely = seed.make(seed.ordinary("lonely"))
    assert "This task has one attempt" in text(reader.get(ids(lonely)))
    assert "This task has one attempt" in text(reader.get(f"{PAGE}?task={lonely.task_id}"))


def test_what_cannot_be_compared_is_refused_in_words(reader, pair):
    first, second = pair
    elsewhere = seed.make(seed.ordinary("elsewhere"))
    page = text(reader.get(ids(first, elsewhere)))
    assert "Only attempts at one task can be compared" in page
    assert f'{PAGE}?task={elsewhere.task_id}"' in page
    others = [another(first) for _ in range(3)]
    assert "5 are chosen" in text(reader.get(ids(first, second, *others)))
    assert "There is no attempt 999999" in text(reader.get(f"{ids(first)},999999"))


def test_below_a_selection_it_stands_how_its_attempts_ended_and_whether_they_can_be_compared(reader, pair):
    first, second = pair
    elsewhere = seed.make(seed.ordinary("elsewhere"))
    assert f'hx-get="{PAGE}"' in text(reader.get("/trajectories/"))

    def told(*runs: Trajectory) -> str:
        chosen = {"ids": [*(run.pk for run in runs), 999999, "<b>"]}
        headers = {"HX-Request": "true", "HX-Target": "bulk-told"}
        with CaptureQueriesContext(connection) as made:
            answer = reader.get(PAGE, chosen, headers=headers)
        assert sum('FROM "trajectories_trajectory"' in query["sql"] for query in made) == 1
        return words(answer.content.decode())

    Trajectory.objects.filter(pk=first.pk).update(outcome="solved")
    Trajectory.objects.filter(pk__in=[second.pk, elsewhere.pk]).update(outcome="failed")
    assert told(first, second) == "1 ✕failed 1 ✓solved"
    assert told(second, elsewhere).startswith("2 ✕failed Only attempts at one task can be compared: attempt ")
    assert told(first) == "1 ✓solved", "of one it goes without saying"


def test_attempts_whose_checks_were_not_followed_are_named(reader, pair):
    first, second = pair
    assert "No ▲ ▼ for" not in text(reader.get(ids(first, second)))
    Trajectory.objects.filter(pk=second.pk).update(matrix_hash="other checks")
    assert f"No ▲ ▼ for {second.pk}: the checks were not evaluated" in words(text(reader.get(ids(first, second))))


def test_ticked_rows_lead_to_a_link_that_stays(reader, pair):
    first, second = pair
    answer = reader.get(f"{PAGE}?ids={first.pk}&ids={second.pk}")
    assert answer.url == ids(first, second)


def test_planted_text_stays_text(reader):
    first = seed.make(seed.hostile())
    second = another(first, answer=seed.PAYLOAD)
    second.steps.filter(index=1).update(arguments={seed.PAYLOAD: "other " + seed.PAYLOAD})
    second.steps.filter(index=3).update(result=seed.PAYLOAD)
    score(first, True)
    score(second, False)
    for url in (ids(first, second), ids(first)):
        page = text(reader.get(url))
        assert "<img src=x" not in page
        assert "<script>window.pwned" not in page
        assert "\u202e" not in page
        assert "{{ 7" in page


def test_arguments_that_no_text_can_hold_are_shown(reader):
    """Lone surrogates, NUL, nesting that cannot be parsed, and more than is read."""
    odd = {"half": "\ud800", "nul": "\x00"}
    first = seed.make(seed.ordinary())
    second = another(first)
    second.steps.filter(index=1).update(arguments=odd)
    second.steps.filter(index=2).update(arguments={"long": "x" * 9_000})
    second.steps.filter(index=8).update(result="\ud800")
    deep = "[" * 1_900 + "]" * 1_900
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE trajectories_step SET arguments = %s WHERE id = %s", [deep, second.steps.get(index=5).pk]
        )
    page = text(reader.get(ids(first, second)))
    assert '<span class="ctl">\\ud800</span>' in page
    assert r"nul=&quot;\u0000&quot;" in page
    body = reader.get("/api/v1/trajectories/compare", {"ids": f"{first.pk},{second.pk}"}).json()
    assert body["lines"][1]["steps"][1]["text"] == 'find_patient(half="\\ud800", nul="\\u0000")'


def test_the_number_of_queries_is_bounded(reader, pair):
    counts = []
    runs = [*pair, another(pair[0]), another(pair[1])]
    for chosen in (runs[:2], runs):
        reader.get(ids(*chosen))
        with CaptureQueriesContext(connection) as captured:
            reader.get(ids(*chosen))
        counts.append(len(captured))
    assert counts[0] <= 17
    assert counts[1] == counts[0] + 2 * 4  # of each its steps, and what its end state is made of


def test_long_attempts_are_folded_and_capped(reader, monkeypatch):
    first = seed.make(seed.large(steps=300, records=40, checks=12))
    second = another(first)
    second.steps.filter(index__gte=200, index__lt=260).update(arguments={"like": "other"})
    page = text(reader.get(ids(first, second)))
    assert "and 196 more" in page
    monkeypatch.setattr(table, "MOST_LINES", 20)
    monkeypatch.setattr(queries, "MOST_STEPS", 250)
    page = text(reader.get(ids(first, second)))
    assert page.count("<tr class=") == 20
    assert "Lines 1 to 20" in page
    assert "start=20#steps-title" in page
    later = text(reader.get(f"{ids(first, second)}&start=40"))
    assert later.count("<tr class=") == 51 - 40
    assert "Lines 41 to 51" in later
    assert "more lines</a>" not in later
    assert "start=20#steps-title" in later
    assert "100 are not" in page


def test_other_revisions_are_told(reader, pair):
    first, second = pair
    task, revision = first.task, first.revision
    other = type(revision).objects.create(
        task=task, scenario=revision.scenario, number=2, content_hash="other", instruction="x", verifier_hash="w"
    )
    Trajectory.objects.filter(pk=second.pk).update(revision=other)
    second.scores.all().delete()
    page = text(reader.get(ids(*pair)))
    assert "revisions 1, 2" in page
    assert "not judged" in page


def test_pages_offer_the_comparison(reader, pair):
    first, _ = pair
    listed = text(reader.get("/trajectories/"))
    assert f'formaction="{PAGE}"' in listed
    of_task = text(reader.get(f"/trajectories/of-task/{first.task_id}/", HTTP_HX_REQUEST="true"))
    assert f'action="{PAGE}"' in of_task
    assert f'value="{first.pk}"' in of_task
    type(first.task).objects.filter(pk=first.task_id).update(trajectory_count=2)
    assert f'{PAGE}?ids={first.pk}"' in text(reader.get(f"/trajectories/{first.pk}/"))


def test_the_api_gives_the_same(reader, pair):
    first, second = pair
    answer = reader.get("/api/v1/trajectories/compare", {"ids": f"{first.pk},{second.pk}"})
    assert answer.status_code == 200
    body = answer.json()
    assert body["sentence"].startswith("They part at step 5: attempt")
    assert [row["id"] for row in body["attempts"]] == [first.pk, second.pk]
    assert [line["likeness"] for line in body["lines"]] == ["same", "arguments", "same"]
    assert [line["parting"] for line in body["lines"]] == [False, True, False]
    assert (body["lines"][0]["count"], body["lines"][0]["steps"][1]["last"]) == (5, 4)
    assert body["lines"][1]["steps"][1]["differs"] == ['slot="fri-10"']
    assert [check["number"] for check in body["checks"] if check["differs"]] == [3, 5]
    assert body["checks"][0]["verdicts"][1]["says"] == "does not hold"
    assert reader.get("/api/v1/trajectories/compare", {"ids": str(first.pk)}).status_code == 422
    assert reader.get("/api/v1/trajectories/compare", {"ids": f"{first.pk},999999"}).status_code == 404

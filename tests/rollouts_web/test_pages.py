"""“Run agent” and the rollout's page: what may be chosen, what is said, and what a person without a right sees."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from tests.fixtures.llm import call, llm_server
from tests.fixtures.pages_seed import EVIL
from tests.rollouts_web.support import KEY, endpoint_at, make_task, person, solver
from tests.rollouts_web.test_jobs import run
from webapp.common.events.models import Event
from webapp.jobs.models import Job, JobState
from webapp.trajectories.models import AttemptState, Rollout, Trajectory
from webapp.trajectories.rollouts.services import start_rollout
from webapp.trajectories.rollouts.spec import Spec

pytestmark = pytest.mark.django_db(transaction=True)
PART = {"HX-Request": "true", "HX-Target": "rollouts"}


def client_of(role: str = "annotator", name: str = "ann") -> Client:
    client = Client()
    client.force_login(person(role, name))
    return client


def text(answer: Any) -> str:
    assert answer.status_code == 200, answer.status_code
    return str(answer.content.decode())


def test_the_whole_path_without_javascript() -> None:
    task, client = make_task(), client_of()
    page = text(client.get(f"/tasks/{task.pk}/?tab=attempts"))
    assert f'href="/trajectories/run/{task.pk}/"' in page
    form = text(client.get(f"/trajectories/run/{task.pk}/"))
    assert "Run agent" in form
    assert f'action="/trajectories/run/{task.pk}/start/"' in form
    answer = client.post(f"/trajectories/run/{task.pk}/start/", {"who": "reference", "attempts": "2"})
    rollout = Rollout.objects.get()
    assert answer.status_code == 302
    assert answer.headers["Location"] == f"/trajectories/rollouts/{rollout.pk}/"
    assert "Refresh" in text(client.get(answer.headers["Location"]))
    run(rollout)
    ended = text(client.get(answer.headers["Location"]))
    assert "2 of 2 solved" in ended
    assert "data-live=" not in ended
    row = Trajectory.objects.order_by("id")[0]
    assert f'href="/trajectories/{row.pk}/"' in ended
    replay = text(client.get(f"/trajectories/{row.pk}/"))
    assert "made here" in replay
    assert "Time by part" in replay
    assert "verification" in replay
    assert "recorded" not in replay.split("</header>")[1]


def test_with_htmx_the_part_comes_back_filling_in() -> None:
    task, client = make_task(), client_of()
    answer = client.post(f"/trajectories/run/{task.pk}/start/", {"who": "reference", "attempts": "2"}, headers=PART)
    rollout = Rollout.objects.get()
    part = text(answer)
    assert part.lstrip().startswith('<section id="rollouts"')
    assert f'data-live="job:{rollout.job_id}"' in part
    live = f"/trajectories/rollouts/{rollout.pk}/live/"
    assert "HX-Trigger" not in client.get(live).headers
    run(rollout)
    done = client.get(live)
    assert done.headers["HX-Trigger"] == "attempts-changed"
    assert "2 of 2 solved" in text(done)
    assert "succeeded" not in text(done), "that is said of the job, and read as of the attempts"
    beside = text(client.get(f"/trajectories/of-task/{task.pk}/", headers=PART))
    assert '<i id="tab-attempts" hx-swap-oob="true">2</i>' in beside
    assert '<span id="all-attempts" hx-swap-oob="true">2</span>' in beside
    assert Event.objects.filter(topic=f"job:{rollout.job_id}").exists()


def test_what_cannot_be_chosen_says_why() -> None:
    task = make_task(reference=False)
    part = text(client_of().get(f"/trajectories/run/{task.pk}/"))
    assert "Ask an administrator to register an endpoint" in part
    assert "this task has none" in part
    assert '<option value="reference" disabled>' in part
    assert 'href="/endpoints/"' in text(client_of("admin", "root").get(f"/trajectories/run/{task.pk}/"))
    unjudged = make_task(checks=False, key="unjudged")
    page = text(client_of("annotator", "bo").get(f"/trajectories/run/{unjudged.pk}/"))
    assert "no checks" in page
    assert "Run agent" not in page


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"who": "model:77/gone", "attempts": "2"}, "not listed at its endpoint"),
        ({"who": "dance", "attempts": "2"}, "Choose who acts"),
        ({"who": "reference", "attempts": "65"}, "64"),
        ({"who": "reference", "attempts": "0"}, "1"),
        ({"who": "random", "attempts": "1", "conversational": "on"}, "plays the user"),
        ({"who": "random", "attempts": "1", "temperature": "9"}, "2"),
    ],
)
def test_a_mistake_is_said_beside_the_form_and_starts_nothing(data: dict[str, str], said: str) -> None:
    task, client = make_task(), client_of()
    plain = client.post(f"/trajectories/run/{task.pk}/start/", data)
    assert plain.status_code == 422
    assert said in plain.content.decode()
    assert said in text(client.post(f"/trajectories/run/{task.pk}/start/", data, headers=PART))
    assert not Job.objects.exists()


def test_so_many_answers_are_mended_as_the_form_or_the_api_says() -> None:
    task, client = make_task(form=True), client_of()
    start = f"/trajectories/run/{task.pk}/start/"
    wrong = call("submit_answer", box="B-1", boxes="one")
    assert 'name="answer_mends" value="3"' in text(client.get(f"/trajectories/run/{task.pk}/"))
    assert "20" in client.post(start, {"who": "random", "attempts": "1", "answer_mends": "21"}).content.decode()
    with llm_server([wrong]) as server:
        model = f"{endpoint_at(server.url).pk}/scripted-1"
        client.post(start, {"who": f"model:{model}", "attempts": "1", "answer_mends": "0"})
        body = {"policy": "model", "model": model, "attempts": 1, "answer_mends": 1}
        api = client.post(f"/api/v1/tasks/{task.pk}/rollouts", body, "application/json")
        assert api.status_code == 202, api.content
        assert api.json()["spec"]["answer_mends"] == 1
        for rollout in Rollout.objects.order_by("id"):
            run(rollout)
    assert [row.note.rpartition("form ")[2] for row in Trajectory.objects.order_by("id")] == ["once.", "2 times."]
    page = " ".join(text(client.get(f"/trajectories/rollouts/{Rollout.objects.order_by('id')[0].pk}/")).split())
    assert "<dt>Answers to be repaired</dt> <dd>0</dd>" in page


def test_a_viewer_looks_and_starts_nothing() -> None:
    task, viewer = make_task(), client_of("viewer", "vi")
    page = text(viewer.get(f"/trajectories/run/{task.pk}/"))
    assert "Your role may not start one" in page
    assert f"/trajectories/run/{task.pk}/start/" not in page
    assert viewer.post(f"/trajectories/run/{task.pk}/start/", {"who": "reference"}).status_code == 403
    rollout = start_rollout(None, task, Spec(policy="reference", attempts=1))
    assert "Cancel" not in text(viewer.get(f"/trajectories/rollouts/{rollout.pk}/"))
    assert viewer.post(f"/trajectories/rollouts/{rollout.pk}/cancel/").status_code == 403


def test_cancel_and_retry_by_hand() -> None:
    task, client = make_task(), client_of()
    rollout = start_rollout(None, task, Spec(policy="reference", attempts=1))
    url = f"/trajectories/rollouts/{rollout.pk}/"
    assert client.post(f"{url}cancel/").status_code == 302
    page = text(client.get(url))
    assert "Retry what is missing" in page
    assert "no attempt was made" in page
    again = text(client.post(f"{url}retry/", headers=PART))
    assert "queued" in again
    assert "Cancel" in again
    assert "they could be stopped" not in again


def test_hostile_words_stay_words_and_the_key_is_nowhere() -> None:
    from tests.fixtures.llm import Request, Scripted, calls, say

    def hostile(request: Request) -> Scripted:
        if any(message["role"] == "tool" for message in request["messages"]):
            return say(EVIL, reasoning_content=EVIL)
        return calls((EVIL, {EVIL: EVIL}), content=EVIL)

    with llm_server(hostile) as server:
        endpoint = endpoint_at(server.url, models=(EVIL[:150].replace("\x07", ""),))
        spec = Spec(model=f"{endpoint.pk}/{endpoint.model_names[0]}", attempts=1)
        rollout = start_rollout(person(), make_task(), spec)
        assert run(rollout).state == JobState.SUCCEEDED
    client, row = client_of("admin", "root"), Trajectory.objects.get()
    assert row.outcome == "failed"
    task = rollout.task_id
    pages = [f"/trajectories/rollouts/{rollout.pk}/", f"/trajectories/run/{task}/", f"/jobs/{rollout.job_id}/"]
    pages += [f"/trajectories/{row.pk}/?step={step}" for step in range(row.step_count)]
    pages += ["/trajectories/", f"/trajectories/{row.pk}/news/", "/jobs/", "/endpoints/", f"/endpoints/{endpoint.pk}/"]
    for url in pages:
        page = text(client.get(url))
        assert "<script>window.hit" not in page, url
        assert "<img src=x" not in page, url
        assert KEY not in page, url


def test_a_live_run_is_followed_from_a_step_on() -> None:
    task, client = make_task(), client_of()
    rollout = start_rollout(None, task, Spec(policy="reference", attempts=1))
    run(rollout)
    row = Trajectory.objects.get()
    Trajectory.objects.update(live=True, outcome="", final_hash="", matrix=None, matrix_hash="")
    Job.objects.update(state=JobState.RUNNING)
    page = text(client.get(f"/trajectories/{row.pk}/?step=1"))
    assert "being made" in page
    assert 'data-following="1"' in page
    assert "not scored" not in page
    news = client.get(f"/trajectories/{row.pk}/news/?from=2").json()
    assert (news["live"], news["steps"], news["starts"]) == (True, 4, 1)
    assert 'data-step="2"' in news["lines"]
    assert 'data-step="1"' not in news["lines"]
    Job.objects.update(state=JobState.FAILED)
    assert "The worker that made this attempt no longer exists" in text(client.get(f"/trajectories/{row.pk}/"))
    assert client.get(f"/trajectories/{row.pk}/news/?from=x").json()["live"] is False


@pytest.mark.slow
def test_a_page_asks_the_database_as_often_for_one_attempt_as_for_many(django_assert_max_num_queries: Any) -> None:
    task, client = make_task(), client_of()
    few = start_rollout(None, task, Spec(policy="reference", attempts=1))
    run(few)
    many = start_rollout(None, task, Spec(policy="reference", attempts=30))
    run(many)
    assert set(many.attempts.values_list("state", flat=True)) == {AttemptState.DONE}
    for rollout in (few, many):
        with django_assert_max_num_queries(6):
            client.get(f"/trajectories/rollouts/{rollout.pk}/")
    with django_assert_max_num_queries(14):
        client.get(f"/trajectories/run/{task.pk}/")


def test_a_model_is_the_first_choice_and_the_default_of_the_role_before_it() -> None:
    from webapp.endpoints.services import set_roles

    task, client = make_task(), client_of()
    with llm_server(solver) as server:
        endpoint = endpoint_at(server.url, models=("a", "b"))
        page = text(client.get(f"/trajectories/run/{task.pk}/"))
        assert f'<option value="model:{endpoint.pk}/a" selected>' in page
        set_roles(None, {"agent": f"{endpoint.pk}/b"})
        page = text(client.get(f"/trajectories/run/{task.pk}/"))
        assert f'<option value="model:{endpoint.pk}/b" selected>' in page
        client.post(f"/trajectories/run/{task.pk}/start/", {"who": f"model:{endpoint.pk}/b", "attempts": "1"})
        assert run(Rollout.objects.get()).state == JobState.SUCCEEDED
        assert {request["model"] for request in server.requests} == {"b"}

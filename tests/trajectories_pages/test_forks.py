"""Forks through the pages and over the API: the choice, the playground, its end, the reference, the pair, a rollout."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from tests.fixtures.llm import llm_server, say
from tests.fixtures.markup import markup
from tests.rollouts_web.support import endpoint_at, make_task, person
from tests.trajectories.test_forks import WRONG, carried_out, only
from webapp.accounts.tokens import create_token
from webapp.endpoints.services import set_roles
from webapp.jobs.models import Job, JobState
from webapp.scenarios.models import Playground, Task
from webapp.scenarios.playground.live_episodes import CACHE
from webapp.scenarios.references import find_reference, save_reference
from webapp.trajectories.models import Rollout, Trajectory
from webapp.trajectories.rollouts.services import start_rollout
from webapp.trajectories.rollouts.spec import ForkOf, Spec

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _no_worker(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr("webapp.jobs.services.wake_job", lambda job_id, queue: None)
    yield
    CACHE.clear()


@pytest.fixture
def parent(client: Client) -> Trajectory:
    """It opens a box too many at step 3."""
    task, ann = make_task(reference=False), person()
    assert task.current is not None
    save_reference(task.current, WRONG, "test")
    client.force_login(ann)
    return only(start_rollout(ann, task, Spec(policy="reference", attempts=1)))


def text(response: Any) -> str:
    return " ".join(re.sub(r"<[^>]+>", "", markup(response)).split())


def test_from_the_replay_to_a_fork_that_becomes_the_reference(client: Client, parent: Trajectory) -> None:
    replay = f"/trajectories/{parent.pk}/"
    assert f'href="/trajectories/{parent.pk}/fork/?step=3"' in markup(client.get(f"{replay}?step=3"))
    choice = markup(client.get(f"{replay}fork/?step=3"))
    assert "Before this call: change it" in choice
    assert "After step 3" in choice
    assert f"/trajectories/run/{parent.task_id}/?fork={parent.pk}&amp;step=3" in choice
    assert "ended with the words of step 4" in text(client.get(f"{replay}fork/?step=4"))
    assert "asks for step 99; the last one is step 4" in text(client.get(f"{replay}fork/?step=99"))
    begun = client.post(f"{replay}fork/by-hand/", {"step": 3}, follow=True)
    play = Playground.objects.get()
    page = markup(begun)
    assert f'hx-get="/trajectories/forks/{play.pk}/"' in page
    assert 'value="B-2"' in page, "the parent's arguments are filled in"
    assert page.count("parent's") == 2
    assert 'name="validation"' not in page
    part = text(client.get(f"/trajectories/forks/{play.pk}/"))
    assert f"Fork of trajectory {parent.pk} at step 3" in part
    assert "Ada would like her box to be opened." in part
    assert f'hx-get="/trajectories/forks/{play.pk}/checks/"' in markup(client.get(f"/trajectories/forks/{play.pk}/"))
    now = text(client.get(f"/trajectories/forks/{play.pk}/checks/"))
    assert "2 of 2 hold now" in now
    assert "changed by the calls" in now, "the parent's call before the fork opened her box"
    ended = client.post(
        f"/trajectories/forks/{play.pk}/finish/", {"serial": play.serial, "answer": "Her box is open."}, follow=True
    )
    fork = Trajectory.objects.get(source="fork")
    said = text(ended)
    assert "verified: 1." in said
    assert f"Fork of trajectory {parent.pk} at step 3 which earned 0" in said
    assert "in the place of 3 calls from test" in said
    assert "verification" in said
    assert "agent's LLM" not in said, "a person acted"
    assert "goes back to review" not in said, "nobody has decided on it"
    Task.objects.filter(pk=parent.task_id).update(review_state="approved")
    warned = text(client.get(f"/trajectories/{fork.pk}/"))
    assert "audited again, and goes back to review: people decided “approved”" in warned
    assert f"Forks {fork.pk} at step 3, ann, by hand, reward 1" in text(client.get(replay))
    assert f"fork of {parent.pk}" in text(client.get(f"/trajectories/?parent={parent.pk}"))
    assert "Forks of" in text(client.get(f"/trajectories/?parent={parent.pk}"))
    done = client.post(f"/trajectories/{fork.pk}/fork/reference/", follow=True)
    assert "are the reference of task" in text(done)
    assert find_reference(fork.revision).source == "fork"  # type: ignore[union-attr]
    assert Job.objects.filter(kind="audit").count() == 1
    line = json.loads(client.get(f"/trajectories/{fork.pk}/pair.jsonl").content)
    assert set(line) == {"prompt", "chosen", "rejected", "tools"}
    refused = client.get(f"/trajectories/{parent.pk}/pair.jsonl")
    assert (refused.status_code, "not a fork" in refused.content.decode()) == (404, True)


def test_a_fork_that_a_judge_decides_is_verified_by_a_job(client: Client) -> None:
    ann = person()
    task = make_task(checks=False, criteria=("Ada's box is open.",), reference=False)
    assert task.current is not None
    save_reference(task.current, WRONG, "test")
    client.force_login(ann)
    told = {"criterion": 1, "passed": True, "reason": "It names box 1.", "quote": '"call": '}
    verdict = json.dumps({"verdicts": [told]})
    with llm_server(lambda request: say(verdict)) as server:
        endpoint = endpoint_at(server.url, models=("judge-1",))
        set_roles(None, {"judge": f"{endpoint.pk}/judge-1"})
        parent = only(start_rollout(ann, task, Spec(policy="reference", attempts=1)))
        client.post(f"/trajectories/{parent.pk}/fork/by-hand/", {"step": 3})
        play = Playground.objects.get()
        ended = client.post(
            f"/trajectories/forks/{play.pk}/finish/", {"serial": play.serial, "answer": "I think box 1 is open."}
        )
        job = Job.objects.get(kind="fork")
        assert ended.headers["Location"] == f"/jobs/{job.pk}/"
        assert not Trajectory.objects.filter(source="fork").exists()
        done = carried_out(job.pk)
    assert done.state == JobState.SUCCEEDED, done.error
    fork = Trajectory.objects.get(source="fork")
    assert (done.result["trajectory"], fork.reward) == (fork.pk, 1.0)
    assert f'href="/trajectories/{fork.pk}/"' in markup(client.get(f"/jobs/{job.pk}/"))


def test_what_is_refused_is_said_where_it_was_asked(client: Client, parent: Trajectory) -> None:
    parent.steps.filter(index=1).update(result={"success": False})
    refused = client.post(f"/trajectories/{parent.pk}/fork/by-hand/", {"step": 3}, follow=True)
    assert "goes another way at step 1: find_box gives another result" in text(refused)
    assert not Playground.objects.exists()
    for step in ("0", "99", "x", ""):
        assert client.post(f"/trajectories/{parent.pk}/fork/by-hand/", {"step": step}).status_code == 302
    assert client.get(f"/trajectories/{parent.pk}/fork/?step=99999999999999999999").status_code == 200


def test_nobody_finishes_another_ones_fork_and_no_state_that_was_not_seen(client: Client, parent: Trajectory) -> None:
    client.post(f"/trajectories/{parent.pk}/fork/by-hand/", {"step": 2})
    play = Playground.objects.get()
    client.post(reverse("scenarios:playground_redo", args=[play.pk]), {"serial": 0})
    stale = client.post(f"/trajectories/forks/{play.pk}/finish/", {"serial": 0, "answer": "What I wrote <b>"})
    assert stale.status_code == 409
    assert "went on in another tab" in text(stale)
    assert "What I wrote &lt;b&gt;</textarea>" in markup(stale)
    other = Client()
    other.force_login(person(name="bo"))
    assert "Only ann finishes this fork." in text(other.get(f"/trajectories/forks/{play.pk}/"))
    assert other.post(f"/trajectories/forks/{play.pk}/finish/", {"serial": 1}).status_code == 404
    viewer = Client()
    viewer.force_login(person("viewer", "vi"))
    assert "Your role may not fork" in text(viewer.get(f"/trajectories/{parent.pk}/fork/?step=3"))
    assert viewer.post(f"/trajectories/{parent.pk}/fork/by-hand/", {"step": 3}).status_code == 403


def test_a_policy_is_sent_from_a_step_by_the_form_and_an_older_revision_is_named(
    client: Client, parent: Trajectory
) -> None:
    page = markup(client.get(f"/trajectories/run/{parent.task_id}/?fork={parent.pk}&step=3"))
    assert f'name="fork" value="{parent.pk}"' in page
    assert "before step 3 again" in " ".join(re.sub(r"<[^>]+>", "", page).split())
    assert "Open this rollout" not in page, "the parent's own rollout is none of this fork's"
    assert "No policy has gone on from this step yet." in page
    form = {"who": "random", "attempts": 1, "calls": 3, "fork": parent.pk, "step": 3}
    started = client.post(f"/trajectories/run/{parent.task_id}/start/", form, follow=True)
    assert f"trajectory {parent.pk}, step 3" in text(started)
    rollout = Rollout.objects.latest("id")
    assert Spec.model_validate(rollout.spec).fork == ForkOf(trajectory=parent.pk, step=3)
    child = only(rollout)
    assert child.parent_id == parent.pk
    again = markup(client.get(f"/trajectories/run/{parent.task_id}/?fork={parent.pk}&step=3"))
    assert again.count(f'href="/trajectories/compare/?ids={parent.pk},{child.pk}"') == 2
    assert client.get(f"/trajectories/compare/?ids={parent.pk},{child.pk}").status_code == 200
    bad = client.post(f"/trajectories/run/{parent.task_id}/start/", form | {"step": 5})
    assert bad.status_code == 422
    assert "ended with the words of step 4" in text(bad)
    Task.objects.filter(pk=parent.task_id).update(current=None)
    assert "which is not the current one" in text(client.get(f"/trajectories/{parent.pk}/fork/?step=3"))


def test_the_api_forks_pairs_and_takes_references(client: Client, parent: Trajectory) -> None:
    _, token = create_token(None, parent_owner(), "forks", ["read", "review", "synthesise"])
    headers = {"authorization": f"Bearer {token}"}
    base = f"/api/v1/trajectories/{parent.pk}"

    def post(path: str, body: Any) -> Any:
        return client.post(path, json.dumps(body), content_type="application/json", headers=headers)

    assert post(f"{base}/forks", {"step": 9}).status_code in (400, 422)
    begun = post(f"{base}/forks", {"step": 3, "calls": [{"tool": "find_box", "arguments": {"owner": "Bo"}}]})
    assert begun.status_code == 202, begun.content
    job = carried_out(begun.json()["id"])
    assert job.state == JobState.SUCCEEDED, job.error
    fork = client.get(f"/api/v1/trajectories/{job.result['trajectory']}", headers=headers).json()
    assert (fork["parent_id"], fork["forked_at"], fork["reward"]) == (parent.pk, 3, 1.0)
    listed = client.get(f"/api/v1/trajectories?parent={parent.pk}", headers=headers).json()["data"]
    assert [row["id"] for row in listed] == [fork["id"]]
    pair = client.get(f"/api/v1/trajectories/{fork['id']}/pair", headers=headers).json()
    assert pair["chosen"] != pair["rejected"]
    assert client.get(f"{base}/pair", headers=headers).status_code == 404
    assert post(f"{base}/reference", {}).status_code == 409
    taken = post(f"/api/v1/trajectories/{fork['id']}/reference", {})
    assert (taken.status_code, taken.json()["kind"]) == (202, "audit")
    body = {"policy": "random", "attempts": 1, "fork": {"trajectory": parent.pk, "step": 3}}
    rollout = post(f"/api/v1/tasks/{parent.task_id}/rollouts", body)
    assert rollout.status_code == 202, rollout.content
    assert rollout.json()["spec"]["fork"] == {"trajectory": parent.pk, "step": 3}


def parent_owner() -> Any:
    from webapp.accounts.models import User

    return User.objects.get(username="ann")

"""The search over everything: by words and numbers, in each kind, as text, within rights."""

from __future__ import annotations

import pytest
from django.test import Client

from tests.fixtures import pages_seed, replay_seed, runs_seed
from webapp.accounts.models import User
from webapp.batches.models import Batch
from webapp.common.lists.models import SavedView
from webapp.common.templatetags.show import marked
from webapp.environments.models import Tool
from webapp.jobs.models import Job
from webapp.pages.search import Hit, parse_query, search_all
from webapp.review.models import ReviewQueue
from webapp.scenarios.models import Task
from webapp.taxonomy.models import Node, Theme

pytestmark = pytest.mark.django_db
HOSTILE = "<img src=x onerror=window.hit=1> quixotic"


@pytest.fixture
def ada(db: None) -> User:
    return pages_seed.person("viewer")


def found(user: User, text: str, kind: str = "") -> dict[str, list[Hit]]:
    return {group.kind: list(group.hits) for group in search_all(parse_query(text, user), kind)}


@pytest.fixture
def everything(db: None) -> None:
    """One quixotic thing of each kind."""
    run = replay_seed.make(replay_seed.ordinary())
    Task.objects.update(title=HOSTILE, words=HOSTILE)
    run.environment.name, run.environment.current = HOSTILE, run.task.scenario.version
    run.environment.save()
    Tool.objects.create(version=run.task.scenario.version, position=0, name="quixotic_lookup", kind="query")
    Batch.objects.create(name=HOSTILE)
    Job.objects.create(kind="audit", queue="sandbox", title=HOSTILE)
    node = Node.objects.create(level=1, name="Health", path="health")
    Theme.objects.create(node=node, source="s", key="k", name=HOSTILE, content_hash="0" * 64)
    job = runs_seed.training_job(steps=1, environments=1)
    job.name = HOSTILE
    job.save()


def test_each_kind_is_found_by_a_word_and_leads_to_a_page_that_is_there(everything: None, client: Client) -> None:
    admin = pages_seed.person("admin")
    client.force_login(admin)
    hits = found(admin, "quixo")
    kinds = {"environments", "tools", "tasks", "trajectories", "themes", "batches", "training", "jobs"}
    assert set(hits) == kinds
    for kind in kinds:
        assert client.get(hits[kind][0].url).status_code == 200, kind
    assert found(admin, "quixotic nothing-like-it") == {}
    assert set(found(admin, "quixotics")) == set(found(admin, "quixoticies")) == kinds, "a plural finds one too"


def test_what_is_found_is_text(everything: None, client: Client, ada: User) -> None:
    client.force_login(ada)
    page = client.get("/search/?q=quixotic").content.decode()
    assert "<img src=x" not in page
    assert "&lt;img src=x onerror=window.hit=1&gt; <mark>quixotic</mark>" in page
    part = client.get("/search/?q=quixotic", headers={"HX-Request": "true", "HX-Target": "palette-hits"})
    assert "<html" not in part.content.decode()


def test_words_mark_what_they_match_and_never_an_entity() -> None:
    assert marked("a<b> amp", ["AMP", "<B"]) == "a<mark>&lt;b</mark>&gt; <mark>amp</mark>"
    assert marked("R&D lt", ["LT"]) == "R&amp;D <mark>lt</mark>"


def test_numbers_find_their_rows_and_short_words_only_pages(ada: User) -> None:
    run = replay_seed.make(replay_seed.ordinary())
    assert found(ada, f"#{run.pk}")["trajectories"][0].url == f"/trajectories/{run.pk}/"
    assert found(ada, "ba") == {"pages": found(ada, "ba")["pages"]}
    assert [hit.label for hit in found(ada, "batch")["pages"]] == ["Batches"]
    assert set(found(ada, "> train")) == {"pages"}
    assert found(ada, "") == {}


def test_commands_are_those_that_the_person_may_give(ada: User) -> None:
    labels = {hit.label for hit in found(ada, ">new").get("pages", [])}
    assert labels == set()
    admin = {hit.label for hit in found(pages_seed.person("admin"), ">new")["pages"]}
    assert {"New batch", "New training job", "New dataset"} <= admin


def test_what_people_ask_for_in_words_leads_where_they_mean(client: Client, ada: User) -> None:
    run = replay_seed.make(replay_seed.ordinary())
    client.force_login(ada)
    queue = ReviewQueue.objects.create(name=f"Night desk {HOSTILE}", kind="task")
    SavedView.objects.create(owner=ada, list_name="tasks", name="Mine to mend", query="audit=red")
    other = pages_seed.person("annotator")
    SavedView.objects.create(owner=other, list_name="tasks", name="Mine to hide", query="audit=red")
    assert found(ada, f"task {run.task_id}")["tasks"][0].url == f"/tasks/{run.task_id}/"
    assert found(ada, f"trajectory #{run.pk}")["trajectories"][0].url == f"/trajectories/{run.pk}/"
    asked = {"red audit": "/tasks/?audit=red", "failed traj": "/trajectories/?outcome=failed", "go to tasks": "/tasks/",
             "night": f"/review/{queue.pk}/", "attempts": "/trajectories/", "mine": "/tasks/?audit=red"}  # fmt: skip
    for words, url in asked.items():
        assert found(ada, words)["pages"][0].url == url, words
    assert [hit.label for hit in found(ada, "mine")["pages"]] == ["Mine to mend"]
    every = found(ada, ">")["pages"]
    assert len(every) > 20
    assert {client.get(hit.url).status_code for hit in every} == {200}


def test_the_best_match_stands_first(ada: User) -> None:
    replay_seed.make(replay_seed.ordinary())
    for text in ("Disclosing the closet", "Close the account"):
        Batch.objects.create(name=text)
    assert [hit.label for hit in found(ada, "clos")["batches"]] == ["Close the account", "Disclosing the closet"]
    Job.objects.create(kind="audit", queue="sandbox", title="Audit pages named Tasks")
    assert next(iter(found(ada, "tasks"))) == "pages", "what has exactly that name, though jobs come before pages else"
    assert next(iter(found(ada, "task"))) == "jobs"


def test_a_task_is_found_by_its_whole_title_however_many_hold_its_words(
    ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webapp.pages.search.READ", 3)
    run = replay_seed.make(replay_seed.ordinary())
    assert run.task is not None
    for number in range(6):
        title = "Nurse closed" if number == 4 else f"Another {number}"
        words = f"{title}\nkey-{number}\nA nurse closed the ward."
        Task.objects.create(
            environment=run.task.environment, scenario=run.task.scenario, source="made", key=f"key-{number}",
            title=title, words=words,
        )  # fmt: skip
    hits = found(ada, "nurse closed")["tasks"]
    assert hits[0].label == "Nurse closed"
    assert len({hit.url for hit in hits}) == len(hits) == 3


@pytest.mark.parametrize("text", ["%", "_", "\\", "' OR 1=1 --", "\x00abc", "a" * 100, "%%%%%%", "\u202eabc"])
def test_odd_queries_are_only_text(text: str, client: Client, ada: User) -> None:
    client.force_login(ada)
    replay_seed.make(replay_seed.ordinary())
    assert client.get("/search/", {"q": text}).status_code == 200
    assert "tasks" not in found(ada, text)

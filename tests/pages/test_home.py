"""Home: first steps ticked by what was done, queues that wait, counts that the training demo does not distort."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db.models.sql.compiler import SQLCompiler
from django.test import Client
from django.utils import timezone
from django.utils.html import escape

from tests.fixtures import pages_seed, replay_seed
from tests.fixtures.markup import flat, markup
from training.examples.records import CATEGORY, SOURCE
from webapp.accounts.models import ApiToken, User
from webapp.batches.models import Batch, BatchState
from webapp.environments.models import Environment
from webapp.jobs.models import Job
from webapp.labelling.models import Ask, LabelItem, LabelRound, LabelSession, Reservation
from webapp.pages.demo_content import find_demo_amounts
from webapp.pages.first_steps import OFFERS, list_first_steps
from webapp.pages.next_decision import find_next_decision
from webapp.pages.queries import count_amounts, list_waiting_groups, list_worked_queues
from webapp.pages.search import parse_query, search_all
from webapp.review.models import Assignment, QueueItem, ReviewDecision, ReviewQueue
from webapp.runs.models import TrainingJob
from webapp.scenarios.models import Task
from webapp.trajectories.models import Trajectory

pytestmark = pytest.mark.django_db


def signed(role: str) -> tuple[User, Client]:
    person, client = pages_seed.person(role), Client()
    client.force_login(person)
    return person, client


def done(user: User) -> set[str]:
    return {step.name for step in list_first_steps(user) if step.done}


def demo_task() -> Task:
    run = replay_seed.make(replay_seed.ordinary())
    version = run.task.scenario.version
    Environment.objects.filter(pk=run.environment_id).update(
        source=SOURCE, category=CATEGORY, task_count=1, current=version
    )
    return run.task


def test_steps_are_ticked_by_what_the_person_did() -> None:
    ada, client = signed("operator")
    assert done(ada) == set()
    html = flat(client.get("/"))
    assert "First steps" in html
    assert "Register a model" not in html, "administrators do"
    Batch.objects.create(name="draft", created_by=ada)
    Batch.objects.create(name="of another", state=BatchState.DONE)
    ApiToken.objects.create(user=ada, name="mine", prefix="x", scopes=["read"], expires_at=timezone.now())
    Job.objects.create(kind="import_envscaler", queue="sandbox", state="failed", created_by=ada)
    assert done(ada) == {"token"}
    Batch.objects.create(name="begun", created_by=ada, state=BatchState.RUNNING)
    Job.objects.create(kind="import_envscaler", queue="sandbox", state="succeeded", created_by=ada)
    Job.objects.create(kind="rollout", queue="llm", created_by=ada)
    run = replay_seed.make(replay_seed.ordinary())
    assert done(ada) == {"token", "batch", "import", "agent"}, "attempts are here, but ada opened none"
    assert client.get(f"/trajectories/{run.pk}/").status_code == 200
    assert done(ada) == {"token", "batch", "import", "agent", "replay"}
    viewer, _ = signed("viewer")
    assert [step.name for step in list_first_steps(viewer)] == ["replay", "token"]


def test_they_are_put_away_by_one_person_and_shown_again(monkeypatch: pytest.MonkeyPatch) -> None:
    (_, ada), (_, bob) = signed("operator"), signed("viewer")
    assert ada.post("/first-steps/", {"hidden": "1"}).headers["Location"] == "/"
    assert "Dismiss" not in flat(ada.get("/"))
    assert "Show the first steps" in flat(ada.get("/"))
    assert "Dismiss" in flat(bob.get("/"))
    ada.post("/first-steps/", {"hidden": "0"})
    assert "Dismiss" in flat(ada.get("/"))
    opened = ada.get("/first-steps/", HTTP_ACCEPT="text/html")
    assert opened.status_code == 405
    assert "Go back to the page that you came from" in flat(opened)
    assert opened.headers["Allow"] == "POST"
    every = [offer.__class__(**{**vars(offer), "done_by": lambda user: User.objects.all()}) for offer in OFFERS]
    monkeypatch.setattr("webapp.pages.first_steps.OFFERS", every)
    assert "Dismiss" not in flat(ada.get("/")), "gone once all is done"


def test_every_step_leads_to_a_page() -> None:
    admin, client = signed("admin")
    for rows in (0, 1):
        for step in list_first_steps(admin):
            assert client.get(step.url).status_code == 200, step.name
        if not rows:
            replay_seed.make(replay_seed.ordinary())


def test_queues_that_wait_are_groups_with_counts() -> None:
    ada, client = signed("annotator")
    queue = ReviewQueue.objects.create(name="Red <audits>", kind="task", item_count=12, closed_count=5)
    ReviewQueue.objects.create(name="Done", kind="task", item_count=3, closed_count=3)
    other = ReviewQueue.objects.create(name="Others", kind="task", item_count=3, roles=["adjudicator"])
    assert [(group.label, group.number, group.url) for group in list_waiting_groups(ada)] == [
        ("to decide in Red <audits>", 7, f"/review/{queue.pk}/")
    ]
    page = markup(client.get("/"))
    assert "to decide in Red &lt;audits&gt; <b>7</b>" in page
    assert f"/review/{other.pk}/" not in page
    assert not list_waiting_groups(signed("viewer")[0])


def test_a_queue_of_named_people_waits_for_these_alone() -> None:
    ada, _ = signed("annotator")
    queue = ReviewQueue.objects.create(name="Ours", kind="task", item_count=2)
    queue.members.add(pages_seed.person("operator"))
    assert not list_waiting_groups(ada)
    queue.members.add(ada)
    assert [group.number for group in list_waiting_groups(ada)] == [2]


def test_an_annotators_home_leads_with_their_next_item(django_assert_max_num_queries: Any) -> None:
    ada, client = signed("annotator")
    run = replay_seed.make(replay_seed.ordinary())
    queue = ReviewQueue.objects.create(name="Attempts <b>", kind="trajectory", item_count=2)
    task_queue = ReviewQueue.objects.create(name="Tasks", kind="task", item_count=2)
    assert find_next_decision(ada, list_worked_queues(ada)) is None
    assert "Begin with" not in flat(client.get("/"))
    rows = {"state": "open", "overlap": 1, "free": 1}
    QueueItem.objects.create(queue=task_queue, task=run.task, **rows)
    first = QueueItem.objects.create(queue=queue, trajectory=run, rank=2, **rows)
    page = markup(client.get("/"))
    assert f"Begin with “{escape(run.name)}”" in page
    assert page.index("Begin with") < page.index("First steps") < page.index('<ul class="stats">')
    assert 'class="button" href="/batches/new/"' in page, "their queue's button is the only filled one"
    with django_assert_max_num_queries(5):
        said = find_next_decision(ada, [queue])
    assert said is not None
    assert (said.left, said.place, said.begun) == (1, "Attempts <b>", False)
    opened = client.post(said.begin_url)
    assert opened.headers["Location"] == f"/review/items/{first.pk}/"
    client.get(opened.headers["Location"])
    assert f"Go on with “{escape(run.name)}”" in flat(client.get("/"))
    ReviewDecision.objects.create(user=ada, task=run.task, revision=run.task.current, verdict="approve", seen="x")
    Assignment.objects.filter(user=ada).update(state="skipped")
    assert find_next_decision(ada, list_worked_queues(ada)) is None, "skipped, and decided elsewhere"
    _, operator = signed("operator")
    theirs = markup(operator.get("/"))
    assert "Begin with" not in theirs
    assert theirs.index("First steps") < theirs.index("Waiting for you")


def test_the_item_that_is_named_opens_also_after_a_hold_has_ended() -> None:
    ada, client = signed("annotator")
    run = replay_seed.make(replay_seed.ordinary())
    queue = ReviewQueue.objects.create(name="Attempts", kind="trajectory", item_count=2)
    other = Trajectory.objects.get(pk=run.pk)
    other.pk, other.content_hash = None, "0" * 64
    other.save()
    rows = {"queue": queue, "state": "open", "overlap": 1, "free": 1}
    left = QueueItem.objects.create(trajectory=run, rank=2, **rows)
    QueueItem.objects.create(trajectory=other, rank=1, **rows)
    client.post(f"/review/{queue.pk}/next/")
    Assignment.objects.filter(user=ada).update(expires_at=timezone.now() - timedelta(minutes=1))
    said = find_next_decision(ada, list_worked_queues(ada))
    assert said is not None
    assert (said.begun, said.left) == (False, 2)
    assert client.post(said.begin_url).headers["Location"] == f"/review/items/{left.pk}/"


def test_a_label_that_is_named_opens_also_after_its_reservation_has_ended() -> None:
    ada, client = signed("annotator")
    session = LabelSession.objects.create(name="Places", kind="place", places="leaves", tree={})
    asked = LabelRound.objects.create(session=session, number=1)
    item = LabelItem.objects.create(session=session, position=0, key=1, name="Weather")
    Ask.objects.create(session=session, round=asked, item=item, position=0, overlap=1, free=1)
    client.post(f"/taxonomy/sessions/{session.pk}/next/")
    assert (said := find_next_decision(ada, [])) is not None
    assert said.begun
    Reservation.objects.update(expires_at=timezone.now() - timedelta(minutes=1))
    assert (said := find_next_decision(ada, [])) is not None
    assert (said.title, said.begun, said.left) == ("Weather", False, 1)


def test_what_was_sent_and_what_is_to_label_come_next_too() -> None:
    ada, bob = signed("annotator")[0], pages_seed.person("adjudicator")
    run = replay_seed.make(replay_seed.ordinary())
    session = LabelSession.objects.create(name="Places", kind="place", places="leaves", tree={})
    item = LabelItem.objects.create(session=session, position=0, key=1, name="Weather")
    asked = LabelRound.objects.create(session=session, number=1)
    Ask.objects.create(session=session, round=asked, item=item, position=0, overlap=1, free=1)
    said = find_next_decision(ada, [])
    assert said is not None
    assert (said.title, said.left, said.place, said.begin_url) == (
        "Weather", 1, "Places", f"/taxonomy/sessions/{session.pk}/next/"
    )  # fmt: skip
    queue = ReviewQueue.objects.create(name="Tasks", kind="task", item_count=1)
    QueueItem.objects.create(queue=queue, task=run.task, state="open", overlap=1, free=1, assignee=ada)
    assert (said := find_next_decision(ada, [])) is not None
    assert said.title == run.task.title
    session.members.add(bob)
    QueueItem.objects.update(assignee=bob)
    assert find_next_decision(ada, list_worked_queues(ada)) is None
    assert find_next_decision(bob, list_worked_queues(bob)) is not None


def test_home_asks_few_queries_and_makes_little_sql_anew(
    monkeypatch: pytest.MonkeyPatch, django_assert_max_num_queries: Any
) -> None:
    _, client = signed("annotator")
    run = replay_seed.make(replay_seed.ordinary())
    Trajectory.objects.filter(pk=run.pk).update(outcome="failed")
    Task.objects.update(audit_state="red")
    assert "red audits <b>1</b>" in markup(client.get("/"))
    made, as_sql = [], SQLCompiler.as_sql

    def counted(self: SQLCompiler, *args: Any, **kwargs: Any) -> Any:
        made.append(self.query.model)
        return as_sql(self, *args, **kwargs)

    monkeypatch.setattr(SQLCompiler, "as_sql", counted)
    with django_assert_max_num_queries(29):
        client.get("/")
    assert len(made) <= 3  # when the person was here before; the others' text is kept
    Task.objects.update(audit_state="stale")
    page = markup(client.get("/"))
    assert "stale audits <b>1</b>" in page
    assert "red audits" not in page


def test_the_training_demo_does_not_distort_counts_and_statistics() -> None:
    _, client = signed("viewer")
    task = demo_task()
    Task.objects.filter(pk=task.pk).update(do_nothing=1, audit_state="red")
    assert [amount.value for amount in count_amounts(find_demo_amounts())] == [0, 0, 0, 0]
    page = flat(client.get("/"))
    assert "Without what the training demo brought in" in page
    assert "/environments/?category=Training+demo" in page
    assert not [group for group in list_waiting_groups(pages_seed.person("annotator")) if "audit" in group.label]
    statistics = client.get("/ecosystem/")
    assert statistics.context["eco"].environments == 0
    assert "Without the training demo" in flat(statistics)
    assert client.get("/ecosystem/?demo=1").context["eco"].environments == 1
    assert client.get(f"/ecosystem/?category={CATEGORY}").context["eco"].environments == 1
    assert client.get("/ecosystem/?demo=1").context["scope"].query.endswith("demo=1")
    Environment.objects.all().update(source="other")
    assert [amount.value for amount in count_amounts(find_demo_amounts())] == [0, 1, 1, 1]
    assert "training demo" not in flat(client.get("/ecosystem/"))


def test_search_names_the_demos_tasks_last() -> None:
    ada, _ = signed("viewer")
    demo = demo_task()
    place = Environment.objects.create(source="made", key="other", name="Other")
    other = Task.objects.create(environment=place, scenario=demo.scenario, source="made", key="other", title="Other")
    Task.objects.filter(pk=demo.pk).update(title="quixotic", words="quixotic")
    Task.objects.filter(pk=other.pk).update(title="a task that is less quixotic", words="a task that is less quixotic")
    groups = {group.kind: group.hits for group in search_all(parse_query("quixotic", ada))}
    assert [hit.url for hit in groups["tasks"]] == [f"/tasks/{other.pk}/", f"/tasks/{demo.pk}/"]
    assert str(demo.pk) in search_all(parse_query(str(demo.pk), ada), "tasks")[0].hits[0].url
    assert TrainingJob.objects.count() == 0

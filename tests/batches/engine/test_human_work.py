"""What a person made, chose or approved stays current whatever batches make; what they make stands beside it."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from synthesis.runtime import Sandbox, get_default_sandbox
from synthesis.stages import ItemSpec
from tests.batches.support import SMALL, make_batch, settings_at, work_off
from tests.batches.table import TABLE, answer
from tests.fixtures import pages_seed
from tests.fixtures.api import program
from tests.fixtures.llm import Request, Scripted, llm_server, say
from tests.fixtures.markup import flat
from tests.rollouts_web.support import endpoint_at, person
from webapp.accounts.models import AuditEntry, User
from webapp.batches import services
from webapp.batches.beside_human_work import count_met_human_work, list_revisions_beside, list_versions_beside
from webapp.batches.engine.products import SOURCE
from webapp.batches.engine.theme_source import build_environment_specs
from webapp.batches.launch import choice
from webapp.batches.models import Batch, BatchItem, BatchProduct
from webapp.batches.replaced_work import ReplacedWork, find_replaced_work, forecast_replaced_work
from webapp.batches.spec import ROLES, BatchSettings
from webapp.edits.saved_edit import save_edit
from webapp.edits.services import keep_draft, start_program_edit, start_task_edit
from webapp.environments.models import Environment, Version
from webapp.review.decisions import DecisionChoice, create_decision
from webapp.review.models import ReviewDecision
from webapp.review.subjects import build_entity_tag
from webapp.scenarios.models import Task, TaskRevision
from webapp.trajectories.models import Trajectory

pytestmark = pytest.mark.django_db(transaction=True)
TASKS = 3


@dataclass
class Library:
    """A batch whose program and first task a person edited, and whose second task a person approved."""

    user: User
    batch: Batch
    url: str
    edited: Task
    approved: Task
    untouched: Task

    @property
    def environment(self) -> Environment:
        return Environment.objects.select_related("current").get()

    def again(self) -> Batch:
        return work_off(services.clone_batch(self.user, self.batch.pk, settings_with(self.url), TABLE))


def settings_with(url: str) -> BatchSettings:
    return settings_at(url, stages=SMALL.model_copy(update={"tasks": TASKS}))


def approve(user: User, pk: int) -> None:
    task = Task.objects.select_related("current", "audit").get(pk=pk)
    fine = DecisionChoice("approve", comment="Looked at by hand.", overrides=True)
    create_decision(user, "task", pk, fine, build_entity_tag("task", task))


def edit_task(user: User, task: Task, words: str) -> None:
    edit = start_task_edit(user, Task.objects.get(pk=task.pk))
    edit = keep_draft(user, edit.pk, {"instruction": words}, edit.serial)
    save_edit(get_default_sandbox(), user, edit.pk, None)


def edit_program(user: User, environment: Environment) -> None:
    version = Version.objects.select_related("environment").get(pk=environment.current_id or 0)
    edit = start_program_edit(user, version)
    source = version.source.replace("no such box", "there is no such box")
    assert source != version.source
    edit = keep_draft(user, edit.pk, {"source": source}, edit.serial)
    save_edit(get_default_sandbox(), user, edit.pk, None)


def library(url: str) -> Library:
    user = person("admin")
    batch = work_off(make_batch(user, settings_with(url), ["one"]))
    edited, approved, untouched = Task.objects.order_by("pk")
    edit_program(user, Environment.objects.get())
    edit_task(user, edited, "Open the box of Ada, please.")
    approve(user, approved.pk)
    return Library(user, batch, url, edited, approved, untouched)


@pytest.mark.slow
def test_a_clone_leaves_the_edited_program_the_edited_task_and_the_approval_and_lists_what_it_made_beside() -> None:
    with llm_server(answer) as server:
        made = library(server.url)
        before = list(Task.objects.order_by("pk").values_list("pk", "current", "review_state", "title"))
        rows = [kind.objects.count() for kind in (Version, Task, TaskRevision, Trajectory)]
        stands = count_met_human_work(choice.copy_batch_items(made.batch).specs.values())
        assert stands.words == "1 edited program, 1 edited task, 1 approval"
        browser = Client()
        browser.force_login(made.user)
        form = browser.get(f"/batches/{made.batch.pk}/clone/").content.decode()
        assert "1 edited program, 1 edited task, 1 approval: kept" in form
        clone = made.again()
    assert clone.state == "done"
    assert made.environment.current.number == 2, "the person's version"
    assert list(Task.objects.order_by("pk").values_list("pk", "current", "review_state", "title")) == before
    assert [kind.objects.count() for kind in (Version, Task, TaskRevision, Trajectory)] == rows, "nothing is doubled"
    assert [product.version.number for product in list_versions_beside(clone.pk)] == [1]
    assert {product.task_id for product in list_revisions_beside(clone.pk)} == {row[0] for row in before}
    page = browser.get(f"/batches/{clone.pk}/").content.decode()
    assert "1 version, 3 revisions of tasks" in page
    listed = browser.get(f"/edits/beside/?batch={clone.pk}").content.decode()
    assert "Make it current, reopen the approval" in listed
    first = browser.get(f"/batches/{made.batch.pk}/").content.decode()
    assert "Human work stayed current" not in first, "what the edits began from was not made beside them"


@pytest.mark.slow
def test_one_act_adopts_a_version_or_a_revision_and_the_log_tells_who_did() -> None:
    with llm_server(answer) as server:
        made = library(server.url)
        clone = made.again()
    browser = Client()
    browser.force_login(made.user)
    version = list_versions_beside(clone.pk).get().version
    answered = browser.post(f"/edits/version/{version.pk}/adopt/", {"batch": clone.pk})
    assert (answered.status_code, answered.url) == (302, f"/edits/beside/?batch={clone.pk}")
    assert made.environment.current_id == version.pk
    tasks = {task.pk: task for task in Task.objects.select_related("current__scenario")}
    assert tasks[made.untouched.pk].current.scenario.version_id == version.pk, "it follows its program"
    assert tasks[made.edited.pk].current.scenario.version_id != version.pk, "a person's task does not"
    assert tasks[made.approved.pk].review_state == "approved"
    (revision,) = [one.revision for one in list_revisions_beside(clone.pk) if one.task_id == made.approved.pk]
    assert browser.post(f"/edits/task-revision/{revision.pk}/adopt/", {"batch": clone.pk}).status_code == 302
    adopted = Task.objects.get(pk=made.approved.pk)
    assert (adopted.current_id, adopted.review_state) == (revision.pk, "in_review")
    assert adopted.current_by_id == made.user.pk
    log = AuditEntry.objects.filter(action__in=("version.adopt", "revision.adopt")).order_by("id")
    assert [(entry.action, entry.actor_id) for entry in log] == [
        ("version.adopt", made.user.pk),
        ("revision.adopt", made.user.pk),
    ]
    assert browser.post(f"/edits/version/{version.pk}/adopt/", {"batch": clone.pk}, follow=True).status_code == 200
    assert browser.post("/edits/version/987654/adopt/").status_code == 404
    other = made.again()
    assert made.environment.current_id == version.pk, "what a person chose stays as what a person made does"
    assert not list_versions_beside(other.pk).exists()


def test_an_edited_program_counts_once_however_many_versions_it_has() -> None:
    operator = person("operator")
    environment = pages_seed.environment(key="one", current_by=operator)
    pages_seed.add_version(environment, 2)
    Environment.objects.update(source=SOURCE)
    assert count_met_human_work([ItemSpec(key="one")]).words == "1 edited program"
    assert (
        count_met_human_work([ItemSpec(version=environment.current_id), ItemSpec(key="two")]).words
        == "1 edited program"
    )
    caller = program(operator, "read", "synthesise")
    told = caller.post("/batches/dry_run", {"environment_ids": [environment.pk]}).json()
    assert (told["human_work"]["programs"], told["human_work"]["words"]) == (1, "1 edited program")
    assert (told["replaced"]["versions"], told["replaced"]["words"]) == (0, "")


def bring_machine_work(user: User) -> None:
    """Let an import make another version current, and batch 9 another revision of the task."""
    environment, task = Environment.objects.get(), Task.objects.select_related("current").get()
    version, revision = Version.objects.get(), task.current
    assert revision is not None
    version.pk, version.number, version.content_hash = None, 2, "1" * 64
    revision.pk, revision.number, revision.content_hash = None, 2, "2" * 64
    version.save()
    revision.save()
    Environment.objects.filter(pk=environment.pk).update(current=version)
    Task.objects.update(current=revision)
    other = Batch.objects.create(pk=9, name="Other", created_by=user)
    item = BatchItem.objects.create(batch=other, level="task", path="other/s0/t0", stage="save", state="kept")
    BatchProduct.objects.create(item=item, environment=environment, task=task, revision=revision)


def test_without_human_work_a_clone_updates_as_before_and_both_pages_say_what_it_replaces(sandbox: Sandbox) -> None:
    with llm_server(answer) as server:
        user = person("operator")
        batch = work_off(make_batch(user, settings_at(server.url), ["one"]))
        assert not count_met_human_work(choice.copy_batch_items(batch).specs.values())
        assert find_replaced_work(batch.pk) == ReplacedWork()
        bring_machine_work(user)
        browser = Client()
        browser.force_login(user)
        form = flat(browser.get(f"/batches/{batch.pk}/clone/"))
        told = "the current version of 1 environment and the current revision of 1 task, made by batch 9 and an import"
        assert f"May replace {told}." in form
        assert f"<b>May replace</b> {told}:" in form
        asked = {"bundled": [], "model_author": "scripted"}
        assert "May replace" not in flat(browser.post("/batches/new/readiness/", asked)), "nothing of it is made again"
        clone = work_off(services.clone_batch(user, batch.pk, settings_at(server.url), TABLE))
    assert f"<b>Replaced</b> {told}." in flat(browser.get(f"/batches/{clone.pk}/"))
    assert find_replaced_work(batch.pk) == ReplacedWork(), "what it made was the first"
    again = forecast_replaced_work(choice.copy_batch_items(batch).specs.values(), settings_at(server.url))
    assert (again.words, again.makers) == ("the current version of 1 environment", f"batch {batch.pk}")
    other = BatchItem.objects.filter(batch=9).values_list("pk", flat=True)
    assert forecast_replaced_work([], settings_at(server.url), other).words == "the current revision of 1 task"
    Environment.objects.update(current_by=user)
    assert not forecast_replaced_work([], settings_at(server.url), other), (
        "its tasks stay on the program that was chosen"
    )
    Environment.objects.update(current_by=None)
    assert Task.objects.get().current_id == BatchProduct.objects.get(item__batch=clone, item__level="task").revision_id
    assert "Human work" not in browser.get(f"/batches/{batch.pk}/clone/").content.decode()
    assert "Nothing is stored beside" in browser.get(f"/edits/beside/?batch={clone.pk}").content.decode()


def test_further_batches_on_an_environment_make_tasks_of_their_own() -> None:
    """The paths of the items are equal in all of them; the models, and so the tasks, are not."""
    models = ("scripted-1", "scripted-2", "scripted-3")

    def told(request: Request) -> Scripted:
        return say(json.dumps({"words": f"{request['model']} {len(request['messages'][0]['content'])}"}))

    with llm_server(told, models=models) as server:
        user = person("operator")
        endpoint = endpoint_at(server.url, models=models)
        work_off(make_batch(user, settings_at(server.url), ["one"]))
        for model in models[1:]:
            specs = build_environment_specs(Environment.objects.values_list("pk", flat=True))
            chosen = dict.fromkeys(ROLES, f"{endpoint.pk}/{model}")
            work_off(services.create_batch(user, model, specs, settings_at(server.url, models=chosen), TABLE))
    grown = BatchProduct.objects.filter(item__level="task", item__batch__name__in=models)
    assert grown.count() == 2
    assert grown.values("item__path").distinct().count() == 1
    assert Task.objects.count() == 3
    assert set(TaskRevision.objects.values_list("number", flat=True)) == {1}
    assert Trajectory.objects.values("task").distinct().count() == 3


def mix_tasks() -> tuple[Task, list[TaskRevision]]:
    """What batches made of two unrelated tasks before keys were theirs: revisions of one."""
    first, second = Task.objects.order_by("pk")
    moved = second.current
    assert moved is not None
    TaskRevision.objects.filter(pk=moved.pk).update(task=first, number=2)
    Trajectory.objects.filter(task=second).update(task=first)
    BatchProduct.objects.filter(task=second).update(task=first)
    Task.objects.filter(pk=first.pk).update(current=moved, trajectory_count=2)
    second.delete()
    Environment.objects.update(task_count=1)
    return first, list(first.revisions.order_by("number"))


def test_a_command_finds_tasks_that_batches_mixed_and_splits_those_that_nobody_decided_on() -> None:
    with llm_server(answer) as server:
        user = person("admin")
        settings = settings_at(server.url, stages=SMALL.model_copy(update={"tasks": 2}))
        batch = work_off(make_batch(user, settings, ["one"]))
        _find_and_split(user)
        _run_again(user, batch, settings)


def _find_and_split(user: User) -> None:
    assert json_of("find_mixed_tasks") == {"mixed": 0, "tasks": []}
    task, (first, second) = mix_tasks()
    (found,) = json_of("find_mixed_tasks")["tasks"]
    assert (found["task"], [part["revisions"] for part in found["parts"]]) == (task.pk, [[1], [2]])
    assert [(part["attempts"], part["current"]) for part in found["parts"]] == [(1, False), (1, True)]
    Task.objects.filter(pk=task.pk).update(current=first)
    approve(user, task.pk)
    Task.objects.filter(pk=task.pk).update(current=second, review_state="in_review")
    (found,) = json_of("find_mixed_tasks", "--split")["tasks"]
    assert found["split"] == ["revisions 1 stay: people decided on them"]
    first.refresh_from_db()
    assert first.task_id == task.pk
    ReviewDecision.objects.all().delete()
    (found,) = json_of("find_mixed_tasks", "--split")["tasks"]
    made = Task.objects.exclude(pk=task.pk).get()
    assert found["split"] == [f"revisions 1 are task {made.pk} now"]
    assert (made.current_id, made.trajectory_count, made.title) == (first.pk, 1, first.instruction)
    assert Trajectory.objects.get(revision=first).task_id == made.pk
    task.refresh_from_db()
    assert (task.current_id, task.trajectory_count) == (second.pk, 1)
    assert Environment.objects.get().task_count == Task.objects.count() == 2
    assert json_of("find_mixed_tasks") == {"mixed": 0, "tasks": []}


def _run_again(user: User, batch: Batch, settings: BatchSettings) -> None:
    """After a split a clone, and an item that is tried again, go on with the tasks that their items own now."""
    own = {row.item.path: row for row in BatchProduct.objects.filter(item__level="task").select_related("item")}
    moved = min(own.values(), key=lambda row: row.pk)
    currents = list(Task.objects.order_by("pk").values_list("pk", "current"))
    # A crash may come between the saved task and the end of its item.
    BatchProduct.objects.filter(pk=moved.pk).delete()
    _try_again(user, batch, moved.item_id)
    # Another task that asks the same comes first in the table, but is of another item.
    twin = TaskRevision.objects.get(pk=moved.revision_id)
    other = Task.objects.exclude(pk=moved.task_id).get()
    twin.pk, twin.task, twin.number, twin.content_hash = None, other, 9, "0" * 64
    twin.save()
    rows = [kind.objects.count() for kind in (Task, TaskRevision, Trajectory)]
    _try_again(user, batch, moved.item_id)
    clone = work_off(services.clone_batch(user, batch.pk, settings, TABLE))
    for made in BatchProduct.objects.filter(item__level="task").select_related("item"):
        assert (made.task_id, made.revision_id) == (own[made.item.path].task_id, own[made.item.path].revision_id)
    assert clone.items.filter(level="task", state="kept").count() == 2
    assert [kind.objects.count() for kind in (Task, TaskRevision, Trajectory)] == rows == [2, 3, 2], "nothing is added"
    assert list(Task.objects.order_by("pk").values_list("pk", "current")) == currents


def _try_again(user: User, batch: Batch, item: int) -> None:
    BatchItem.objects.filter(pk=item).update(state="failed", stage="save")
    services.retry_items(user, batch.pk, item=item)
    work_off(batch)


def json_of(*command: str) -> Any:
    out = io.StringIO()
    call_command(*command, "--json", stdout=out, stderr=io.StringIO())
    return json.loads(out.getvalue())

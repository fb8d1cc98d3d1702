"""Which environments a selection draws, what other datasets keep out of one, and what is taken unless somebody says
otherwise."""

from __future__ import annotations

from typing import Any

import pytest
from django.http import QueryDict
from django.test import Client

from synthesis.errors import InputError
from tests.datasets.dataset_support import add_task, attempts, carry_out, make_environment, make_tasks
from tests.datasets.test_dataset_pages import NEW, fields, text
from tests.rollouts_web.support import REFERENCE, person
from training.dataset import Split
from webapp.datasets import services
from webapp.datasets.choice.apart import NO_REFERENCE, load_held_names
from webapp.datasets.choice.resolved import ResolvedSelection, resolve_selection
from webapp.datasets.choice.words import describe_selection
from webapp.datasets.forms import build_dataset_form
from webapp.datasets.models import Dataset, DatasetState
from webapp.datasets.preview import build_preview
from webapp.datasets.selection import parse_selection, select_tasks, select_trajectories
from webapp.datasets.storage import get_manifest, read_rows
from webapp.environments.models import Environment
from webapp.scenarios.models import ReviewState, Task, TaskRevision
from webapp.scenarios.references import save_reference

pytestmark = pytest.mark.django_db
WHOLE = Split(test_share=0)


def drawn(**told: Any) -> list[int]:
    found = resolve_selection(parse_selection(told), WHOLE)
    assert found.environments is not None
    return list(found.environments)


def frozen(split: Split = WHOLE, name: str = "", **told: Any) -> Dataset:
    row = carry_out(services.create_dataset(None, parse_selection(told), split, name))
    assert row.state == DatasetState.READY, row.error
    return row


def approve(task: Task) -> None:
    Task.objects.filter(pk=task.pk).update(review_state=ReviewState.APPROVED)
    TaskRevision.objects.filter(pk=task.current_id).update(review_state=ReviewState.APPROVED)


def ask(task: Task, instruction: str) -> None:
    """Make a task ask this, with a reference that does it."""
    TaskRevision.objects.filter(pk=task.current_id).update(instruction=instruction)
    assert task.current is not None
    save_reference(task.current, REFERENCE, "test")


def test_a_smaller_number_of_environments_is_within_a_larger_one() -> None:
    make_tasks(12, 1)
    before: set[int] = set()
    for number in (1, 3, 7, 12):
        found = set(drawn(environment_count=number))
        assert len(found) == number
        assert before <= found
        before = found
    assert set(drawn(environment_count=5, environment_seed=1)) != set(drawn(environment_count=5, environment_seed=2))
    assert len(drawn(environment_count=50)) == 12
    # The order is that of names, which another installation shares.
    first = Environment.objects.get(pk=drawn(environment_count=1)[0])
    assert frozen(environment_count=1).environments == 1
    add_task(make_environment("empty"), "t", checks=False)
    assert first.pk in drawn(environment_count=13), "one without a usable task takes no place"
    assert len(drawn(environment_count=13)) == 12


def test_an_environment_whose_tasks_are_judged_by_rubrics_is_drawn_too() -> None:
    make_tasks(2, 1)
    task = Task.objects.order_by("pk").first()
    assert task is not None
    Task.objects.filter(pk=task.pk).update(verifier_kind="rubric", check_count=0)
    assert task.environment_id in drawn(environment_count=2)


def test_halves_are_those_alike_in_topic_and_tools_and_the_set_stays_out() -> None:
    make_tasks(4, 1)
    given = make_environment("given", source="elsewhere").environment
    add_task(given.current or make_environment("given"), "t0", source="elsewhere")
    Environment.objects.filter(key__in=("shelf-0", "shelf-2")).update(
        name="Harbour", summary="Ships, berths and cranes of a harbour, with their pilots."
    )
    alike = set(Environment.objects.filter(key__in=("shelf-1", "shelf-3")).values_list("pk", flat=True))
    other = set(Environment.objects.filter(key__in=("shelf-0", "shelf-2")).values_list("pk", flat=True))
    told = {"source": "elsewhere"}
    assert set(drawn(likeness={"part": "most"} | told)) == alike
    assert set(drawn(likeness={"part": "least"} | told)) == other
    random = [set(drawn(likeness={"part": "random", "seed": seed} | told)) for seed in range(6)]
    assert all(len(half) == 2 and given.pk not in half for half in random)
    assert len({frozenset(half) for half in random}) > 1
    assert len(drawn(likeness={"part": "most"} | told, environment_count=1)) == 1
    row = frozen(likeness={"part": "most"} | told)
    assert {one.environment for one in read_rows(row, "train")} == {"test:shelf-1", "test:shelf-3"}
    report = get_manifest(row).report
    assert report is not None
    assert report.environments_to_choose_from == 4
    assert ("Likeness", "the half most alike to the source elsewhere, in topic and tools") in report.words
    # By a dataset, the same.
    held = frozen(source="elsewhere", name="Held")
    assert set(drawn(likeness={"part": "most", "dataset": held.public_id})) == alike


def test_many_environments_are_compared_when_it_is_frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    make_tasks(4, 1)
    make_environment("given", source="elsewhere")
    monkeypatch.setattr("webapp.datasets.choice.resolved.COMPARED_AT_ONCE", 3)
    preview = build_preview(parse_selection({"likeness": {"part": "least", "source": "elsewhere"}}), WHOLE)
    assert preview.later == "Which of 4 environments are the least alike is found when it is frozen."
    assert preview.usable == 4


def test_environments_of_another_dataset_stay_out() -> None:
    make_tasks(4, 2)
    sft = frozen(environment_count=2, name="What SFT saw")
    choice = parse_selection({"apart_from": (sft.public_id,)})
    preview = build_preview(choice, WHOLE)
    assert preview.left_out == {"Its environment is in the dataset What SFT saw": 4}
    assert preview.apart == ("Apart from What SFT saw: its 2 environments stay out.",)
    rl = frozen(apart_from=(sft.public_id,))
    names = [load_held_names(row).environments for row in (sft, rl)]
    assert [len(held) for held in names] == [2, 2]
    assert not names[0] & names[1]
    manifest = get_manifest(rl)
    assert manifest.report is not None
    assert [one.dataset for one in manifest.report.apart] == [sft.public_id]
    assert manifest.sentence == "4 tasks, nothing held out; no environment of 'What SFT saw' in it"
    assert ("Kept apart", "no environment of What SFT saw") in describe_selection(choice)
    # What is drawn is drawn of the others.
    assert len(drawn(apart_from=(sft.public_id,), environment_count=2)) == 2
    assert not set(drawn(apart_from=(sft.public_id,), environment_count=4)) & set(drawn(environment_count=2))


def test_behaviours_of_another_dataset_stay_out_and_what_has_no_reference_too() -> None:
    first, second, third, bare = make_tasks(4, 1)
    ask(first, "Open Ada's box.")
    ask(second, "open ada s box")  # in another environment, the same
    ask(third, "Open Ada's box, and say so.")
    sft = frozen(environments=(first.environment_id,), name="SFT")
    row = frozen(apart_from=(sft.public_id,), apart_by="behaviour")
    assert [one.task for one in read_rows(row, "train")] == [f"test:{third.key}"]
    assert row.environments == 1
    assert row.left_out == {
        "Its behaviour is in the dataset SFT": 2,
        NO_REFERENCE: 1,
    }
    assert bare.current_id


def test_a_split_by_behaviour_keeps_together_what_asks_the_same() -> None:
    tasks = make_tasks(12, 1)
    for number, task in enumerate(tasks[:-1]):
        ask(task, f"Open Ada's box, number {number % 4}.")
    split = Split(unit="behaviour", test_share=0.5, seed=0)
    preview = build_preview(parse_selection({}), split)
    row = frozen(split)
    assert (row.train_rows, row.test_rows) == (preview.sides.train_rows, preview.sides.test_rows)
    assert row.left_out == preview.left_out == {NO_REFERENCE: 1}
    sides = [{one.behaviour for one in read_rows(row, side)} for side in ("train", "test")]  # type: ignore[arg-type]
    assert not sides[0] & sides[1]
    assert len(sides[0] | sides[1]) == 4
    assert "split by behaviour" in get_manifest(row).sentence


def test_tasks_and_trajectories_by_approval() -> None:
    approved, draft = make_tasks(2, 1)
    (kept,) = attempts(approved, "solved")
    attempts(draft, "solved")
    approve(approved)
    assert list(select_tasks(parse_selection({"approval": "approved"}))) == [approved]
    assert list(select_tasks(parse_selection({"approval": "draft"}))) == [draft]
    found = select_trajectories(parse_selection({"kind": "trajectories", "approval": "approved"}))
    assert list(found) == [kept]
    report = get_manifest(frozen()).report
    assert report is not None
    assert report.approval == {"approved": 1, "draft": 1}


def test_a_form_takes_approved_tasks_where_there_are_some() -> None:
    tasks = make_tasks(3, 2)
    client = Client()
    client.force_login(person("researcher", "ruth"))
    page = client.get(NEW)
    assert "No task here is approved yet, so all are taken." in text(page)
    assert "6 tasks match" in text(page)
    for task in tasks[:4]:
        approve(task)
    page = client.get(NEW)
    assert "4 tasks match" in text(page)
    assert "6 tasks match" in text(client.get(NEW, {"approval": "any"}))
    client.post(NEW, fields(page))
    assert Dataset.objects.get().selection["approval"] == "approved"
    assert build_dataset_form(None, QueryDict("kind=trajectories")).choice.approval == ""


def test_what_is_not_there_is_refused_by_name() -> None:
    make_tasks(1, 1)
    freezing = services.create_dataset(None, parse_selection({}), WHOLE, "Later")
    for told, why in [
        ({"apart_from": ("ds-nothing",)}, r"selection\.apart_from: there is no dataset 'ds-nothing'"),
        ({"apart_from": (freezing.public_id,)}, r"Later.*is freezing; name a frozen one"),
        ({"likeness": {"part": "most", "source": "nowhere"}}, r"selection\.likeness: no environment of the set"),
        ({"likeness": {"part": "most"}}, "name one set to compare with"),
    ]:
        with pytest.raises(InputError, match=why):
            services.create_dataset(None, parse_selection(told), WHOLE)
    client = Client()
    client.force_login(person("researcher", "ruth"))
    page = client.get(NEW, {"likeness_part": "most", "likeness_to": "source:nowhere"})
    assert "no environment of the set to compare with is here" in text(page)
    assert isinstance(resolve_selection(parse_selection({}), WHOLE), ResolvedSelection)

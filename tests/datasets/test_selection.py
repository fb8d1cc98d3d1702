"""Which tasks and trajectories a choice finds, by each of its parts, and what people read of it."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from synthesis.errors import InputError
from tests.datasets.dataset_support import add_task, attempts, make_environment, make_tasks
from webapp.datasets.choice.words import build_selection_title, describe_selection
from webapp.datasets.selection import DatasetSelection, parse_selection, select_tasks, select_trajectories
from webapp.environments.models import Environment
from webapp.scenarios.models import Task
from webapp.taxonomy.services import place_paths
from webapp.trajectories.models import Trajectory

pytestmark = pytest.mark.django_db


def found(**told: object) -> list[int]:
    rows = select_tasks(parse_selection(told))
    return sorted(rows.values_list("pk", flat=True))


def runs(**told: object) -> list[int]:
    return sorted(select_trajectories(parse_selection({"kind": "trajectories", **told})).values_list("pk", flat=True))


def test_tasks_by_source_environment_audit_and_verifier() -> None:
    here = make_tasks(2, 1)
    there = add_task(make_environment("other", source="import"), "t0", source="import")
    Task.objects.filter(pk=here[1].pk).update(audit_state="green")
    assert found() == [here[0].pk, here[1].pk, there.pk]
    assert found(source="import") == [there.pk]
    assert found(environments=(here[0].environment_id, there.environment_id)) == [here[0].pk, there.pk]
    assert found(audit="green") == [here[1].pk]
    assert found(audit="none") == [here[0].pk, there.pk]
    assert found(source="nowhere") == []
    Task.objects.filter(pk=there.pk).update(verifier_kind="script")
    assert found(verifier="script") == [there.pk]
    assert found(verifier="checks") == [here[0].pk, here[1].pk]
    assert ("Verifier", "Verification script") in describe_selection(parse_selection({"verifier": "script"}))


def test_a_category_has_all_below_it() -> None:
    upper, lower, other = make_tasks(3, 1)
    paths = [("Health",), ("Health", "Clinics"), ("Healthy food",)]
    nodes = place_paths(paths)
    for task, path in zip((upper, lower, other), paths, strict=True):
        Environment.objects.filter(pk=task.environment_id).update(node=nodes[path])
    assert found(category=nodes["Health",]) == [upper.pk, lower.pk]
    assert found(category=nodes["Health", "Clinics"]) == [lower.pk]
    assert found(category=10**9) == []


def test_the_share_of_solved_counts_judged_attempts_at_the_current_revision_alone() -> None:
    easy, half, hard, untried = make_tasks(4, 1)
    attempts(easy, "solved", "solved")
    attempts(half, "solved", "failed")
    attempts(hard, "failed", "failed", "infra_error")
    attempts(untried, "infra_error", "cancelled")
    assert found(pass_low=0.25, pass_high=0.75) == [half.pk]
    assert found(pass_low=0.5) == [easy.pk, half.pk]
    assert found(pass_high=0) == [hard.pk]
    assert found(attempts=1) == [easy.pk, half.pk, hard.pk]
    assert found(pass_low=0, pass_high=1, attempts=3) == []
    # A third: rounding must not lose the band's own end.
    attempts(hard, "solved")
    assert found(pass_low=1 / 3, pass_high=1 / 3) == [hard.pk]


def test_attempts_that_a_program_ended_count_as_unsolved() -> None:
    (task,) = make_tasks(1, 1)
    attempts(task, "solved", "program_error")
    assert found(pass_low=0.5, pass_high=0.5) == [task.pk]
    assert found(pass_low=1) == []


def test_the_share_of_solved_can_be_that_of_one_policy() -> None:
    (task,) = make_tasks(1, 1)
    attempts(task, "solved", policy="large")
    attempts(task, "failed", policy="small")
    assert found(pass_low=1, policy="large") == [task.pk]
    assert found(pass_low=1, policy="small") == []
    assert found(pass_low=1) == []


def test_attempts_at_an_older_revision_do_not_count() -> None:
    (task,) = make_tasks(1, 1)
    assert task.current is not None
    attempts(task, "solved")
    newer = task.current
    newer.pk, newer.number, newer.content_hash = None, 2, "f" * 64
    newer.save()
    Task.objects.filter(pk=task.pk).update(current=newer)
    assert found(pass_low=0) == []


def test_trajectories_by_what_they_are() -> None:
    first, second = make_tasks(2, 1)
    (good,) = attempts(first, "solved", policy="large")
    (bad,) = attempts(second, "failed", conversational=True)
    (lost,) = attempts(second, "infra_error")
    attempts(second, "solved", live=True)
    Task.objects.filter(pk=first.pk).update(audit_state="green")
    assert runs() == [good.pk, bad.pk, lost.pk]
    assert runs(outcome="infra_error") == [lost.pk]
    assert runs(low=0.5) == [good.pk]
    assert runs(high=0.5) == [bad.pk]
    assert runs(setting="conversation") == [bad.pk]
    assert runs(setting="task") == [good.pk, lost.pk]
    assert runs(policy="lar") == [good.pk]
    assert runs(audit="green") == [good.pk]
    assert runs(environments=(second.environment_id,)) == [bad.pk, lost.pk]
    assert runs(source="elsewhere") == []
    assert Trajectory.objects.filter(live=True).exists()


def test_trajectories_of_tasks_in_a_band() -> None:
    first, second = make_tasks(2, 1)
    kept = attempts(first, "solved", "failed")
    attempts(second, "solved", "solved")
    assert runs(pass_low=0.4, pass_high=0.6) == [one.pk for one in kept]


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"pass_low": 0.8, "pass_high": 0.2}, "pass_high: the higher end is below the lower one"),
        ({"kind": "trajectories", "low": 1, "high": 0}, "high: the higher end is below the lower one"),
        ({"kind": "tasks", "mask_history": True}, "mask_history: is for datasets of trajectories"),
        ({"audit": "blue"}, "selection.audit"),
        ({"environments": (0,)}, "selection.environments.0"),
        ({"pass_low": 1.5}, "selection.pass_low"),
    ],
)
def test_what_does_not_fit_together_is_refused_by_name(said: dict[str, object], why: str) -> None:
    with pytest.raises(InputError, match=why):
        parse_selection(said)


def test_a_choice_never_changes() -> None:
    choice = DatasetSelection()
    with pytest.raises(ValidationError):
        choice.source = "x"  # type: ignore[misc]


def test_people_read_a_choice_in_words() -> None:
    (task,) = make_tasks(1, 1)
    said = dict(
        describe_selection(parse_selection({"environments": (task.environment_id,), "pass_low": 0.1, "pass_high": 0.9}))
    )
    assert said["Environments"] == "Shelf shelf-0"
    assert said["Solved share of a task"] == "0.1 to 0.9, of at least 1 judged attempt"
    said = dict(
        describe_selection(
            parse_selection({"kind": "trajectories", "reasoning": False, "mask_history": True, "actions": (3, 9)})
        )
    )
    assert said["Reasoning"] == "stripped"
    assert said["A row is"] == "one turn, the turns before it masked"
    assert said["Actions"] == "3 to 9"
    assert (
        dict(describe_selection(parse_selection({"category": 10**9})))["Category"]
        == f"label {10**9}, which no longer exists"
    )
    assert build_selection_title(DatasetSelection()) == "Tasks: all"
    assert (
        build_selection_title(parse_selection({"source": "starter", "audit": "green"}))
        == "Tasks: source starter, audit green"
    )

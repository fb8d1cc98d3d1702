"""Statistics of difficulty against tasks and attempts that are known, and the lists that their numbers lead to."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from tests.fixtures import picture_seed
from tests.fixtures.markup import flat
from tests.pages.test_pictures import count_rows
from webapp.environments.models import Environment
from webapp.pages.recount import recount_passes
from webapp.pages.statistics.clustered_rates import ClusteredRate
from webapp.pages.statistics.difficulty_pictures import draw_difficulty
from webapp.pages.statistics.scope import Scope
from webapp.pages.statistics.task_scope import TaskScope
from webapp.pages.statistics.variant_counts import count_variants
from webapp.runs.evaluations.statistics import compute_wilson_interval
from webapp.scenarios.models import PolicyPass, Task, TaskDifficulty
from webapp.trajectories.models import Trajectory

pytestmark = pytest.mark.django_db
URL = "/ecosystem/difficulty/"


@pytest.fixture
def tasks(db: None) -> dict[str, Task]:
    """Task `a` of AutoForge with 4 judged attempts, `b` of EnvScaler with 2, `untried` of no batch."""
    found = picture_seed.seed()
    measured: dict[str, tuple[str, dict[str, Any]]] = {
        "a": ("autoforge", {"walk_steps": 3, "weak_share": 0.5, "unique_tools": 2, "invocations": 4}),
        "b": ("envscaler", {"unique_tools": 2, "invocations": 9}),
        "untried": ("", {"unique_tools": 1, "invocations": 1}),
    }
    for task in found.values():
        Environment.objects.filter(pk=task.environment_id).update(current=task.scenario.version_id)
    for key, (variant, knobs) in measured.items():
        Task.objects.filter(pk=found[key].pk).update(variant=variant)
        TaskDifficulty.objects.create(revision=found[key].current, **knobs)
    Environment.objects.filter(pk=found["a"].environment_id).update(variant="autoforge")
    return found


def attempt(task: Task, number: int, policy: str, *, solved: bool, **changes: Any) -> None:
    row = picture_seed.make_attempt(
        task, number, policy, "solved" if solved else "failed", "11" if solved else "01", 3, 9, ""
    )
    if changes:
        Trajectory.objects.filter(pk=row.pk).update(**changes)


def test_success_by_each_knob_counts_what_is_known_and_leads_to_those_tasks(
    tasks: dict[str, Task], page: Client
) -> None:
    pictures = draw_difficulty(TaskScope())
    assert [name for name, _ in pictures.variants] == ["envscaler", "autoforge", ""]
    knobs = {knob.name: knob for knob in pictures.knobs}
    assert list(knobs) == ["walk_steps", "weak_share", "unique_tools", "invocations"], "what no task has is left out"
    rows = [(row.label, row.total.tasks, row.total.solved, row.total.tried) for row in knobs["unique_tools"].rows]
    assert rows == [("1", 1, 0, 0), ("2", 2, 3, 6)]
    both = knobs["unique_tools"].rows[1]
    assert [(rate.solved, rate.tried) for rate in both.by_variant] == [(1, 2), (2, 4), (0, 0)]
    assert both.total.interval is not None
    assert both.total.interval[0] < 0.5 < both.total.interval[1]
    assert [row.label for row in knobs["weak_share"].rows if row.total.tasks] == ["40\N{EN DASH}59 %"]
    for knob in pictures.knobs:
        for row in knob.rows:
            if row.total.tasks:
                assert count_rows(page, row.url) == row.total.tasks, row.url
    assert pictures.calls is not None
    assert (pictures.calls.count, pictures.calls.mean) == (3, pytest.approx(14 / 3))
    for bar in pictures.calls.bins:
        assert not bar.count or count_rows(page, bar.url) == bar.count
    one = draw_difficulty(TaskScope(variant="autoforge", policy="llama"))
    assert [(knob.total.tasks, knob.total.solved, knob.total.tried) for knob in one.knobs[:1]] == [(1, 0, 1)]
    html = flat(page.get(URL))
    assert "Success by walk length" in html
    assert "3 of 6" in html
    api = page.get("/api/v1/ecosystem/difficulty", {"variant": "autoforge"}).json()
    assert [knob["name"] for knob in api["knobs"]] == ["walk_steps", "weak_share", "unique_tools", "invocations"]
    assert "No task to count" in flat(page.get(URL, {"variant": "programmatic"}))


def test_pass_at_ten_counts_the_first_ten_plain_attempts_of_a_policy(tasks: dict[str, Task], page: Client) -> None:
    task = tasks["untried"]
    for number in range(9):
        attempt(task, 100 + number, "named", solved=number < 6)
    assert PolicyPass.objects.get(revision=task.current, policy="named").ten is None
    attempt(task, 120, "named", solved=True)
    for number in range(2):
        attempt(task, 130 + number, "named", solved=True)
    known = PolicyPass.objects.get(revision=task.current, policy="named")
    assert (known.tried, known.solved, known.ten) == (12, 9, 7)
    (drawn,) = draw_difficulty(TaskScope()).passes
    assert (drawn.policy, drawn.tasks, drawn.mean) == ("named", 1, 0.7)
    (bar,) = [bar for bar in drawn.bars if bar.count]
    assert (bar.label, count_rows(page, bar.url)) == ("7 of 10", 1)
    html = flat(page.get(f"/tasks/{task.pk}/"))
    assert "named: <b>0.7</b> (7 of 10)" in html
    shown = page.get(f"/api/v1/tasks/{task.pk}").json()["current"]
    assert [(row["policy"], row["ten"]) for row in shown["passes"]] == [("named", 7)]


def test_a_recount_puts_pass_counts_right_and_leaves_out_what_is_no_plain_attempt(tasks: dict[str, Task]) -> None:
    assert recount_passes() == [], "services count as a recount does"
    attempt(tasks["a"], 200, "qwen", solved=True, solver=True)
    attempt(tasks["a"], 201, "talker", solved=True, conversational=True)
    PolicyPass.objects.filter(revision=tasks["b"].current, policy="qwen").delete()
    found = {(row["name"], row["count"], row["was"], row["now"]) for row in recount_passes()}
    title = tasks["a"].title
    assert found == {
        (title, "tried", 4, 3), (title, "solved", 3, 2), (title, "tried", 1, 0), (title, "solved", 1, 0),
        ("qwen", "tried", 0, 1),
    }  # fmt: skip
    assert not PolicyPass.objects.filter(policy="talker").exists()
    assert recount_passes() == []


def test_environments_tools_and_tasks_are_counted_by_variant(tasks: dict[str, Task], page: Client) -> None:
    table = count_variants(Scope())
    assert table is not None
    counts = {row.variant: (row.environments, row.tasks, row.attempts, row.solved) for row in table.rows}
    assert counts == {"envscaler": (0, 1, 2, 1), "autoforge": (1, 1, 4, 2), "": (2, 1, 0, 0)}
    assert (table.total.environments, table.total.tasks) == (3, 3)
    for row in [*table.rows, table.total]:
        assert count_rows(page, row.tasks_url) == row.tasks
        assert count_rows(page, row.environments_url) == row.environments or not row.environments
    assert "not made by a batch" in flat(page.get("/ecosystem/"))
    assert [row["variant"] for row in page.get("/api/v1/ecosystem").json()["variants"]] == [
        "envscaler",
        "autoforge",
        "",
    ]
    assert page.get("/api/v1/tasks", {"variant": "autoforge"}).json()["data"][0]["variant"] == "autoforge"


def test_attempts_that_agree_within_tasks_are_worth_fewer() -> None:
    def rate(*tasks: tuple[int, int]) -> ClusteredRate:
        return sum((ClusteredRate(1, 1, n, s, n * n, s * s, n * s) for s, n in tasks), ClusteredRate())

    alike, mixed = rate(*[(10, 10)] * 5, *[(0, 10)] * 5), rate(*[(5, 10)] * 10)
    assert (alike.rate, mixed.rate) == (0.5, 0.5)
    assert mixed.interval == pytest.approx(compute_wilson_interval(50, 100)), (
        "at least as wide as of independent attempts"
    )
    assert alike.interval == pytest.approx(compute_wilson_interval(4.5, 9)), (
        "ten attempts that always agree are worth about one"
    )
    assert rate((10, 10), (10, 10)).interval == pytest.approx(compute_wilson_interval(2, 2)), (
        "all solved: a task counts once"
    )
    assert rate((5, 10)).interval is None

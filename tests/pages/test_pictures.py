"""The pictures of the statistics against a small data set that is known, and the lists that their numbers lead to."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from tests.fixtures import pages_seed, picture_seed
from tests.fixtures.markup import flat
from training.examples.records import SOURCE
from webapp.accounts.models import AuditEntry, User
from webapp.environments.models import Environment
from webapp.pages.recount import recount_tasks
from webapp.pages.statistics import attempt_scope, call_pictures
from webapp.pages.statistics.attempt_pictures import count_failures, draw_attempts, group_tasks, map_pass_rates
from webapp.pages.statistics.attempt_scope import AttemptScope
from webapp.pages.statistics.call_pictures import count_check_use, count_tool_use
from webapp.pages.statistics.review_pictures import draw_reviews
from webapp.review.models import ReviewDecision
from webapp.scenarios.models import Audit, Task
from webapp.trajectories.export.spec import build_selection
from webapp.trajectories.models import Trajectory
from webapp.trajectories.trajectory_list import Filters

pytestmark = pytest.mark.django_db
PAGES = ("/ecosystem/attempts/", "/ecosystem/calls/", "/ecosystem/reviews/")


@pytest.fixture
def tasks(db: None) -> dict[str, Task]:
    return picture_seed.seed()


def count_rows(page: Client, url: str) -> int:
    """Count what a list shows; every filter of the address must be understood."""
    response = page.get(url)
    assert response.status_code == 200, url
    assert "not understood" not in flat(response), url
    return len(response.context["page"].rows)


def test_each_picture_counts_what_is_known_and_leads_to_those_rows(tasks: dict[str, Task], page: Client) -> None:
    pictures = draw_attempts(AttemptScope())
    heat, failures, difficulty, sizes = pictures.heat, pictures.failures, pictures.difficulty, pictures.sizes
    assert heat is not None
    assert failures is not None
    assert difficulty is not None
    assert sizes is not None
    assert heat.policies == ["qwen", "llama", "qwen-long"]
    assert [[(cell.solved, cell.tried) for cell in [*row.cells, row.total]] for row in heat.rows] == [
        [(2, 3), (0, 1), (0, 0), (2, 4)],
        [(1, 1), (0, 0), (0, 1), (1, 2)],
    ]
    assert {bar.name: bar.count for bar in failures.bars} == {
        "goal": 1, "guard": 1, "outside": 1, "truncated": 1, "infra_error": 1,
    }  # fmt: skip
    assert (failures.failed, failures.every) == (5, 8)
    assert {bar.name: bar.count for bar in difficulty.bars if bar.count} == {"5": 2}
    assert (difficulty.untried.count, difficulty.tasks) == (1, 3)
    assert [(row.policy, row.steps.values, row.tokens and row.tokens.values) for row in sizes.rows] == [
        ("qwen", (4, 4, 4, 6, 8), (100, 100, 200, 300, 500)),
        ("llama", (1, 1, 10, 30, 30), None),
        ("qwen-long", (5, 5, 5, 5, 5), None),
    ]
    linked = [(cell.tried, cell.url) for row in heat.rows for cell in [*row.cells, row.total]]
    linked += [(bar.count, bar.url) for bar in [*failures.bars, *difficulty.bars, difficulty.untried]]
    linked += [(row.attempts, row.url) for row in sizes.rows]
    for count, url in linked:
        if count:
            assert count_rows(page, url) == count, url
    html = flat(page.get(PAGES[0]))
    assert "a goal was not reached" in html
    assert "2 of 3" in html


def test_faults_of_users_are_counted_by_policy_and_user_beside_what_people_say(
    tasks: dict[str, Task], page: Client
) -> None:
    assert draw_attempts(AttemptScope()).users is None
    rows = list(Trajectory.objects.filter(policy="qwen").order_by("pk"))
    said = [("fault", "base (gpt)"), ("fault", "base (gpt)"), ("none", "base (gpt)"), ("unknown", "optimised (gpt)")]
    for row, (finding, user) in zip(rows, said, strict=True):
        Trajectory.objects.filter(pk=row.pk).update(user_fault=finding, provenance={"user": user})
    person = User.objects.get(username="the-annotator")
    for row, reasons in zip(rows, (["luck", "user_simulation"], [], ["user_simulation"]), strict=False):
        ReviewDecision.objects.create(trajectory=row, user=person, verdict="right", reasons=reasons, seen="x")
    ReviewDecision.objects.create(trajectory=rows[1], judge="a judge", verdict="right", reasons=["user_simulation"])
    users = draw_attempts(AttemptScope()).users
    assert users is not None
    counts = {
        row.user: (row.judged, row.faults, row.unknown, row.decided, row.agreed, row.missed) for row in users.rows
    }
    assert counts == {"base (gpt)": (3, 2, 0, 2, 1, 1), "optimised (gpt)": (1, 0, 1, 0, 0, 0)}
    assert [(row.share, row.precision) for row in users.rows] == [(2 / 3, 0.5), (None, None)]
    assert (users.total.judged, users.total.share) == (4, 2 / 3)
    assert count_rows(page, users.rows[0].url) == 2
    assert "66.7 %" in flat(page.get(PAGES[0]))
    assert page.get("/api/v1/ecosystem/attempts").json()["users"][0]["agreed"] == 1


def test_counts_of_tasks_follow_their_attempts_and_are_counted_anew(tasks: dict[str, Task]) -> None:
    known = list(Task.objects.order_by("pk").values_list("trajectory_count", "scored_count", "solved_count"))
    assert known == [(5, 4, 2), (3, 2, 1), (0, 0, 0)]
    Task.objects.update(trajectory_count=7, scored_count=0, solved_count=9)
    assert {one["kind"] for one in recount_tasks()} == {"task"}
    assert known == list(Task.objects.order_by("pk").values_list("trajectory_count", "scored_count", "solved_count"))


def test_filters_narrow_the_pictures_and_their_lists(tasks: dict[str, Task], page: Client) -> None:
    scope = AttemptScope(environment=tasks["a"].environment_id, policy="llama", days=30)
    failures = count_failures(scope)
    assert failures is not None
    assert [(bar.name, bar.count) for bar in failures.bars] == [("guard", 1)], "the truncated one is older"
    assert count_rows(page, failures.bars[0].url) == 1
    listed = flat(page.get("/trajectories/?failure=guard"))
    assert '<option value="guard" selected>something was broken that had to stay</option>' in listed
    assert count_rows(page, "/trajectories/?failure=none") == 0, "what did not fail needs no reason"
    assert group_tasks(AttemptScope(environment=tasks["b"].environment_id)).tasks == 1  # type: ignore[union-attr]
    url = f"{PAGES[0]}?environment={tasks['a'].environment_id}&policy=llama&days=30"
    form = page.get(url).context["filter_form"]
    assert (form["policy"].value(), str(form["days"].value())) == ("llama", "30")
    assert "No judged attempt matches" in flat(page.get(f"{PAGES[0]}?policy=nobody"))
    assert page.get(f"{PAGES[0]}?days=8&environment=x&policy=%00").status_code == 200
    Environment.objects.update(source=SOURCE)
    assert map_pass_rates(AttemptScope()) is None
    assert map_pass_rates(AttemptScope(demo=True)) is not None


def test_only_the_newest_attempts_are_counted(
    tasks: dict[str, Task], page: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempt_scope, "NEWEST", 3)
    failures = count_failures(AttemptScope())
    assert failures is not None
    assert (failures.failed, failures.every) == (2, 3)
    for bar in failures.bars:
        assert count_rows(page, bar.url) == bar.count
    assert "the newest 20,000 are counted" in flat(page.get(PAGES[0]))


def test_tools_and_checks_that_fail_come_first(
    tasks: dict[str, Task], page: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = count_tool_use(AttemptScope())
    assert tools is not None
    assert (tools.attempts, tools.tools, tools.calls, tools.errors, tools.faultless) == (8, 3, 11, 3, 2)
    assert [(one.tool, one.calls, one.errors, one.failed_attempts) for one in tools.most_failing] == [
        ("look_up", 3, 3, 2)
    ]
    assert [(one.tool, one.calls) for one in tools.most_used] == [("tidy", 5), ("look_up", 3), ("tidy", 3)]
    assert count_rows(page, tools.most_failing[0].url) == 2
    monkeypatch.setattr(call_pictures, "FEWEST_ATTEMPTS", 2)
    checks = count_check_use(AttemptScope())
    assert checks is not None
    assert (checks.attempts, checks.checks, checks.differs, checks.dead, checks.always) == (6, 4, 2, 2, 0)
    assert [(one.task, one.number, one.asked, one.failed, one.alone) for one in checks.deciding] == [
        ("Tidy desk a", 0, 4, 1, 1),
        ("Tidy desk a", 1, 4, 1, 1),
    ]
    assert [(one.task, one.label) for one in checks.idle] == [
        ("Tidy desk b", "The desk is tidy"),
        ("Tidy desk b", "Nobody was moved"),
    ]
    for use in checks.deciding:
        assert count_rows(page, use.url) == use.failed


def test_reviews_and_audits_by_day(tasks: dict[str, Task], page: Client) -> None:
    found = draw_reviews(30)
    assert found.events is not None
    assert found.audits is not None
    assert dict(zip(found.events.names, found.events.totals, strict=True)) == {
        "approved": 1, "rejected": 0, "changes requested": 0, "sent to review": 2, "new draft": 3, "reopened": 1,
    }  # fmt: skip
    totals = dict(zip(found.audits.names, found.audits.totals, strict=True))
    assert totals == {"green": 1, "red": 1, "incomplete": 0, "unproven": 0}
    assert {bar.label: bar.count for bar in found.stages if bar.count} == {"draft": 2, "in review": 1}
    assert {bar.label: bar.count for bar in found.colours if bar.count} == {"green": 1, "red": 1, "not audited": 1}
    for bar in [*found.stages, *found.colours]:
        if bar.count:
            assert count_rows(page, bar.url) == bar.count
    assert "All data so far is from one day" in flat(page.get(PAGES[2]))
    Audit.objects.filter(state="red").update(created_at=timezone.now() - timedelta(days=2))
    later = draw_reviews(7).audits
    assert later is not None
    assert [counts for _, counts in later.rows] == [(0, 1, 0, 0), (0, 0, 0, 0), (1, 0, 0, 0)]
    assert AuditEntry.objects.filter(action="task.change").exists()


def test_the_api_gives_the_same_numbers(tasks: dict[str, Task], page: Client) -> None:
    Task.objects.filter(pk=tasks["b"].pk).update(verifier_kind="script")
    attempts = page.get("/api/v1/ecosystem/attempts?policy=qwen").json()
    assert [(row["tried"], row["solved"]) for row in attempts["rates"]] == [(3, 2), (1, 1)]
    assert [(row["name"], row["count"]) for row in attempts["failures"]] == [("goal", 1)]
    kinds = {row["kind"]: (row["tasks"], row["attempts"], row["solved"]) for row in attempts["verifiers"]}
    assert kinds == {"checks": (2, 4, 2), "golden": (0, 0, 0), "rubric": (0, 0, 0), "script": (1, 2, 1)}
    assert attempts["sizes"][0]["tokens"] == [100, 100, 200, 300, 500]
    calls = page.get("/api/v1/ecosystem/calls").json()
    assert calls["tools"]["most_failing"][0]["tool"] == "look_up"
    assert calls["checks"]["checks"] == 4
    reviews = page.get("/api/v1/ecosystem/reviews").json()
    assert reviews["events"][0]["counts"]["reopened"] == 1


def test_nothing_says_what_to_do_and_names_are_escaped(page: Client) -> None:
    for url in PAGES:
        assert " in these days" in flat(page.get(url)) or "There is no " in flat(page.get(url))
    tasks = picture_seed.seed()
    Trajectory.objects.update(policy=pages_seed.EVIL[:200])
    Environment.objects.update(name=pages_seed.EVIL)
    Task.objects.filter(pk=tasks["a"].pk).update(title=pages_seed.EVIL[:300])
    for url in PAGES:
        assert "<script>window" not in page.get(url).content.decode()


def test_a_filtered_list_is_exported_as_it_is_shown(tasks: dict[str, Task]) -> None:
    wanted: dict[str, Any] = {"failure": "goal", "made_by": "qwen", "since": "2026-01-01", "judged": True, "from_id": 1}
    assert build_selection(Filters(**wanted)).chosen() == wanted

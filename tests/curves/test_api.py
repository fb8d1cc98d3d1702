"""Alerts and compared jobs over the API: the same numbers as on the pages, by whom it is allowed."""

from __future__ import annotations

import pytest

from tests.curves.test_comparison import made
from tests.fixtures import pages_seed, runs_seed
from tests.fixtures.api import Program, problem, program
from webapp.accounts.models import AuditEntry, Role
from webapp.runs.alerts.rules import RULES
from webapp.runs.comparison.arms import group_into_arms
from webapp.runs.comparison.table import build_results
from webapp.runs.models import TrainingAlert, TrainingJob

pytestmark = pytest.mark.django_db


@pytest.fixture
def caller() -> Program:
    return program(pages_seed.person(Role.RESEARCHER), "read", "train")


@pytest.fixture
def jobs() -> list[TrainingJob]:
    dataset = runs_seed.dataset()
    first = [made(f"KL off, seed {seed}", seed, [0.1 * seed] * 12, dataset, held_out=0.1 * seed) for seed in (1, 2)]
    return [*first, *[made(f"KL on {seed}", seed, [0.1 * seed + 0.2] * 9, dataset, kl=0.01) for seed in (1, 2)]]


def test_alerts_are_listed_and_muted(caller: Program, jobs: list[TrainingJob]) -> None:
    told = {"message": "Large.", "value": 0.3, "last_value": 0.4, "from_step": 7}
    here = TrainingAlert.objects.create(job=jobs[0], rule="kl", **told)
    TrainingAlert.objects.create(job=jobs[1], rule="gone", **told)
    TrainingAlert.objects.filter(job=jobs[1]).update(ended_at=here.started_at, to_step=9)
    (only,) = caller.get("/fine_tuning/alerts").json()["data"]
    assert (only["job"], only["rule"], only["title"]) == (jobs[0].public_id, "kl", "Divergence is large")
    assert (only["value"], only["last_value"], only["from_step"], only["to_step"]) == (0.3, 0.4, 7, None)
    page = caller.get("/fine_tuning/alerts?which=all&limit=1").json()
    assert [row["title"] for row in page["data"]] == ["gone"]
    after = caller.get(f"/fine_tuning/alerts?which=all&limit=1&cursor={page['next_cursor']}").json()
    assert [row["id"] for row in after["data"]] == [here.pk]
    assert caller.get(f"/fine_tuning/alerts?job={jobs[1].public_id}").json()["data"] == []
    assert {row["name"] for row in caller.get("/fine_tuning/alert_rules").json()["data"]} == {r.name for r in RULES}
    muted = caller.post(f"/fine_tuning/alerts/{here.pk}/mute").json()
    here.refresh_from_db()
    assert here.muted_by is not None
    assert (muted["muted"], here.muted, here.muted_by.role) == (True, True, Role.RESEARCHER)
    assert caller.post(f"/fine_tuning/alerts/{here.pk}/unmute").json()["muted"] is False
    written = list(AuditEntry.objects.order_by("pk").values_list("action", flat=True))
    assert written[-2:] == ["alert.mute", "alert.unmute"]
    assert "There is no alert 999999" in problem(caller.post("/fine_tuning/alerts/999999/mute"), 404)["detail"]
    over = problem(caller.post(f"/fine_tuning/alerts/{page['data'][0]['id']}/mute"), 409)
    assert "ended at step 9" in over["detail"]
    assert "There is no training job" in problem(caller.get("/fine_tuning/alerts?job=ftjob-none"), 422)["detail"]
    problem(program(pages_seed.person(Role.VIEWER), "read").post(f"/fine_tuning/alerts/{here.pk}/mute"), 403)


def test_compared_jobs_have_the_numbers_of_the_page(caller: Program, jobs: list[TrainingJob]) -> None:
    named = ",".join(job.public_id for job in jobs)
    found = caller.get(f"/fine_tuning/comparison?jobs={named}").json()
    assert [(arm["name"], arm["seeds"]) for arm in found["arms"]] == [("KL off", [1, 2]), ("KL on 1", [1, 2])]
    (setting,) = found["differing"]
    assert [float(value) for value in setting["values"]] == [0.0, 0.01]
    held_out, reward = build_results(group_into_arms(jobs))
    assert [row["title"] for row in found["results"]] == [held_out.title, reward.title]
    second = found["results"][1]["arms"][1]
    assert second["seeds"] == [
        {"seed": seed, "value": pytest.approx(value), "step": reward.step} for seed, value in ((1, 0.3), (2, 0.4))
    ]
    difference = reward.results[1].difference
    assert difference is not None
    assert second["difference"]["mean"] == pytest.approx(0.2) == pytest.approx(difference.mean)
    assert (second["difference"]["count"], found["results"][1]["arms"][0]["difference"]) == (2, None)
    curves = caller.get(f"/fine_tuning/comparison/curves?jobs={named}&keys=reward,nothing&to=8&points=4").json()
    reward_lines, none = (curve["lines"] for curve in curves["data"])
    assert [line["arm"] for line in reward_lines] == [0, 1]
    assert len(reward_lines[0]["x"]) <= 4
    assert reward_lines[0]["y"] == [pytest.approx(0.15)] * len(reward_lines[0]["x"])
    assert reward_lines[0]["low"][0] < 0.15 < reward_lines[0]["high"][0]
    assert [line["x"] for line in none] == [[], []]


def test_what_cannot_be_compared_is_said(caller: Program, jobs: list[TrainingJob]) -> None:
    one = jobs[0].public_id
    assert "2 to 10" in problem(caller.get(f"/fine_tuning/comparison?jobs={one},{one}"), 422)["detail"]
    assert "ftjob-none" in problem(caller.get(f"/fine_tuning/comparison?jobs={one},ftjob-none"), 404)["detail"]
    TrainingJob.objects.filter(pk=jobs[2].pk).update(method="evaluation")
    tries = jobs[2].public_id
    for place in (f"comparison?jobs={one},{tries}", f"comparison/curves?keys=reward&jobs={one},{tries}"):
        refused = problem(caller.get(f"/fine_tuning/{place}"), 422)
        assert f"{tries} evaluate and train nothing" in refused["detail"]
    both = f"jobs={one},{jobs[1].public_id}"
    problem(caller.get(f"/fine_tuning/comparison/curves?{both}&from=9&to=3"), 422)
    problem(caller.get(f"/fine_tuning/comparison/curves?{both}&keys=,"), 422)

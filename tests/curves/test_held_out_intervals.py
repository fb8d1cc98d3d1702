"""Held-out numbers of a job's curves: the 95 % interval over the tasks that they are of."""

from __future__ import annotations

import math

import pytest
from django.test import Client

from tests.fixtures import pages_seed, runs_seed
from tests.runs.test_job_page import points
from webapp.accounts.models import Role
from webapp.runs.curves import chart_points
from webapp.runs.models import MetricKey, MetricPoint

pytestmark = pytest.mark.django_db


@pytest.fixture
def client(db: None) -> Client:
    made = Client()
    made.force_login(pages_seed.person(Role.RESEARCHER))
    return made


def test_held_out_success_has_an_interval_where_its_tasks_are_told(client: Client) -> None:
    from scipy import stats

    job = runs_seed.training_job(steps=40, environments=0)
    (line,) = (one for one in points(client, job, "?chart=success")["charts"]["success"] if one["label"] == "held out")
    assert "band" not in line
    key = MetricKey.objects.create(job=job, name="evaluation/tasks", last_step=40, last_value=100)
    MetricPoint.objects.create(key=key, attempt=1, step=40, value=100)
    (line,) = (one for one in points(client, job, "?chart=success")["charts"]["success"] if one["label"] == "held out")
    at, share = line["x"].index(40), line["y"][line["x"].index(40)]
    told = stats.binomtest(round(share * 100), 100).proportion_ci(0.95, "wilson")
    assert (line["low"][at], line["high"][at]) == pytest.approx((told.low, told.high), abs=0.01)
    assert line["low"][0] is None, "nobody told over how many tasks that one is"
    assert line["band"] == chart_points.OVER_TASKS


def test_held_out_reward_has_an_interval_by_its_deviation_over_tasks(client: Client) -> None:
    """Student's of the mean, for numbers that lie well within 0 and 1; as wide as a share's where they are 0 and 1."""
    from scipy import stats

    job = runs_seed.training_job(steps=40, environments=0)
    told = {"evaluation/tasks": 40.0, "evaluation/reward_deviation": 0.1}
    for name, value in told.items():
        key = MetricKey.objects.create(job=job, name=name, last_step=40, last_value=value)
        MetricPoint.objects.create(key=key, attempt=1, step=40, value=value)

    def interval() -> tuple[float, float, float]:
        lines = points(client, job, "?chart=reward")["charts"]["reward"]
        line = next(one for one in lines if one["label"] == "held out")
        assert line["band"] == chart_points.OVER_TASKS
        at = line["x"].index(40)
        return line["y"][at], line["low"][at], line["high"][at]

    mean, low, high = interval()
    reach = stats.t.ppf(0.975, 39) * 0.1 / math.sqrt(40)
    assert (low, high) == pytest.approx((mean - reach, mean + reach), abs=0.002)
    MetricPoint.objects.filter(key__name="evaluation/reward_deviation").update(value=math.sqrt(mean * (1 - mean)))
    assert interval()[1:] == pytest.approx(
        stats.binomtest(round(mean * 40), 40).proportion_ci(0.95, "wilson"), abs=0.02
    )

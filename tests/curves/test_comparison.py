"""Jobs compared: seeds become one line with an interval, settings that differ are named, results are paired by seed."""

from __future__ import annotations

from typing import Any

import pytest
from django.http import QueryDict
from django.test import Client
from django.urls import reverse

from tests.fixtures import pages_seed, runs_seed
from tests.fixtures.markup import flat, markup
from training.config import Reinforcement
from webapp.accounts.models import Role
from webapp.runs.comparison.arms import group_into_arms
from webapp.runs.comparison.intervals import DIFFERENCE, SHARE, estimate_mean, estimate_paired_difference
from webapp.runs.comparison.table import build_results, list_differing_settings
from webapp.runs.curves.charts import parse_choice
from webapp.runs.models import MetricKey, MetricPoint, TrainingJob

pytestmark = pytest.mark.django_db


@pytest.fixture
def client() -> Client:
    made = Client()
    made.force_login(pages_seed.person(Role.VIEWER))
    return made


def made(
    name: str, seed: int, rewards: list[float], dataset: Any, kl: float = 0.0, held_out: float = 0.5
) -> TrainingJob:
    config = Reinforcement.model_validate({"type": "reinforcement", "seed": seed, "kl": {"coefficient": kl}})
    job = TrainingJob.objects.create(
        name=name,
        method="reinforcement",
        model="m",
        dataset=dataset,
        config=config.model_dump(mode="json"),
        step=len(rewards),
    )
    numbers = {"reward": rewards, "step_s": [3600.0] * len(rewards), "tokens_per_s": [10.0] * len(rewards)}
    for key, values in numbers.items():
        row = MetricKey.objects.create(job=job, name=key, last_step=len(values), last_value=values[-1])
        MetricPoint.objects.bulk_create(
            MetricPoint(key=row, attempt=1, step=step, value=value) for step, value in enumerate(values, 1)
        )
    row = MetricKey.objects.create(job=job, name="evaluation/success", last_step=4, last_value=held_out)
    MetricPoint.objects.create(key=row, attempt=1, step=4, value=held_out)
    return job


@pytest.fixture
def jobs() -> list[TrainingJob]:
    dataset = runs_seed.dataset()
    first = [made(f"KL off, seed {seed}", seed, [0.1 * seed] * 12, dataset, held_out=0.1 * seed) for seed in (1, 2, 3)]
    second = [made(f"KL on {seed}", seed, [0.1 * seed + 0.2] * 9, dataset, kl=0.01, held_out=0.5) for seed in (2, 3)]
    return [*first, *second]


def query(jobs: list[TrainingJob]) -> str:
    return "?" + "&".join(f"job={job.public_id}" for job in jobs)


@pytest.mark.parametrize("count", range(2, 11))
def test_an_interval_is_students(count: int) -> None:
    from scipy.stats import t as student

    values = [0.1 * place**1.5 for place in range(count)]
    mean = sum(values) / count
    deviation = (sum((value - mean) ** 2 for value in values) / (count - 1)) ** 0.5
    reach = student.ppf(0.975, count - 1) * deviation / count**0.5
    told = estimate_mean(values)
    assert told is not None
    assert (told.low, told.high) == pytest.approx((mean - reach, mean + reach), abs=1e-6)


def test_an_interval_of_a_share_ends_where_shares_end() -> None:
    low, high = estimate_mean([0.0, 0.125, 0.0], SHARE), estimate_mean([1.0, 0.9, 1.0], SHARE)
    assert low is not None
    assert high is not None
    assert (low.low, high.high) == (0.0, 1.0)
    assert low.high is not None
    assert low.high < 1
    gap = estimate_paired_difference({1: 0.0, 2: 0.5}, {1: 1.0, 2: 0.6}, DIFFERENCE)
    assert gap is not None
    assert (gap.low, gap.high) == (-1.0, 1.0)


def test_a_young_jobs_mean_says_of_how_many_steps_it_is(jobs: list[TrainingJob]) -> None:
    assert build_results(group_into_arms(jobs))[1].title == "Reward, mean of the 9 steps to 9"


def test_more_jobs_than_are_compared_are_said_and_a_range_is_read_either_way(
    client: Client, jobs: list[TrainingJob]
) -> None:
    named = [*(f"ftjob-{number}" for number in range(8)), *(job.public_id for job in jobs[:4])]
    page = flat(client.get(reverse("runs:compare") + "?" + "&".join(f"job={name}" for name in named)))
    assert "names 2 more: 10 jobs are compared at most" in page
    at = reverse("runs:compare_curves") + query(jobs)
    forth, back = (client.get(f"{at}&{ends}").json()["large"][0]["x"] for ends in ("from=2&to=5", "from=5&to=2"))
    assert forth == back == [2, 3, 4, 5]
    assert parse_choice(QueryDict("from=90&to=20")) == parse_choice(QueryDict("from=20&to=90"))


def test_one_seed_has_no_interval_and_no_shared_seed_no_difference() -> None:
    one = estimate_mean([0.4])
    assert one is not None
    assert (one.mean, one.low, one.high) == (0.4, None, None)
    assert estimate_mean([]) is None
    assert estimate_paired_difference({1: 0.5}, {2: 0.5}) is None
    gap = estimate_paired_difference({1: 0.1, 2: 0.2, 3: 0.3}, {2: 0.4, 3: 0.5, 4: 0.9})
    assert gap is not None
    assert (gap.mean, gap.count) == (pytest.approx(0.2), 2)


def test_seeds_are_one_arm_and_the_same_seed_again_is_none_more(jobs: list[TrainingJob]) -> None:
    arms = group_into_arms(jobs)
    assert [(arm.name, len(arm.jobs)) for arm in arms] == [("KL off", 3), ("KL on 2", 2)]
    twin = made("Twin", 1, [0.5] * 5, jobs[0].dataset)
    assert [len(arm.jobs) for arm in group_into_arms([*jobs[:3], twin])] == [3, 1]
    rows, settings = list_differing_settings(arms)
    assert [row.label for row in rows] == ["Kl: kl coefficient"]
    assert rows[0].values == ("0", "0.01")
    assert settings > 40


def test_results_stand_at_a_step_that_all_have_and_are_paired(jobs: list[TrainingJob]) -> None:
    held_out, reward = build_results(group_into_arms(jobs))
    assert (held_out.step, reward.step) == (4, 9)
    first, second = reward.results
    assert first.mean is not None
    assert first.mean.mean == pytest.approx(0.2)
    assert second.difference is not None
    assert (second.difference.mean, second.difference.count) == (pytest.approx(0.2), 2)
    assert held_out.low <= min(value for result in held_out.results for _, value in result.seeds)


def test_jobs_of_different_length_are_told_by_each_ones_last_evaluation(
    client: Client, jobs: list[TrainingJob]
) -> None:
    """Evaluated together at step 0 alone, before any training, which says nothing of what they learnt."""
    short, long, never = jobs[0], jobs[3], jobs[1]
    MetricPoint.objects.filter(key__name="evaluation/success").delete()
    for job, points in ((short, {0: 0.1, 5: 0.3}), (long, {0: 0.1, 9: 0.6})):
        key = MetricKey.objects.get(job=job, name="evaluation/success")
        MetricPoint.objects.bulk_create(
            MetricPoint(key=key, attempt=1, step=step, value=value) for step, value in points.items()
        )
    held_out, reward = build_results(group_into_arms([short, long]))
    assert (held_out.title, held_out.step) == ("Held-out success, each job's last", 9)
    assert [(one.seeds, one.steps, one.difference) for one in held_out.results] == [
        (((1, 0.3),), (5,), None),
        (((2, 0.6),), (9,), None),
    ]
    assert reward.title.startswith("Reward")
    page = flat(client.get(reverse("runs:compare") + query([short, long])))
    assert "at step 5" in page
    assert "at step 9" in page
    assert page.count("Difference from the first") == 1
    held_out = build_results(group_into_arms([short, long, never]))[0]
    assert [one.steps for one in held_out.results] == [(5,), (9,)], "a seed that was not evaluated is left out"
    key = MetricKey.objects.get(job=long, name="evaluation/success")
    MetricPoint.objects.create(key=key, attempt=1, step=5, value=0.5)
    assert [row.step for row in build_results(group_into_arms([short, long]))[:2]] == [9, 5], (
        "what all have from training stands too"
    )


def test_a_model_that_was_waited_for_is_that_model(jobs: list[TrainingJob]) -> None:
    first, second = jobs[:2]
    TrainingJob.objects.filter(pk=first.pk).update(model="after", after=jobs[3])
    TrainingJob.objects.filter(pk=second.pk).update(model=f"ft:{jobs[3].public_id}")
    both = TrainingJob.objects.order_by("pk").select_related("after")
    arms = group_into_arms(list(both.filter(pk__in=[first.pk, second.pk])))
    assert [len(arm.jobs) for arm in arms] == [2]
    other = group_into_arms(list(both.filter(pk__in=[first.pk, jobs[4].pk])))
    assert {row.label: row.values for row in list_differing_settings(other)[0]}["Model"] == (
        f"ft:{jobs[3].public_id}",
        "m",
    )


def test_evaluations_are_compared_elsewhere(client: Client, jobs: list[TrainingJob]) -> None:
    tries = made("Tries", 1, [0.5], jobs[0].dataset)
    TrainingJob.objects.filter(pk=tries.pk).update(method="evaluation")
    page = flat(client.get(reverse("runs:compare") + query([jobs[0], tries])))
    assert "Tries is an evaluation, which trains nothing" in page
    assert "1 job of 10" in page
    assert page.count("Remove<span") == 1
    told = client.get(reverse("runs:compare_curves") + query([jobs[0], tries])).json()
    assert len(told["large"]) == 1
    assert "Tries" not in flat(client.get(reverse("runs:compare")))


def test_the_lines_are_means_over_seeds(client: Client, jobs: list[TrainingJob]) -> None:
    told = client.get(reverse("runs:compare_curves") + query(jobs) + "&x=time").json()
    first, second = told["large"]
    assert first["label"] == "KL off, 3 seeds"
    assert first["x"] == list(range(1, 13))
    assert second["x"] == list(range(1, 10))
    assert first["y"][0] == pytest.approx(0.2)
    assert first["low"][0] < 0.1 < 0.3 < first["high"][0]
    assert told["clocks"][0]["step"][-1] == 12
    assert told["clocks"][0]["time"][-1] == pytest.approx(12)
    assert told["clocks"][0]["tokens"][-1] == pytest.approx(12 * 36_000)
    alone = client.get(reverse("runs:compare_curves") + query(jobs[:1])).json()
    assert "low" not in alone["large"][0]


def test_the_page_adds_removes_and_bounds(client: Client, jobs: list[TrainingJob]) -> None:
    page = flat(client.get(reverse("runs:compare") + query(jobs) + "&job=ftjob-gone"))
    assert "There is no training job ftjob-gone" in page
    assert "1 of " in page
    assert page.count("Remove<span") == 5
    assert "no interval" not in page
    empty = markup(client.get(reverse("runs:compare")))
    assert "Add a job" in empty
    more = [made(f"More {number}", 0, [0.5], jobs[0].dataset, kl=number / 100) for number in range(3, 9)]
    full = markup(client.get(reverse("runs:compare") + query([*jobs, *more])))
    assert "10 jobs of 10 at most" in full
    assert "remove one" in full


def test_a_hostile_name_is_text(client: Client) -> None:
    job = made("<img src=x onerror=alert(1)>", 1, [0.5] * 3, runs_seed.dataset())
    assert "<img" not in markup(client.get(reverse("runs:compare") + query([job])))
    told = client.get(reverse("runs:compare_curves") + query([job])).json()
    assert "<" not in told["large"][0]["label"]

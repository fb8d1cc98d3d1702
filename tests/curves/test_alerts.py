"""Alerts: each rule begins and ends where it says, once, as numbers are taken in; stalls by the clock; muted, told."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from tests.fixtures import pages_seed
from tests.fixtures.markup import markup
from tests.workers.worker_support import claimed, take, values
from webapp.accounts.models import Role
from webapp.runs import transitions
from webapp.runs.alerts import stalls
from webapp.runs.alerts.rules import BY_NAME, RULES
from webapp.runs.models import (
    Checkpoint,
    CheckpointState,
    TrainingAlert,
    TrainingAttempt,
    TrainingEvent,
    TrainingJob,
    TrainingState,
)
from webapp.webhooks import services
from webapp.webhooks.models import Delivery

pytestmark = pytest.mark.django_db
Numbers = dict[str, float | None]


def course(of: Callable[[int], Numbers], steps: Sequence[int], seq: int = 1) -> list[dict[str, Any]]:
    return [values(seq + place, step, **of(step)) for place, step in enumerate(steps)]


def told(job: TrainingJob) -> list[tuple[str, int, int | None]]:
    rows = TrainingAlert.objects.filter(job=job).order_by("pk")
    return list(rows.values_list("rule", "from_step", "to_step"))


def healthy(step: int) -> Numbers:
    return {"reward": 0.5, "entropy": 0.6, "loss": 0.1, "kl": 0.01, "flat_groups": 0.3, "masked": 0.0, "step_s": 30.0}


CASES: dict[str, tuple[Callable[[int], Numbers], int, int]] = {
    "no_number": (lambda step: {"loss": None if step == 40 else 0.1}, 40, 41),
    # The ten steps' mean passes half of the best at the sixth low step (0.5 -> 0.05), and 0.7 of it six steps later.
    "reward_collapse": (lambda step: {"reward": 0.05 if 40 <= step < 50 else 0.5}, 45, 56),
    "entropy_collapse": (lambda step: {"entropy": 0.01 if 40 <= step < 50 else 0.6}, 48, 52),
    "flat_groups": (lambda step: {"flat_groups": 1.0 if 40 <= step < 50 else 0.3}, 43, 52),
    "kl": (lambda step: {"kl": 0.5 if 40 <= step < 50 else 0.01}, 41, 53),
    "sampling_gap": (lambda step: {"sampling_gap": 0.3 if 40 <= step < 50 else 0.02}, 41, 53),
    # Above the lowest ten by 0.1 from the third high step on; by 0.05 no more with the ninth low one.
    "user_faults": (lambda step: {"user_fault": 0.5 if 40 <= step < 50 else 0.1}, 42, 58),
    "lost_attempts": (lambda step: {"outcome__infra_error": 0.2} if 40 <= step < 50 else {}, 41, 54),
}


@pytest.mark.parametrize("rule", CASES)
def test_a_rule_begins_and_ends_where_it_says(rule: str) -> None:
    of, first, last = CASES[rule]
    job, _, _ = claimed()
    steps = range(1, 61)
    records = course(lambda step: healthy(step) | of(step), steps)
    for start in range(0, 60, 7):
        take(job, records[start : start + 7])
    assert told(job) == [(rule, first, last)]
    row = TrainingAlert.objects.get(job=job)
    assert row.ended_at is not None
    assert row.message
    events = TrainingEvent.objects.filter(job=job, kind="alert").order_by("pk")
    assert [event.level for event in events] == ["warn", "info"]
    assert events[1].message.startswith(f"Over since step {last}: ")


def test_what_is_told_of_an_ended_alert_says_how_it_ended() -> None:
    services.create_webhook(None, "pager", "http://127.0.0.1:9/hook")
    job, _, _ = claimed()
    take(job, course(lambda step: healthy(step) | CASES["kl"][0](step), range(1, 61)))
    ended = Delivery.objects.get(type="training.alert.ended").payload["data"]["message"]
    assert ended.startswith("Over since step 53: divergence is large. It is 0.108 nats, below 0.15 nats, after ")


def test_the_table_above_has_every_rule_on_numbers() -> None:
    assert set(CASES) == {rule.name for rule in RULES if rule.measure is not None}
    assert BY_NAME["reward_collapse"].begins(0.49)
    assert not BY_NAME["reward_collapse"].ends(0.69)


def test_arriving_at_once_gives_the_same_alerts_as_one_by_one() -> None:
    of = CASES["kl"][0]
    records = course(lambda step: healthy(step) | of(step), range(1, 61))
    together, _, _ = claimed()
    take(together, records)
    transitions.fail_job(together, "x", "Made room.")
    apart, _, _ = claimed()
    for record in records:
        take(apart, [record])
    assert told(together) == told(apart) == [("kl", 41, 53)]


def test_a_supervised_job_is_not_judged_by_rewards() -> None:
    job, _, _ = claimed(method="supervised")
    take(job, course(lambda step: {"loss": 0.1, "kl": 9.0, "reward": 1.0 if step < 30 else 0.0}, range(1, 61)))
    assert told(job) == []


def test_numbers_that_a_resumed_job_supersedes_end_the_alert() -> None:
    job, _, _ = claimed()
    take(job, course(lambda step: healthy(step) | ({"kl": 0.5} if step > 30 else {}), range(1, 41)))
    assert told(job) == [("kl", 32, None)]
    attempt = TrainingAttempt.objects.get(job=job, number=job.attempt)
    transitions.lose_attempt(job, attempt, "The worker was lost.")
    Checkpoint.objects.create(job=job, attempt=1, step=30, state=CheckpointState.READY)
    job, _, _ = claimed(job)
    take(job, course(healthy, range(31, 33)))
    assert told(job) == [("kl", 32, 31)]


def test_a_wild_number_makes_no_error() -> None:
    job, _, _ = claimed()
    take(job, course(lambda step: healthy(step) | {"kl": 1e99 * (-1) ** step, "reward": -1e99}, range(1, 40)))
    take(job, [values(40, 40, reward=1e308, kl=-1e308)])
    assert all(math.isfinite(row.value) for row in TrainingAlert.objects.filter(job=job))


def stand_still(job: TrainingJob, seconds: float) -> None:
    ago = timezone.now() - timedelta(seconds=seconds)
    TrainingJob.objects.filter(pk=job.pk).update(advanced_at=ago)
    TrainingAttempt.objects.filter(job=job).update(started_at=ago - timedelta(seconds=60))


def test_a_job_that_says_nothing_stalls_and_goes_on() -> None:
    job, _, _ = claimed()
    take(job, course(lambda step: healthy(step) | {"step_s": 120.0}, range(1, 6)))
    stand_still(job, 1_100)
    stalls.check_stalls()
    assert told(job) == []
    stand_still(job, 1_330)
    stalls.check_stalls()
    stalls.check_stalls()
    assert told(job) == [("stall", 5, None)]
    assert TrainingAlert.objects.get().message == "No number for 22 minutes, where 20 are waited for."
    take(job, [values(6, 6, reward=0.5)])
    assert told(job) == [("stall", 5, 6)]


def test_a_job_that_runs_no_more_stalls_no_more() -> None:
    job, _, _ = claimed()
    TrainingAttempt.objects.filter(job=job).update(started_at=timezone.now() - timedelta(hours=2))
    stalls.check_stalls()
    assert told(job) == [("stall", 0, None)]
    TrainingJob.objects.filter(pk=job.pk).update(state=TrainingState.PAUSED)
    stalls.check_stalls()
    assert told(job) == [("stall", 0, 0)]


@pytest.fixture
def client() -> Client:
    made = Client()
    made.force_login(pages_seed.person(Role.RESEARCHER))
    return made


def test_pages_show_an_alert_and_a_muted_one_is_told_to_nobody(client: Client) -> None:
    services.create_webhook(None, "pager", "http://127.0.0.1:9/hook")
    job, _, _ = claimed()
    take(job, course(lambda step: healthy(step) | ({"kl": 0.5} if step > 30 else {}), range(1, 41)))
    began = Delivery.objects.get()
    assert began.type == "training.alert.began"
    assert (began.payload["data"]["rule"], began.payload["data"]["from_step"]) == ("kl", 32)
    page = reverse("runs:job", args=[job.public_id])
    words = "Divergence is large"
    for url in (page, reverse("runs:list"), reverse("runs:alerts")):
        assert words in markup(client.get(url)), url
    marks = client.get(reverse("runs:job_curves", args=[job.public_id])).json()["marks"]
    assert [(mark["step"], mark["kind"]) for mark in marks] == [(32, "alert")]
    alert = TrainingAlert.objects.get()
    client.post(reverse("runs:mute_alert", args=[alert.pk]))
    assert words not in markup(client.get(reverse("runs:list")))
    assert "Unmute" in markup(client.get(page))
    take(job, course(healthy, range(41, 51), seq=41))
    assert TrainingAlert.objects.get().ended_at is not None
    assert Delivery.objects.count() == 1


def test_a_mute_leads_back_to_this_site_alone(client: Client) -> None:
    job, _, _ = claimed()
    alert = TrainingAlert.objects.create(job=job, rule="kl", message="m", value=1, last_value=1, from_step=1)
    answer = client.post(reverse("runs:mute_alert", args=[alert.pk]), {"back": "https://elsewhere.example/"})
    assert answer.headers["Location"] == reverse("runs:job", args=[job.public_id])

"""Cancel, pause and resume in every state; what a person's act leaves behind."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from synthesis.errors import InputError
from tests.fixtures import pages_seed
from tests.runs.job_support import asks, frozen, tasks
from webapp.accounts.models import AuditEntry
from webapp.datasets.models import DatasetState
from webapp.runs import control
from webapp.runs.models import TrainingEvent, TrainingJob, TrainingState
from webapp.runs.services import create_job

pytestmark = pytest.mark.django_db
ACTS = {"cancel": control.cancel_job, "pause": control.pause_job, "resume": control.resume_job}


@pytest.fixture
def user() -> Any:
    return pages_seed.person("researcher")


def job_in(state: str, user: Any, **fields: Any) -> TrainingJob:
    row = create_job(asks(frozen(tasks())), user)
    TrainingJob.objects.filter(pk=row.pk).update(state=state, **fields)
    return TrainingJob.objects.get(pk=row.pk)


@pytest.mark.parametrize(
    ("act", "before", "after", "wish"),
    [
        ("cancel", "validating_files", "cancelled", ""),
        ("cancel", "queued", "cancelled", ""),
        ("cancel", "running", "running", "cancel"),
        ("cancel", "paused", "cancelled", ""),
        ("pause", "validating_files", "paused", ""),
        ("pause", "queued", "paused", ""),
        ("pause", "running", "running", "pause"),
        ("pause", "paused", "paused", ""),
        ("resume", "paused", "queued", ""),
        ("resume", "failed", "queued", ""),
        ("resume", "running", "running", ""),
    ],
)
def test_what_an_act_makes_of_a_state(act: str, before: str, after: str, wish: str, user: Any) -> None:
    row = job_in(before, user)
    found = ACTS[act](row, user)
    stored = TrainingJob.objects.get(pk=row.pk)
    assert (found.state, found.wish) == (stored.state, stored.wish) == (after, wish)
    assert (stored.finished_at is not None) == (after == "cancelled")


@pytest.mark.parametrize(
    ("act", "state"),
    [(act, state) for act in ("cancel", "pause") for state in ("succeeded", "failed", "cancelled")]
    + [("resume", state) for state in ("succeeded", "cancelled", "queued", "validating_files")],
)
def test_what_cannot_be_done_is_refused_in_words_and_changes_nothing(act: str, state: str, user: Any) -> None:
    row = job_in(state, user)
    events = TrainingEvent.objects.count()
    with pytest.raises(control.NotNow, match=row.public_id):
        ACTS[act](row, user)
    assert TrainingJob.objects.filter(pk=row.pk, state=state, wish="").exists()
    assert TrainingEvent.objects.count() == events


def test_a_job_that_is_being_cancelled_is_neither_paused_nor_resumed(user: Any) -> None:
    row = control.cancel_job(job_in("running", user), user)
    assert control.cancel_job(row, user).wish == "cancel"
    for act in (control.pause_job, control.resume_job):
        with pytest.raises(control.NotNow, match="being cancelled"):
            act(row, user)


def test_a_pause_that_was_asked_for_can_be_taken_back(user: Any) -> None:
    row = control.pause_job(job_in("running", user), user)
    assert control.resume_job(row, user).wish == ""


def test_resuming_forgets_what_ended_it_and_takes_higher_limits(user: Any) -> None:
    row = job_in(
        "failed", user, error="Out of memory", error_code="memory", lost=3, calls_made=10, finished_at=timezone.now()
    )
    control.resume_job(row, user, hours=5.0, calls_allowed=20)
    row.refresh_from_db()
    assert (row.state, row.error, row.error_code, row.lost, row.finished_at) == ("queued", "", "", 0, None)
    assert row.config["limits"]["hours"] == 5.0
    assert row.changes["limits"] == {"hours": 5.0}
    assert row.calls_allowed == 20


@pytest.mark.parametrize("limits", [{"hours": 0.0}, {"hours": 1e9}, {"calls_allowed": 3}])
def test_limits_that_do_not_fit_change_nothing(limits: dict[str, Any], user: Any) -> None:
    row = job_in("paused", user, calls_made=10)
    with pytest.raises(InputError, match=r"hours|calls_allowed"):
        control.resume_job(row, user, **limits)
    assert TrainingJob.objects.get(pk=row.pk).state == TrainingState.PAUSED


def test_a_running_jobs_limits_stay(user: Any) -> None:
    with pytest.raises(control.NotNow, match="pause it"):
        control.resume_job(job_in("running", user), user, hours=5.0)


def test_a_paused_job_waits_again_for_what_is_not_there_yet(user: Any) -> None:
    row = job_in("paused", user)
    row.dataset.state = DatasetState.FREEZING
    row.dataset.save()
    assert control.resume_job(row, user).state == TrainingState.VALIDATING


def test_an_act_does_not_undo_what_a_worker_counts_meanwhile(user: Any) -> None:
    row = job_in("running", user)
    TrainingJob.objects.filter(pk=row.pk).update(step=7, trained_tokens=99, calls_made=5)
    control.pause_job(row, user)
    row.refresh_from_db()
    assert (row.step, row.trained_tokens, row.calls_made) == (7, 99, 5)


def test_acts_are_in_the_audit_log_and_in_the_jobs_own(user: Any) -> None:
    row = job_in("queued", user)
    control.pause_job(row, user)
    control.resume_job(row, user)
    control.cancel_job(row, user)
    written = AuditEntry.objects.filter(action__startswith="training.").order_by("pk").values_list("action", flat=True)
    assert list(written) == ["training.create", "training.pause", "training.resume", "training.cancel"]
    said = " ".join(TrainingEvent.objects.filter(job=row).values_list("message", flat=True))
    assert all(word in said for word in ("paused", "resumed", "cancelled"))

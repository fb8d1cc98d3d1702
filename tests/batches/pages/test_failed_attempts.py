"""A batch names what made an attempt earn nothing, and explains a reference whose own run earned less than it."""

from __future__ import annotations

import pytest
from django.test import Client

from tests.batches.support import make_batch, settings_at, work_off
from tests.batches.table import answer
from tests.fixtures.llm import llm_server
from tests.fixtures.markup import flat, words
from tests.rollouts_web.support import person
from webapp.batches.models import Batch, BatchAttempt, BatchItem, ItemState
from webapp.trajectories.models import Score, Trajectory

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def who() -> Client:
    client = Client()
    client.force_login(person("operator", "op"))
    return client


@pytest.fixture
def batch() -> Batch:
    """A batch whose one attempt played the reference, and changed something outside of the frame."""
    with llm_server(answer) as server:
        made = work_off(make_batch(person("researcher"), settings_at(server.url), ["one"]))
    trajectory = Trajectory.objects.get()
    score = trajectory.scores.latest("pk")
    outside = [{"path": "/boxes/B-2/open", "kind": "changed", "count": 1}]
    kept = {"revision": score.revision, "verifier_hash": score.verifier_hash, "verdicts": score.verdicts}
    Score.objects.create(
        trajectory=trajectory, **kept, reward=0, passed=1, total=1, outside=outside, source=score.source
    )
    Trajectory.objects.update(reward=0, outcome="failed")
    return made


def copy_failed(trajectory: Trajectory) -> Trajectory:
    """An attempt that made the same calls, and of which no check holds."""
    steps, score = list(trajectory.steps.all()), trajectory.scores.latest("pk")
    row = Trajectory.objects.get(pk=trajectory.pk)
    row.pk, row.content_hash = None, "3" * 64
    row.save()
    for part in (*steps, score):
        part.pk, part.trajectory = None, row
    score.outside, score.verdicts = [], [verdict | {"passed": False} for verdict in score.verdicts]
    for part in (*steps, score):
        part.save()
    return row


def test_a_rejected_attempt_says_which_change_made_the_zero(batch: Batch, who: Client) -> None:
    trajectory = Trajectory.objects.get()
    BatchItem.objects.filter(level="trajectory").update(
        state=ItemState.REJECTED, reason="not_solved", signature="filter", message="It earned 0.", attempt=trajectory
    )
    page = flat(who.get(f"/batches/{batch.pk}/?tab=failures"))
    assert f'<a href="/trajectories/{trajectory.pk}/#outside">1 unrequested change</a>' in page


def test_a_run_that_became_the_reference_and_earned_nothing_is_marked_and_explained(batch: Batch, who: Client) -> None:
    task, trajectory = batch.items.get(level="task"), Trajectory.objects.get()
    BatchAttempt.objects.create(item=task, role="solver", ordinal=0, trajectory=trajectory, outcome="failed")
    page = flat(who.get(f"/batches/items/{task.pk}/"))
    assert "reference" in words(page[page.index('id="attempts"') :])
    assert "This run is the task's reference, but did not earn the full reward itself." in page
    assert "All checks hold at its end." in page, "its frame made the zero"
    assert "#outside" in page
    failed = copy_failed(trajectory)
    BatchAttempt.objects.create(item=task, role="solver", ordinal=1, trajectory=failed, outcome="failed")
    BatchAttempt.objects.filter(trajectory=trajectory).update(ordinal=2)
    marked = [line for line in flat(who.get(f"/batches/items/{task.pk}/")).split("<li>") if "◆" in line]
    assert len(marked) == 1
    assert f"/trajectories/{trajectory.pk}/" in marked[0], "a run that failed made the same calls, and is not it"
    BatchAttempt.objects.filter(trajectory=trajectory).delete()
    assert "were repaired after that" in flat(who.get(f"/batches/items/{task.pk}/"))
    BatchAttempt.objects.filter(trajectory=failed).update(trajectory=trajectory)
    failed.delete()
    Trajectory.objects.update(reward=1, outcome="solved")
    assert "but did not earn" not in flat(who.get(f"/batches/items/{task.pk}/"))
    trajectory.steps.exclude(tool="").update(arguments={"box_id": "B-9"})
    shown = flat(who.get(f"/batches/items/{task.pk}/"))
    assert "◆" not in shown[shown.index('id="attempts"') : shown.index("</ul>", shown.index('id="attempts"'))]
